/*
 * One table of weights, parallel to the graph's map. The decisions are made before anything is
 * reserved, so that the memory plan can be printed and refused first.
 */
#include "stream/weights.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes that one read of a pinned weight takes; a paged dense matrix up to which it is one extent,
 * and one block of a larger one at least. */
#define PINNED_CHUNK_BYTES ((uint64_t)4 << 20)
#define WHOLE_BYTES        ((uint64_t)64 << 20)
#define BLOCK_BYTES        ((uint64_t)512 << 10)

struct mapped_file {
    void *base;
    uint64_t bytes;
};

struct weights {
    struct weights_config config;
    struct weight *items;
    uint32_t n;
    uint32_t n_late; /* adopted after the capture */
    struct weights_sums sums;
    ggml_backend_buffer_t plain; /* a CPU buffer that stands for the store */
    char anchor[128];            /* `plain` begins at its aligned part; nothing is kept in it */
    struct mapped_file *mapped;  /* per shard, NULL base when not mapped */
};

static uint64_t padded(uint64_t bytes, size_t page)
{
    return (bytes + page - 1) / page * page;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The block of a paged dense matrix: whole pages and whole groups of rows that repack together. */
static uint64_t block_bytes(enum ggml_type type, int64_t n_cols, size_t page)
{
    uint64_t group = ggml_row_size(type, n_cols) * REPACK_GROUP_ROWS;
    uint64_t unit = group ? group / gcd(group, page) * page : page;
    return (BLOCK_BYTES + unit - 1) / unit * unit;
}

uint64_t weights_reserve_bytes(const struct gguf_index *index, size_t page_bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf_index_n_tensors(index); i++) {
        const struct gguf_tensor *t = gguf_index_tensor(index, i);
        uint64_t slices = t->ne[2] > 1 ? (uint64_t)t->ne[2] : 1;
        uint64_t block = block_bytes((enum ggml_type)t->type, t->ne[0], page_bytes);
        uint64_t bytes;
        if (!checked_add_u64(t->bytes, (slices + 1) * page_bytes + block, &bytes) ||
            !checked_add_u64(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static int find_in_file(struct weights *w, struct weight *item, struct bmoe_error *err)
{
    struct ggml_tensor *t = item->tensor;
    item->file = gguf_index_find(w->config.index, t->name);
    if (!item->file)
        return error_set(err, BMOE_E_SEAM, BMOE_SCOPE_SESSION,
                         "the graph reads the weight '%s', which the model file does not have",
                         t->name);
    if (item->file->type != (uint32_t)t->type || item->file->bytes != ggml_nbytes(t))
        return error_set(err, BMOE_E_SEAM, BMOE_SCOPE_SESSION,
                         "the weight '%s' has %zu bytes in memory and %llu in the model file",
                         t->name, ggml_nbytes(t), (unsigned long long)item->file->bytes);
    return BMOE_OK;
}

/* What ggml's repacked kernels compute: a matmul with a matrix, or by ids with a stack of them. */
static bool has_repacked_kernels(const struct ggml_tensor *t, unsigned uses)
{
    return (uses == GRAPH_USE_MATRIX && ggml_n_dims(t) == 2) ||
           (uses == GRAPH_USE_EXPERTS && ggml_n_dims(t) == 3);
}

static void decide(struct weights *w, struct weight *item, const struct graph_weight *g,
                   bool has_experts)
{
    struct ggml_tensor *t = item->tensor;
    const unsigned matrix = GRAPH_USE_MATRIX | GRAPH_USE_EXPERTS;
    bool experts = g->uses == GRAPH_USE_EXPERTS && g->site != GRAPH_NONE && t->ne[3] == 1;
    bool only_matrix = (g->uses & ~matrix) == 0;
    item->n_slices = experts ? (uint32_t)t->ne[2] : 1;
    item->slice_bytes = item->file->bytes / item->n_slices;
    if (w->config.paged && experts) {
        item->kind = WEIGHT_PAGED;
    } else if (w->config.paged && !has_experts && only_matrix && t->ne[2] == 1) {
        item->kind = WEIGHT_PAGED;
        if (item->file->bytes > WHOLE_BYTES)
            item->slice_bytes = block_bytes(t->type, t->ne[0], w->config.page_bytes);
        item->n_slices =
            (uint32_t)((item->file->bytes + item->slice_bytes - 1) / item->slice_bytes);
    } else if (w->config.dense != BMOE_DENSE_ANON && !experts) {
        item->kind = WEIGHT_MAPPED;
    }
    if (w->config.repack && item->kind != WEIGHT_MAPPED && has_repacked_kernels(t, g->uses))
        item->traits = repack_traits(w->config.repack, t);
    if (item->traits)
        repack_rows_init(&item->rows, w->config.repack, t, item->traits);
}

static void add_up(struct weights *w, const struct weight *item, const struct graph_weight *g)
{
    struct weights_sums *s = &w->sums;
    size_t page = w->config.page_bytes;
    uint64_t slice = padded(item->slice_bytes, page);
    uint64_t whole = item->n_slices * slice;
    s->n_weights++;
    s->n_repacked += item->traits != NULL;
    if (g->site != GRAPH_NONE)
        s->expert_bytes += item->kind == WEIGHT_PAGED ? whole : item->file->bytes;
    if (item->kind == WEIGHT_PINNED)
        s->pinned_bytes += padded(item->file->bytes, page);
    if (item->kind == WEIGHT_MAPPED)
        s->mapped_bytes += item->file->bytes;
    if (item->kind != WEIGHT_PAGED)
        return;
    s->paged_bytes += whole;
    if (slice > s->largest_slice)
        s->largest_slice = slice;
    if (whole > s->largest_set) {
        s->largest_set = whole;
        s->largest_set_experts = item->n_slices;
    }
}

static bool any_experts(const struct graph_map *map)
{
    return graph_map_n_sites(map) > 0;
}

static int decide_all(struct weights *w, struct bmoe_error *err)
{
    const struct graph_map *map = w->config.map;
    bool has_experts = any_experts(map);
    for (uint32_t i = 0; i < w->n; i++) {
        const struct graph_weight *g = graph_map_weight(map, i);
        struct weight *item = &w->items[i];
        item->tensor = g->tensor;
        if (w->config.hide && strcmp(g->tensor->name, w->config.hide) == 0) {
            item->tensor = NULL;
            continue;
        }
        int rc = find_in_file(w, item, err);
        if (rc < 0)
            return rc;
        decide(w, item, g, has_experts);
        add_up(w, item, g);
    }
    return BMOE_OK;
}

int weights_create(struct weights **out, const struct weights_config *config,
                   struct bmoe_error *err)
{
    struct weights *w = calloc(1, sizeof *w);
    if (!w)
        goto no_memory;
    w->config = *config;
    w->n = graph_map_n_weights(config->map);
    w->items = calloc(w->n, sizeof *w->items);
    w->mapped = calloc(gguf_index_n_shards(config->index), sizeof *w->mapped);
    if (!w->items || !w->mapped)
        goto no_memory;
    char *aligned = w->anchor + (64 - (uintptr_t)w->anchor % 64);
    w->plain = ggml_backend_cpu_buffer_from_ptr(aligned, 64);
    if (!w->plain)
        goto no_memory;
    ggml_backend_buffer_set_usage(w->plain, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    int rc = decide_all(w, err);
    if (rc < 0) {
        weights_destroy(w);
        return rc;
    }
    *out = w;
    return BMOE_OK;
no_memory:
    weights_destroy(w);
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the table of weights");
}

void weights_destroy(struct weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->mapped && i < gguf_index_n_shards(w->config.index); i++)
        if (w->mapped[i].base)
            munmap(w->mapped[i].base, w->mapped[i].bytes);
    if (w->plain)
        ggml_backend_buffer_free(w->plain);
    free(w->mapped);
    free(w->items);
    free(w);
}

void weights_sums(const struct weights *w, struct weights_sums *out)
{
    *out = w->sums;
}

const struct weight *weights_get(const struct weights *w, uint32_t i)
{
    return w->items[i].tensor ? &w->items[i] : NULL;
}

static int map_shard(struct weights *w, uint32_t shard, struct bmoe_error *err)
{
    struct mapped_file *m = &w->mapped[shard];
    if (m->base)
        return BMOE_OK;
    const struct gguf_shard *s = gguf_index_shard(w->config.index, shard);
    int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    void *base = fd < 0 ? MAP_FAILED : mmap(NULL, s->file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED)
        return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errnum, "mapping %s", s->path);
    m->base = base;
    m->bytes = s->file_bytes;
    return BMOE_OK;
}

static int place_mapped(struct weights *w, struct weight *item, struct bmoe_error *err)
{
    int rc = map_shard(w, item->file->shard, err);
    if (rc < 0)
        return rc;
    item->base = (char *)w->mapped[item->file->shard].base + item->file->offset;
    if (w->config.dense == BMOE_DENSE_WARM) {
        volatile char sink = 0;
        for (uint64_t at = 0; at < item->file->bytes; at += 4096)
            sink ^= ((const char *)item->base)[at];
        (void)sink;
    }
    return BMOE_OK;
}

static int place_paged(struct weights *w, struct weight *item, bool blocks, struct bmoe_error *err)
{
    struct pager_matrix m = {.file = w->config.files[item->file->shard],
                             .file_offset = item->file->offset,
                             .slice_bytes = item->slice_bytes,
                             .n_slices = item->n_slices,
                             .contiguous = blocks && item->n_slices > 1,
                             .total_bytes = item->file->bytes,
                             .carry = item->traits ? repack_carry : NULL,
                             .carry_ctx = &item->rows};
    int rc = pager_matrix_add(w->config.pager, &m, &item->range, err);
    if (rc == BMOE_OK)
        item->base = item->range.base;
    return rc;
}

static int place_pinned(struct weights *w, struct weight *item, struct bmoe_error *err)
{
    uint64_t chunk = PINNED_CHUNK_BYTES;
    if (item->traits) {
        /* Groups of rows; an expert's rows are a multiple of the group, so experts never share one.
         */
        uint64_t group = item->rows.row_bytes * REPACK_GROUP_ROWS;
        uint64_t unit = item->n_slices > 1 ? item->slice_bytes : group;
        chunk = unit * (unit < chunk ? chunk / unit : 1);
    }
    struct pager_pinned p = {.file = w->config.files[item->file->shard],
                             .file_offset = item->file->offset,
                             .bytes = item->file->bytes,
                             .chunk_bytes = chunk,
                             .carry = item->traits ? repack_carry : NULL,
                             .carry_ctx = &item->rows};
    return pager_pinned_add(w->config.pager, &p, &item->base, err);
}

static void bind_tensor(struct weights *w, const struct weight *item, bool slices)
{
    struct ggml_tensor *t = item->tensor;
    t->data = item->base;
    t->buffer = item->traits ? w->config.repack->buffer : w->plain;
    t->extra = item->traits;
    if (slices) {
        t->nb[2] = item->range.stride;
        t->nb[3] = t->nb[2] * (size_t)t->ne[2];
    }
}

static int place(struct weights *w, struct weight *item, bool experts, struct bmoe_error *err)
{
    switch (item->kind) {
    case WEIGHT_PAGED:
        return place_paged(w, item, !experts, err);
    case WEIGHT_MAPPED:
        return place_mapped(w, item, err);
    default:
        return place_pinned(w, item, err);
    }
}

int weights_bind(struct weights *w, struct bmoe_error *err)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct weight *item = &w->items[i];
        if (!item->tensor)
            continue;
        bool experts = graph_map_weight(w->config.map, i)->site != GRAPH_NONE;
        int rc = place(w, item, experts, err);
        if (rc < 0)
            return rc;
        bind_tensor(w, item, item->kind == WEIGHT_PAGED && experts);
    }
    return BMOE_OK;
}

bool weights_owns(const struct weights *w, const struct ggml_tensor *root)
{
    return root->buffer == w->plain ||
           (w->config.repack && root->buffer == w->config.repack->buffer);
}

int weights_adopt(struct weights *w, struct ggml_tensor *root, struct bmoe_error *err)
{
    struct weight item = {.tensor = root, .n_slices = 1};
    int rc = find_in_file(w, &item, err);
    if (rc == BMOE_OK)
        rc = place_pinned(w, &item, err);
    if (rc < 0)
        return rc;
    bind_tensor(w, &item, false);
    w->n_late++;
    return BMOE_OK;
}
