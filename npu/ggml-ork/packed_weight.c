/* Packing goes row by row through ggml's own to_float, so every type ggml can read needs no code of
 * ours. ggml's bytes come from a file, so shapes are checked before anything is multiplied. */
#include "packed_weight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "row_codes.h"

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

size_t packed_weight_bytes(const struct ggml_tensor *t)
{
    size_t one;

    if (!packed_weight_fits(t))
        return 0;
    one = ork_weight_bytes(ORK_I8_I32, (uint32_t)t->ne[1], (uint32_t)t->ne[0], NULL, NULL);
    return (size_t)(t->ne[2] * t->ne[3]) * (one + (size_t)t->ne[1] * sizeof(float));
}

int packed_weight_create(struct ork_device *npu, const struct ggml_tensor *t,
                         struct packed_weight **out, struct ork_error *error)
{
    struct packed_weight *w;
    int rc = 0;

    if (!packed_weight_fits(t))
        return -EINVAL;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    *w = (struct packed_weight){.type = t->type,
                                .n = (uint32_t)t->ne[1],
                                .k = (uint32_t)t->ne[0],
                                .n_matrices = (uint32_t)(t->ne[2] * t->ne[3]),
                                .row_bytes = ggml_row_size(t->type, t->ne[0])};
    w->matrices = calloc(w->n_matrices, sizeof(struct ork_weight *));
    w->scales = calloc((size_t)w->n_matrices * w->n, sizeof(*w->scales));
    if (!w->matrices || !w->scales)
        rc = -ENOMEM;
    for (uint32_t i = 0; rc >= 0 && i < w->n_matrices; i++)
        rc = ork_weight_create(npu, ORK_I8_I32, w->n, w->k, NULL, &w->matrices[i], error);
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

/* Memory for one block of rows; what a call needs, freed at its end. */
struct block {
    float *row;
    int8_t *codes;
};

static int block_init(struct block *b, uint32_t k)
{
    b->row = malloc(k * sizeof(*b->row));
    b->codes = malloc((size_t)k * ROWS_AT_ONCE);
    return b->row && b->codes ? 0 : -ENOMEM;
}

static void block_fini(struct block *b)
{
    free(b->row);
    free(b->codes);
}

/* Rows first .. first + count - 1, all of one matrix; `stride` 0 repeats one row. */
static int pack_block(struct packed_weight *w, struct block *b, const uint8_t *rows, size_t stride,
                      uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        row_to_float(w, rows + i * stride, b->row);
        w->scales[first + i] = row_codes_make(b->row, w->k, b->codes + (size_t)i * w->k);
    }
    return ork_weight_pack(w->matrices[first / w->n], (uint32_t)(first % w->n), count, b->codes);
}

static int pack_rows(struct packed_weight *w, const uint8_t *rows, size_t stride, uint64_t first,
                     uint64_t end)
{
    struct block b;
    int rc = block_init(&b, w->k);

    while (rc >= 0 && first < end) {
        const uint64_t in_matrix = w->n - first % w->n;
        const uint64_t in_group = ROWS_AT_ONCE - first % w->n % ROWS_AT_ONCE;
        uint64_t count = end - first;

        count = count < in_matrix ? count : in_matrix;
        count = count < in_group ? count : in_group;
        rc = pack_block(w, &b, rows, stride, first, (uint32_t)count);
        rows += count * stride;
        first += count;
    }
    block_fini(&b);
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
        rc = pack_rows(w, rows, stride, first, first + count);
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

static int read_row(const struct packed_weight *w, struct block *b, uint64_t row, uint8_t *out)
{
    int rc = ork_weight_unpack(w->matrices[row / w->n], (uint32_t)(row % w->n), 1, b->codes);

    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < w->k; i++)
        b->row[i] = w->scales[row] * (float)b->codes[i];
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
    int rc = block_init(&b, w->k);

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
