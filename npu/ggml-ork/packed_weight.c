/* Packing goes row by row through ggml's own to_float, so every type ggml can read needs no code of
 * ours. ggml's bytes come from a file, so shapes are checked before anything is multiplied. */
#include "packed_weight.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K_MULTIPLE   32 /* of a block of the NPU and of every quantised type */
#define N_LEAST      16 /* narrower outputs waste most of a kernel group */
#define ROWS_AT_ONCE 64 /* what two threads may pack side by side */

static bool type_is_listed(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_MXFP4:
        return true;
    default:
        return false;
    }
}

/* K below 2^17 keeps an int32 sum of int8 products exact. */
static bool shape_is_in_range(const struct ggml_tensor *t)
{
    return t->ne[0] >= K_MULTIPLE && t->ne[0] < 1 << 17 && t->ne[0] % K_MULTIPLE == 0 &&
           t->ne[1] >= N_LEAST && t->ne[1] <= 1 << 22 && t->ne[2] >= 1 && t->ne[3] >= 1 &&
           t->ne[2] <= 1 << 16 && t->ne[3] <= 1 << 16 && t->ne[2] * t->ne[3] <= 1 << 16 &&
           t->ne[0] % ggml_blck_size(t->type) == 0;
}

bool packed_weight_fits(const struct ggml_tensor *t)
{
    return type_is_listed(t->type) && shape_is_in_range(t) && ggml_is_contiguous(t) &&
           ork_weight_bytes(ORK_I8_I32, (uint32_t)t->ne[1], (uint32_t)t->ne[0], NULL, NULL) > 0;
}

size_t packed_weight_bytes(const struct weight_format *format, const struct ggml_tensor *t)
{
    struct weight_format own;
    struct ork_weight_options options;
    size_t one;

    if (!packed_weight_fits(t))
        return 0;
    own = weight_format_for(format, (uint32_t)t->ne[0]);
    options = weight_format_options(&own);
    one = ork_weight_bytes(own.type, (uint32_t)t->ne[1], (uint32_t)t->ne[0], &options, NULL);
    one += (size_t)t->ne[1] * weight_format_n_scales(&own, (uint32_t)t->ne[0]) * sizeof(float);
    /* ggml wants no less than the tensor's own bytes, of each matrix too: it may be set alone. */
    one = one > t->nb[2] ? one : t->nb[2];
    return (size_t)(t->ne[2] * t->ne[3]) * one;
}

static int create_matrices(const struct packed_place *place, struct packed_weight *w,
                           struct ork_error *error)
{
    struct ork_weight_options options = weight_format_options(&w->format);
    const uint64_t bytes =
        w->n_matrices * ork_weight_bytes(w->format.type, w->n, w->k, &options, NULL);
    int rc = domain_budget_take(place->budget, bytes);

    if (rc < 0) {
        snprintf(error->text, sizeof(error->text),
                 "%" PRIu64 " bytes are more than what is left of the NPU's addresses.", bytes);
        return rc;
    }
    w->budget = place->budget;
    w->device_bytes = bytes;
    options.domain = w->domain = (uint32_t)rc;
    rc = 0;
    for (uint32_t i = 0; rc >= 0 && i < w->n_matrices; i++)
        rc = ork_weight_create(place->npu, w->format.type, w->n, w->k, &options, &w->matrices[i],
                               error);
    return rc;
}

int packed_weight_create(const struct packed_place *place, const struct ggml_tensor *t,
                         struct packed_weight **out, struct ork_error *error)
{
    struct packed_weight *w;
    int rc = -ENOMEM;

    if (!packed_weight_fits(t))
        return -EINVAL;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct packed_weight){.type = t->type,
                                .n = (uint32_t)t->ne[1],
                                .k = (uint32_t)t->ne[0],
                                .n_matrices = (uint32_t)(t->ne[2] * t->ne[3]),
                                .row_bytes = ggml_row_size(t->type, t->ne[0]),
                                .workers = place->workers,
                                .cache = place->cache};
    w->format = weight_format_for(&place->format, w->k);
    w->n_scales = weight_format_n_scales(&w->format, w->k);
    w->matrices = calloc(w->n_matrices, sizeof(struct ork_weight *));
    w->scales = calloc((size_t)w->n_matrices * w->n_scales * w->n, sizeof(*w->scales));
    if (w->matrices && w->scales)
        rc = create_matrices(place, w, error);
    if (rc < 0) {
        packed_weight_destroy(w);
        return rc;
    }
    *out = w;
    return 0;
}

void packed_weight_destroy(struct packed_weight *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->matrices && i < w->n_matrices; i++)
        ork_weight_destroy(w->matrices[i]);
    if (w->budget)
        domain_budget_give(w->budget, w->domain, w->device_bytes);
    free(w->matrices);
    free(w->scales);
    free(w);
}

/* ---- rows in ----------------------------------------------------------------------------- */

static void row_to_float(const struct packed_weight *w, const void *row, float *out)
{
    const ggml_to_float_t to_float = ggml_get_type_traits(w->type)->to_float;

    if (w->type == GGML_TYPE_F32)
        memcpy(out, row, w->row_bytes);
    else
        to_float(row, out, w->k);
}

/* Memory for one block of rows; what a part of the work needs, freed at its end. */
struct block {
    float *row;
    float *room;
    float *scales; /* of one row */
    int8_t *codes;
};

static int block_init(struct block *b, const struct packed_weight *w)
{
    *b = (struct block){.row = malloc(w->k * sizeof(*b->row)),
                        .room = malloc(w->k * sizeof(*b->room)),
                        .scales = malloc(w->n_scales * sizeof(*b->scales)),
                        .codes = malloc((size_t)w->k * ROWS_AT_ONCE)};
    return b->row && b->room && b->scales && b->codes ? 0 : -ENOMEM;
}

static void block_fini(struct block *b)
{
    free(b->row);
    free(b->room);
    free(b->scales);
    free(b->codes);
}

static void code_row(struct packed_weight *w, struct block *b, uint64_t row, int8_t *codes)
{
    const struct ork_quantise how = weight_format_quantise(&w->format);
    float *scales = w->scales + row / w->n * w->n_scales * w->n + row % w->n;

    ork_quantise_row(&how, weight_format_code_max(&w->format), b->row, w->k, w->format.group,
                     b->room, codes, b->scales);
    for (uint32_t s = 0; s < w->n_scales; s++)
        scales[(size_t)s * w->n] = b->scales[s];
}

/* Rows to pack, cut into blocks of ROWS_AT_ONCE that do not cross matrices; `stride` 0 repeats one
 * row. */
struct packing {
    struct packed_weight *weight;
    const uint8_t *rows;
    size_t stride;
    uint64_t first, end;
    uint64_t first_block;
    atomic_int rc;
};

static uint64_t blocks_of_matrix(const struct packed_weight *w)
{
    return (w->n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
}

static uint64_t block_of_row(const struct packed_weight *w, uint64_t row)
{
    return row / w->n * blocks_of_matrix(w) + row % w->n / ROWS_AT_ONCE;
}

static void pack_block(void *user, size_t part, uint32_t worker)
{
    struct packing *p = user;
    struct packed_weight *w = p->weight;
    const uint64_t block = p->first_block + part;
    const uint64_t matrix = block / blocks_of_matrix(w);
    uint64_t row = matrix * w->n + block % blocks_of_matrix(w) * ROWS_AT_ONCE;
    uint64_t end = row + ROWS_AT_ONCE;
    struct block b;
    int rc = block_init(&b, w);

    (void)worker;
    end = end < (matrix + 1) * w->n ? end : (matrix + 1) * w->n;
    end = end < p->end ? end : p->end;
    row = row > p->first ? row : p->first;
    for (uint64_t r = row; rc >= 0 && r < end; r++) {
        row_to_float(w, p->rows + (r - p->first) * p->stride, b.row);
        code_row(w, &b, r, b.codes + (r - row) * w->k);
    }
    if (rc >= 0)
        rc = ork_weight_pack(w->matrices[matrix], (uint32_t)(row % w->n), (uint32_t)(end - row),
                             b.codes);
    if (rc < 0)
        atomic_store(&p->rc, rc);
    block_fini(&b);
}

static int pack_rows(struct packed_weight *w, const uint8_t *rows, size_t stride, uint64_t first,
                     uint64_t end)
{
    struct packing p = {.weight = w, .rows = rows, .stride = stride, .first = first, .end = end};

    if (first == end)
        return 0;
    p.first_block = block_of_row(w, first);
    workers_run(w->workers, block_of_row(w, end - 1) - p.first_block + 1, pack_block, &p);
    return atomic_load(&p.rc);
}

/* One whole matrix, from the cache or packed and put there. */
static int set_matrix(struct packed_weight *w, const uint8_t *rows, uint32_t matrix)
{
    const uint64_t how[] = {(uint64_t)w->type, w->format.type, w->format.group,
                            w->format.rotate,  w->n,           w->k};
    const size_t scale_bytes = (size_t)w->n_scales * w->n * sizeof(float);
    const struct pack_key key =
        pack_cache_key(rows, w->n * w->row_bytes, how, sizeof(how) / sizeof(*how));
    float *own_scales = w->scales + (size_t)matrix * w->n_scales * w->n;
    const void *image, *scales;
    uint64_t bytes;
    int rc;

    ork_weight_image(w->matrices[matrix], &bytes);
    if (pack_cache_find(w->cache, &key, bytes, scale_bytes, &image, &scales)) {
        memcpy(own_scales, scales, scale_bytes);
        return ork_weight_set_image(w->matrices[matrix], image);
    }
    rc = pack_rows(w, rows, w->row_bytes, (uint64_t)matrix * w->n, (uint64_t)(matrix + 1) * w->n);
    if (rc >= 0)
        pack_cache_add(w->cache, &key, ork_weight_image(w->matrices[matrix], &bytes), bytes,
                       own_scales, scale_bytes);
    return rc;
}

/* Whole matrices by the cache, the rows before and after them without. */
static int set_cached(struct packed_weight *w, const uint8_t *rows, uint64_t first, uint64_t end)
{
    int rc = 0;

    while (rc >= 0 && first < end) {
        const uint64_t matrix = first / w->n;
        const uint64_t next = (matrix + 1) * w->n < end ? (matrix + 1) * w->n : end;

        if (first % w->n == 0 && next % w->n == 0)
            rc = set_matrix(w, rows, (uint32_t)matrix);
        else
            rc = pack_rows(w, rows, w->row_bytes, first, next);
        rows += (next - first) * w->row_bytes;
        first = next;
    }
    return rc;
}

static int set_rows(struct packed_weight *w, const uint8_t *rows, size_t stride, size_t offset,
                    size_t bytes)
{
    const uint64_t first = offset / w->row_bytes;
    const uint64_t count = bytes / w->row_bytes;
    const uint64_t have = (uint64_t)w->n_matrices * w->n;
    int rc = -EINVAL;

    if (offset % w->row_bytes == 0 && bytes % w->row_bytes == 0 && first <= have &&
        count <= have - first)
        rc = w->cache && stride ? set_cached(w, rows, first, first + count)
                                : pack_rows(w, rows, stride, first, first + count);
    if (rc < 0)
        atomic_store(&w->torn, true);
    return rc;
}

int packed_weight_set(struct packed_weight *w, const void *data, size_t offset, size_t bytes)
{
    return set_rows(w, data, w->row_bytes, offset, bytes);
}

int packed_weight_fill(struct packed_weight *w, uint8_t value, size_t offset, size_t bytes)
{
    uint8_t *row = malloc(w->row_bytes);
    int rc = -ENOMEM;

    if (row) {
        memset(row, value, w->row_bytes);
        rc = set_rows(w, row, 0, offset, bytes);
    }
    free(row);
    return rc;
}

/* ---- rows out ---------------------------------------------------------------------------- */

const float *packed_weight_scales(const struct packed_weight *w, uint32_t matrix)
{
    return w->scales + (size_t)matrix * w->n_scales * w->n;
}

static int read_row(const struct packed_weight *w, struct block *b, uint64_t row, uint8_t *out)
{
    const float *scales = packed_weight_scales(w, (uint32_t)(row / w->n)) + row % w->n;
    const uint32_t group = w->format.group ? w->format.group : w->k;
    int rc = ork_weight_unpack(w->matrices[row / w->n], (uint32_t)(row % w->n), 1, b->codes);

    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < w->k; i++)
        b->row[i] = scales[(size_t)(i / group) * w->n] * (float)b->codes[i];
    if (w->format.rotate)
        ork_fwht(b->row, w->k, ork_fwht_block(w->k));
    if (w->type == GGML_TYPE_F32)
        memcpy(out, b->row, w->row_bytes);
    else
        ggml_quantize_chunk(w->type, b->row, out, 0, 1, w->k, NULL);
    return 0;
}

int packed_weight_get(const struct packed_weight *w, void *data, size_t offset, size_t bytes)
{
    const size_t have = (size_t)w->n_matrices * w->n * w->row_bytes;
    uint8_t *out = data;
    uint8_t *row = malloc(w->row_bytes);
    struct block b;
    int rc = block_init(&b, w);

    if (rc >= 0)
        rc = !row ? -ENOMEM : offset <= have && bytes <= have - offset ? 0 : -EINVAL;
    while (rc >= 0 && bytes) {
        const size_t skip = offset % w->row_bytes;
        const size_t part = w->row_bytes - skip < bytes ? w->row_bytes - skip : bytes;

        rc = read_row(w, &b, offset / w->row_bytes, row);
        if (rc >= 0)
            memcpy(out, row + skip, part);
        out += part;
        offset += part;
        bytes -= part;
    }
    free(row);
    block_fini(&b);
    return rc;
}
