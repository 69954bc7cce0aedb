/* See rows_in.h. Sorting by expert is counting: stable, so that a token's rows keep the order of
 * tokens within an expert, and linear. */
#include "rows_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "room.h"

#define ROWS_PER_TURN 8 /* rows a worker takes at a time */

static void rows_in_fini(struct rows_in *in)
{
    ork_input_destroy(in->input);
    free(in->parts);
    free(in->places);
    free(in->part_sizes);
    free(in->cells);
    memset(in, 0, sizeof(*in));
}

void rows_in_cache_fini(struct rows_in_cache *cache)
{
    for (size_t i = 0; i < ROWS_IN_KEPT; i++)
        rows_in_fini(&cache->kept[i]);
    free(cache->rooms);
    free(cache->first);
    memset(cache, 0, sizeof(*cache));
}

void rows_in_cache_forget(struct rows_in_cache *cache)
{
    for (size_t i = 0; i < ROWS_IN_KEPT; i++) {
        cache->kept[i].tensor = NULL;
        cache->kept[i].pinned = 0;
    }
}

size_t rows_in_n_pinned(const struct rows_in_cache *cache)
{
    size_t n = 0;

    for (size_t i = 0; i < ROWS_IN_KEPT; i++)
        n += cache->kept[i].pinned > 0;
    return n;
}

/* ---- which rows meet which matrix -------------------------------------------------------- */

/* Parts of `rows` rows of one matrix, the first of them at place `first`. */
static void add_parts(struct rows_in *in, uint32_t matrix, uint32_t first, uint32_t rows)
{
    while (rows) {
        const uint32_t m = rows < in->part_rows ? rows : in->part_rows;

        in->part_sizes[in->n_parts] = m;
        in->parts[in->n_parts++] = (struct rows_part){matrix, m, first};
        first += m;
        rows -= m;
    }
}

static int make_room(struct rows_in *in, const struct rows_shape *shape, size_t rows)
{
    const size_t most_parts = shape->weight->n_matrices + rows / shape->part_rows + 1;

    in->n_parts = 0;
    in->n_rows = rows;
    in->part_rows = shape->part_rows;
    in->n_matrices = shape->weight->n_matrices;
    in->ids = shape->ids;
    if (!ROOM(in, parts, room_parts, most_parts) || !ROOM(in, part_sizes, room_sizes, most_parts) ||
        !ROOM(in, places, room_rows, rows) || !ROOM(in, cells, room_cells, rows))
        return -ENOMEM;
    return 0;
}

static int spread_dense(struct rows_in *in, const struct ggml_tensor *x,
                        const struct rows_shape *shape)
{
    const size_t rows = (size_t)ggml_nrows(x);
    const uint32_t n_matrices = shape->weight->n_matrices;
    const uint32_t each = (uint32_t)(n_matrices == 1 ? ggml_nrows(x) : x->ne[1]);
    const size_t parts_each = (each + shape->part_rows - 1) / shape->part_rows;
    int rc = make_room(in, shape, rows);

    if (rc < 0 || !ROOM(in, parts, room_parts, parts_each * n_matrices) ||
        !ROOM(in, part_sizes, room_sizes, parts_each * n_matrices))
        return -ENOMEM;
    for (uint32_t i = 0; i < rows; i++)
        in->places[i] = in->cells[i] = i;
    for (uint32_t i = 0; i < n_matrices; i++)
        add_parts(in, i, i * each, each);
    return 0;
}

static int32_t expert_of(const struct ggml_tensor *ids, int64_t slot, int64_t token)
{
    int32_t id;

    memcpy(&id, (const char *)ids->data + slot * ids->nb[0] + token * ids->nb[1], sizeof(id));
    return id;
}

/* next[e] becomes the place of expert e's first row. */
static int count_rows(const struct ggml_tensor *ids, uint32_t n_experts, uint32_t *next,
                      struct ork_error *error)
{
    memset(next, 0, (n_experts + 1) * sizeof(*next));
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t s = 0; s < ids->ne[0]; s++) {
            const int32_t e = expert_of(ids, s, t);

            if (e < 0 || (uint32_t)e >= n_experts) {
                error->code = -EINVAL;
                snprintf(error->text, sizeof(error->text), "a row is routed to expert %d of %u.", e,
                         n_experts);
                return -EINVAL;
            }
            next[e + 1]++;
        }
    for (uint32_t e = 0; e < n_experts; e++)
        next[e + 1] += next[e];
    return 0;
}

static int spread_routed(struct rows_in_cache *cache, struct rows_in *in,
                         const struct rows_shape *shape, struct ork_error *error)
{
    const struct ggml_tensor *ids = shape->ids;
    const size_t rows = (size_t)(ids->ne[0] * ids->ne[1]);
    const uint32_t n_experts = shape->weight->n_matrices;
    int rc = make_room(in, shape, rows);

    if (rc < 0 || !ROOM(cache, first, n_first, n_experts + 1))
        return -ENOMEM;
    rc = count_rows(ids, n_experts, cache->first, error);
    if (rc < 0)
        return rc;
    for (uint32_t e = 0; e < n_experts; e++)
        add_parts(in, e, cache->first[e], cache->first[e + 1] - cache->first[e]);
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t s = 0; s < ids->ne[0]; s++) {
            const uint32_t place = cache->first[expert_of(ids, s, t)]++;
            const uint32_t cell = (uint32_t)(t * ids->ne[0] + s);

            in->cells[cell] = place;
            in->places[place] = cell;
        }
    return 0;
}

/* ---- coding ------------------------------------------------------------------------------ */

struct coding {
    struct rows_in *in;
    const struct rows_source *source;
    const struct packed_weight *weight;
    float *rooms;
    size_t room_floats; /* of one worker */
    int64_t rows;
    int64_t slots;  /* cells of a token, routed; 1 dense */
    int64_t x_rows; /* rows of x of a token, routed; 1 dense */
};

/* y, what ork_quantise_row needs, its scales and its codes. */
static size_t room_of(uint32_t k)
{
    return 2 * (size_t)k + WEIGHT_FORMAT_SCALES + (k + sizeof(float) - 1) / sizeof(float);
}

/* The part that holds a place. */
static size_t part_of(const struct rows_in *in, uint32_t place)
{
    size_t low = 0, high = in->n_parts;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (in->parts[middle].first <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Puts the coded row at every place that token's row has. */
static void put_row(const struct coding *c, int64_t row, const int8_t *codes, const float *scales)
{
    const int64_t token = row / c->x_rows;

    for (int64_t s = row % c->x_rows; s < c->slots; s += c->x_rows) {
        const uint32_t place = c->in->cells[token * c->slots + s];
        const size_t part = part_of(c->in, place);

        ork_input_put(c->in->input, part, place - c->in->parts[part].first, codes, scales);
    }
}

static void code_row(const struct coding *c, int64_t row, float *room)
{
    const uint32_t k = c->in->k;
    const struct ork_quantise how = weight_format_quantise(&c->weight->format);
    float *y = room + k, *scales = y + k;
    int8_t *codes = (int8_t *)(scales + WEIGHT_FORMAT_SCALES);
    const float *x = norm_row_of(c->source->x, row);

    if (c->source->norm) {
        norm_row(y, x, c->source->norm, k);
        x = y;
        if (c->source->plain)
            memcpy(c->source->plain + (size_t)row * k, y, k * sizeof(*y));
    }
    ork_quantise_row(&how, weight_format_code_max(&c->weight->format), x, k,
                     c->weight->format.group, room, codes, scales);
    put_row(c, row, codes, scales);
}

static void code_rows(void *user, size_t turn, uint32_t worker)
{
    const struct coding *c = user;
    const int64_t first = (int64_t)turn * ROWS_PER_TURN;
    const int64_t end = first + ROWS_PER_TURN < c->rows ? first + ROWS_PER_TURN : c->rows;

    for (int64_t row = first; row < end; row++)
        code_row(c, row, c->rooms + worker * c->room_floats);
}

static int code(struct rows_in_cache *cache, struct rows_in *in, const struct rows_source *source,
                const struct rows_shape *shape)
{
    const struct packed_weight *w = shape->weight;
    struct coding c = {.in = in,
                       .source = source,
                       .weight = w,
                       .room_floats = room_of(in->k),
                       .rows = ggml_nrows(source->x),
                       .slots = shape->ids ? shape->ids->ne[0] : 1,
                       .x_rows = shape->ids ? source->x->ne[1] : 1};
    int rc = ork_input_begin(in->input, in->part_sizes, in->n_parts, w->format.group > 0);

    if (rc >= 0 && !ROOM(cache, rooms, n_rooms, c.room_floats * workers_count(w->workers)))
        rc = -ENOMEM;
    if (rc < 0)
        return rc;
    c.rooms = cache->rooms;
    workers_run(w->workers, (size_t)((c.rows + ROWS_PER_TURN - 1) / ROWS_PER_TURN), code_rows, &c);
    cache->n_coded += (uint64_t)c.rows;
    return ork_input_finish(in->input);
}

/* ---- what is kept ------------------------------------------------------------------------ */

static bool fits(const struct rows_in *in, const struct packed_weight *w)
{
    return in->input && in->k == w->k && in->domain == w->domain;
}

static bool is_found(const struct rows_in *in, const struct ggml_tensor *tensor,
                     const struct rows_shape *shape)
{
    return fits(in, shape->weight) && in->tensor == tensor && in->ids == shape->ids &&
           in->part_rows == shape->part_rows && in->n_matrices == shape->weight->n_matrices;
}

/* An unused one, else the one unused longest among those that fit, else among all; never a pinned
 * one, of which there are fewer than all. */
static struct rows_in *pick(struct rows_in_cache *cache, const struct packed_weight *w)
{
    struct rows_in *best = NULL;

    for (size_t i = 0; i < ROWS_IN_KEPT; i++) {
        struct rows_in *in = &cache->kept[i];

        if (!in->input)
            return in;
        if (in->pinned)
            continue;
        if (!best || fits(in, w) > fits(best, w) ||
            (fits(in, w) == fits(best, w) && in->used < best->used))
            best = in;
    }
    if (!fits(best, w))
        rows_in_fini(best);
    return best;
}

static int fill(struct rows_in_cache *cache, struct ork_device *npu, struct rows_in *in,
                const struct rows_source *source, const struct rows_shape *shape,
                struct ork_error *error)
{
    const struct packed_weight *w = shape->weight;
    int rc = 0;

    in->tensor = NULL;
    if (!in->input)
        rc = ork_input_create(npu, w->matrices[0], 1, &in->input, error);
    if (rc < 0)
        return rc;
    in->k = w->k;
    in->domain = w->domain;
    rc = shape->ids ? spread_routed(cache, in, shape, error) : spread_dense(in, source->x, shape);
    return rc < 0 ? rc : code(cache, in, source, shape);
}

int rows_in_get(struct rows_in_cache *cache, struct ork_device *npu,
                const struct ggml_tensor *tensor, const struct rows_source *source,
                const struct rows_shape *shape, const struct rows_in **out, struct ork_error *error)
{
    struct rows_in *in = NULL;
    int rc;

    for (size_t i = 0; !in && i < ROWS_IN_KEPT; i++)
        if (is_found(&cache->kept[i], tensor, shape))
            in = &cache->kept[i];
    if (in) {
        cache->n_shared += (uint64_t)ggml_nrows(source->x);
        in->pinned -= in->pinned > 0;
    } else {
        in = pick(cache, shape->weight);
        rc = fill(cache, npu, in, source, shape, error);
        if (rc < 0)
            return rc;
        in->tensor = tensor;
        in->pinned = source->n_readers;
    }
    in->used = ++cache->clock;
    *out = in;
    return 0;
}
