/* W8A8: every row of activations gets int8 codes and one scale, every output channel has its own;
 * sums are exact in int32, so the result depends on the rows alone, never on how they are batched.
 *
 * MUL_MAT_ID sorts the rows by expert first. The experts that have rows go to the NPU together, as
 * one batch: what a submit costs is paid once for the layer. */
#include "mul_mat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row_codes.h"

/* Output cells and rows of one submit, so that its device memory stays at some hundred MiB. */
#define CELLS_AT_ONCE (UINT64_C(32) << 20)
#define ROWS_AT_ONCE  (UINT32_C(1) << 16)

void mul_mat_memory_fini(struct mul_mat_memory *m)
{
    free(m->codes);
    free(m->scales);
    free(m->sorted_codes);
    free(m->sorted_scales);
    free(m->sorted_out);
    free(m->places);
    free(m->first_row);
    free(m->batch);
    memset(m, 0, sizeof(*m));
}

/* Room for n elements at *array; contents are lost when it grows. NULL = no memory. */
static void *room(void *array, size_t *have, size_t n, size_t element)
{
    size_t bytes;

    if (n <= *have)
        return array;
    free(array);
    *have = 0;
    if (__builtin_mul_overflow(n, element, &bytes))
        return NULL;
    array = malloc(bytes);
    if (array)
        *have = n;
    return array;
}

#define ROOM(m, member, n)                                                                         \
    ((m)->member = room((m)->member, &(m)->n_##member, n, sizeof(*(m)->member)))

static const float *row_of(const struct ggml_tensor *x, int64_t row)
{
    const int64_t i1 = row % x->ne[1];
    const int64_t i2 = row / x->ne[1] % x->ne[2];
    const int64_t i3 = row / x->ne[1] / x->ne[2];

    return (const float *)(const void *)((const char *)x->data + i1 * x->nb[1] + i2 * x->nb[2] +
                                         i3 * x->nb[3]);
}

/* Codes x once; the products that share it (Q, K and V; gate and up) find it coded. */
static int code_rows(struct mul_mat_memory *m, const struct ggml_tensor *x)
{
    const int64_t rows = ggml_nrows(x);
    const uint32_t k = (uint32_t)x->ne[0];

    if (m->coded == x)
        return 0;
    m->coded = NULL;
    if (!ROOM(m, codes, (size_t)rows * k) || !ROOM(m, scales, (size_t)rows))
        return -ENOMEM;
    for (int64_t r = 0; r < rows; r++)
        m->scales[r] = row_codes_make(row_of(x, r), k, m->codes + (size_t)r * k);
    m->coded = x;
    return 0;
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Products gathered for one submit. */
struct product_batch {
    struct ork_device *npu;
    const struct packed_weight *weight;
    struct ork_matmul *calls; /* room for one per matrix */
    size_t n;
    uint64_t cells;
    struct ork_error *error;
};

/* -EAGAIN: more jobs than the transport holds at once; then in two parts. */
static int run_calls(struct product_batch *b, const struct ork_matmul *calls, size_t n)
{
    int rc = ork_matmul_run(b->npu, calls, n, b->error);

    if (rc != -EAGAIN || n < 2)
        return rc;
    rc = run_calls(b, calls, n / 2);
    return rc < 0 ? rc : run_calls(b, calls + n / 2, n - n / 2);
}

static int batch_flush(struct product_batch *b)
{
    int rc = b->n ? run_calls(b, b->calls, b->n) : 0;

    b->n = 0;
    b->cells = 0;
    return rc;
}

/* Adds rows x matrix; more than fit in a submit go in several. */
static int batch_add(struct product_batch *b, uint32_t matrix, const int8_t *codes,
                     const float *scales, uint32_t rows, float *out)
{
    const struct packed_weight *w = b->weight;
    const uint32_t fit = (uint32_t)(CELLS_AT_ONCE / w->n); /* N is at most 2^22 */
    const uint32_t most = fit < ROWS_AT_ONCE ? fit : ROWS_AT_ONCE;
    int rc = 0;

    while (rc >= 0 && rows) {
        const uint32_t m = rows < most ? rows : most;

        if (b->cells + (uint64_t)m * w->n > CELLS_AT_ONCE)
            rc = batch_flush(b);
        b->calls[b->n++] = (struct ork_matmul){.size = sizeof(struct ork_matmul),
                                               .weight = w->matrices[matrix],
                                               .a = codes,
                                               .m = m,
                                               .c = out,
                                               .b_scale = w->scales + (size_t)matrix * w->n,
                                               .a_scale = scales};
        b->cells += (uint64_t)m * w->n;
        codes += (size_t)m * w->k;
        scales += m;
        out += (size_t)m * w->n;
        rows -= m;
        if (rows && rc >= 0)
            rc = batch_flush(b);
    }
    return rc;
}

/* ---- MUL_MAT ----------------------------------------------------------------------------- */

static int run_dense(struct product_batch *b, struct mul_mat_memory *m,
                     const struct ggml_tensor *node)
{
    const struct packed_weight *w = b->weight;
    const int64_t all = ggml_nrows(node->src[1]);
    const uint32_t rows = (uint32_t)(w->n_matrices == 1 ? all : node->src[1]->ne[1]);
    float *out = node->data;
    int rc = 0;

    for (uint32_t i = 0; rc >= 0 && i < w->n_matrices; i++) {
        const size_t first = (size_t)i * rows;

        rc = batch_add(b, i, m->codes + first * w->k, m->scales + first, rows, out + first * w->n);
    }
    return rc < 0 ? rc : batch_flush(b);
}

/* ---- MUL_MAT_ID -------------------------------------------------------------------------- */

static int32_t expert_of(const struct ggml_tensor *ids, int64_t slot, int64_t token)
{
    int32_t id;

    memcpy(&id, (const char *)ids->data + slot * ids->nb[0] + token * ids->nb[1], sizeof(id));
    return id;
}

/* first_row[e] .. first_row[e + 1] - 1 are the sorted rows of expert e, in the order of tokens. */
static int sort_rows(struct product_batch *b, struct mul_mat_memory *m,
                     const struct ggml_tensor *ids)
{
    const uint32_t n_experts = b->weight->n_matrices;
    uint32_t *next = m->first_row + 1; /* becomes first_row as rows are placed */

    memset(m->first_row, 0, (n_experts + 2) * sizeof(*m->first_row));
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t s = 0; s < ids->ne[0]; s++) {
            const int32_t e = expert_of(ids, s, t);

            if (e < 0 || (uint32_t)e >= n_experts) {
                b->error->code = -EINVAL;
                snprintf(b->error->text, sizeof(b->error->text),
                         "a row is routed to expert %d of %u.", e, n_experts);
                return -EINVAL;
            }
            next[e + 1]++;
        }
    for (uint32_t e = 0; e < n_experts; e++)
        next[e + 1] += next[e];
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t s = 0; s < ids->ne[0]; s++)
            m->places[t * ids->ne[0] + s] = next[expert_of(ids, s, t)]++;
    return 0;
}

static void gather(const struct packed_weight *w, struct mul_mat_memory *m,
                   const struct ggml_tensor *x, const struct ggml_tensor *ids)
{
    for (int64_t t = 0; t < ids->ne[1]; t++)
        for (int64_t s = 0; s < ids->ne[0]; s++) {
            const size_t from = (size_t)(t * x->ne[1] + s % x->ne[1]);
            const size_t to = m->places[t * ids->ne[0] + s];

            memcpy(m->sorted_codes + to * w->k, m->codes + from * w->k, w->k);
            m->sorted_scales[to] = m->scales[from];
        }
}

static int run_routed(struct product_batch *b, struct mul_mat_memory *m,
                      const struct ggml_tensor *node)
{
    const struct packed_weight *w = b->weight;
    const struct ggml_tensor *ids = node->src[2];
    const size_t rows = (size_t)(ids->ne[0] * ids->ne[1]);
    float *out = node->data;
    int rc;

    if (!ROOM(m, sorted_codes, rows * w->k) || !ROOM(m, sorted_scales, rows) ||
        !ROOM(m, sorted_out, rows * w->n) || !ROOM(m, places, rows) ||
        !ROOM(m, first_row, w->n_matrices + 2))
        return -ENOMEM;
    rc = sort_rows(b, m, ids);
    if (rc < 0)
        return rc;
    gather(w, m, node->src[1], ids);
    for (uint32_t e = 0; rc >= 0 && e < w->n_matrices; e++) {
        const size_t first = m->first_row[e];

        rc = batch_add(b, e, m->sorted_codes + first * w->k, m->sorted_scales + first,
                       m->first_row[e + 1] - (uint32_t)first, m->sorted_out + first * w->n);
    }
    rc = rc < 0 ? rc : batch_flush(b);
    for (size_t r = 0; rc >= 0 && r < rows; r++)
        memcpy(out + r * w->n, m->sorted_out + (size_t)m->places[r] * w->n, w->n * sizeof(*out));
    return rc;
}

int mul_mat_run(struct ork_device *npu, struct mul_mat_memory *m, const struct packed_weight *w,
                const struct ggml_tensor *node, struct ork_error *error)
{
    struct product_batch batch = {.npu = npu, .weight = w, .error = error};
    int rc = code_rows(m, node->src[1]);

    if (rc < 0 || !ROOM(m, batch, w->n_matrices))
        return -ENOMEM;
    batch.calls = m->batch;
    return node->op == GGML_OP_MUL_MAT ? run_dense(&batch, m, node) : run_routed(&batch, m, node);
}
