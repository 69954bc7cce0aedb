/* A row or a column that is all wrong is off by about its own size; rounding by far less. */
#include "device/device_check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_ROWS = 64, N_EXPERTS = 4, N_USED = 2, N_TOKENS = 32 };

/* Of a row's or a column's squares. */
#define MOST_ERROR 0.25

struct check {
    ggml_backend_t backend;
    struct ggml_context *ctx;
    struct ggml_tensor *w, *x, *ids, *out;
    ggml_backend_buffer_t matrix, rest;
    float *floats; /* of w, as the type keeps them */
    float *in, *got;
    char *bytes;
    int64_t cols, rows, n_experts, n_used;
};

static float next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

/* Of the first n experts of a matrix. */
static size_t alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor *matrix,
                         int64_t n)
{
    struct ggml_tensor t = *matrix;
    t.ne[2] = n;
    t.nb[3] = t.nb[2] * (size_t)n;
    t.data = t.extra = NULL;
    t.buffer = NULL;
    return ggml_backend_buft_get_alloc_size(buft, &t);
}

size_t device_expert_stride(ggml_backend_buffer_type_t buft, const struct ggml_tensor *matrix)
{
    const int64_t n = matrix->ne[2];
    const size_t all = alloc_size(buft, matrix, n), one = alloc_size(buft, matrix, 1);
    if (n == 1)
        return one;
    const size_t less = alloc_size(buft, matrix, n - 1), two = alloc_size(buft, matrix, 2);
    const size_t stride = all > less ? all - less : 0;
    bool even = stride >= matrix->nb[2] && one >= stride && two - one == stride &&
                all - one == stride * (size_t)(n - 1);
    return even ? stride : 0;
}

struct ggml_tensor device_expert_view(struct ggml_tensor *matrix, size_t stride, uint32_t expert)
{
    struct ggml_tensor v = *matrix;
    v.ne[2] = 1;
    v.nb[3] = v.nb[2];
    v.view_src = matrix;
    v.view_offs = expert * matrix->nb[2];
    v.data = (char *)matrix->data + expert * stride;
    return v;
}

bool device_write_zeros(struct ggml_tensor *tensor)
{
    size_t bytes = ggml_nbytes(tensor);
    void *zeros = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return false;
    ggml_backend_tensor_set(tensor, zeros, 0, bytes);
    munmap(zeros, bytes);
    return true;
}

static bool make_graph(struct check *c, ggml_backend_buffer_type_t buft, enum ggml_type type,
                       bool experts)
{
    struct ggml_init_params params = {
        .mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    c->ctx = ggml_init(params);
    if (!c->ctx)
        return false;
    c->w = ggml_new_tensor_3d(c->ctx, type, c->cols, c->rows, c->n_experts);
    c->x = ggml_new_tensor_3d(c->ctx, GGML_TYPE_F32, c->cols, experts ? 1 : N_TOKENS,
                              experts ? N_TOKENS : 1);
    c->ids = ggml_new_tensor_2d(c->ctx, GGML_TYPE_I32, c->n_used, N_TOKENS);
    c->out =
        experts ? ggml_mul_mat_id(c->ctx, c->w, c->x, c->ids) : ggml_mul_mat(c->ctx, c->w, c->x);
    size_t bytes = ggml_backend_buft_get_alloc_size(buft, c->w);
    c->matrix = ggml_backend_buft_alloc_buffer(buft, bytes);
    if (!c->matrix)
        return false;
    ggml_backend_buffer_set_usage(c->matrix, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    if (ggml_backend_tensor_alloc(c->matrix, c->w, ggml_backend_buffer_get_base(c->matrix)) !=
            GGML_STATUS_SUCCESS ||
        !ggml_backend_dev_supports_op(ggml_backend_get_device(c->backend), c->out))
        return false;
    c->rest = ggml_backend_alloc_ctx_tensors_from_buft(
        c->ctx, ggml_backend_get_default_buffer_type(c->backend));
    return c->rest != NULL;
}

static bool fill_matrix(struct check *c, enum ggml_type type)
{
    const struct ggml_type_traits *traits = ggml_get_type_traits(type);
    int64_t n_rows = c->rows * c->n_experts, n = c->cols * n_rows;
    size_t row = ggml_row_size(type, c->cols);
    uint32_t random = 1;
    c->floats = malloc((size_t)n * sizeof *c->floats);
    c->bytes = malloc((size_t)n_rows * row);
    if (!c->floats || !c->bytes)
        return false;
    for (int64_t i = 0; i < n; i++)
        c->floats[i] = next_random(&random);
    if (ggml_quantize_chunk(type, c->floats, c->bytes, 0, n_rows, c->cols, NULL) !=
        (size_t)n_rows * row)
        return false;
    for (int64_t i = 0; type != GGML_TYPE_F32 && i < n_rows; i++)
        traits->to_float(c->bytes + (size_t)i * row, c->floats + i * c->cols, c->cols);
    size_t stride = device_expert_stride(ggml_backend_buffer_get_type(c->matrix), c->w);
    if (stride == 0 || !device_write_zeros(c->w))
        return false;
    for (uint32_t e = 0; e < (uint32_t)c->n_experts; e++) {
        struct ggml_tensor view = device_expert_view(c->w, stride, e);
        ggml_backend_tensor_set(&view, c->bytes + e * (size_t)c->rows * row, 0,
                                (size_t)c->rows * row);
    }
    return true;
}

static int32_t expert_of(const struct check *c, int64_t token, int64_t k)
{
    return (int32_t)((token + k) % c->n_experts);
}

static bool fill_rest(struct check *c, bool experts)
{
    int32_t ids[N_USED * N_TOKENS];
    uint32_t random = 2;
    c->in = malloc((size_t)c->cols * N_TOKENS * sizeof *c->in);
    c->got = malloc(ggml_nbytes(c->out));
    if (!c->in || !c->got)
        return false;
    for (int64_t i = 0; i < c->cols * N_TOKENS; i++)
        c->in[i] = next_random(&random);
    for (int64_t t = 0; t < N_TOKENS; t++)
        for (int64_t k = 0; k < c->n_used; k++)
            ids[t * c->n_used + k] = expert_of(c, t, k);
    ggml_backend_tensor_set(c->x, c->in, 0, ggml_nbytes(c->x));
    if (experts)
        ggml_backend_tensor_set(c->ids, ids, 0, ggml_nbytes(c->ids));
    return true;
}

static double product(const struct check *c, int64_t row, int64_t token, int64_t k)
{
    const float *w = c->floats + (expert_of(c, token, k) * c->rows + row) * c->cols;
    const float *x = c->in + token * c->cols;
    double sum = 0;
    for (int64_t i = 0; i < c->cols; i++)
        sum += (double)w[i] * (double)x[i];
    return sum;
}

static bool right(const struct check *c)
{
    double row_error[MOST_ROWS] = {0}, row_size[MOST_ROWS] = {0};
    for (int64_t t = 0; t < N_TOKENS * c->n_used; t++) {
        double error = 0, size = 0;
        for (int64_t r = 0; r < c->rows; r++) {
            double want = product(c, r, t / c->n_used, t % c->n_used);
            double off = (double)c->got[t * c->rows + r] - want;
            error += off * off;
            size += want * want;
            row_error[r] += off * off;
            row_size[r] += want * want;
        }
        if (!(error <= MOST_ERROR * size)) /* not a number is wrong, too */
            return false;
    }
    for (int64_t r = 0; r < c->rows; r++)
        if (!(row_error[r] <= MOST_ERROR * row_size[r]))
            return false;
    return true;
}

static void fini(struct check *c)
{
    if (c->rest)
        ggml_backend_buffer_free(c->rest);
    if (c->matrix)
        ggml_backend_buffer_free(c->matrix);
    if (c->ctx)
        ggml_free(c->ctx);
    free(c->floats);
    free(c->in);
    free(c->got);
    free(c->bytes);
}

bool device_check_matrix(ggml_backend_t backend, ggml_backend_buffer_type_t buft,
                         enum ggml_type type, const int64_t *ne, bool experts)
{
    bool fine = true;
    struct check c = {.backend = backend, .cols = ne[0], .n_used = 1, .n_experts = 1};
    c.rows = ne[1] < MOST_ROWS ? ne[1] : MOST_ROWS;
    if (experts) {
        c.n_experts = ne[2] < N_EXPERTS ? ne[2] : N_EXPERTS;
        c.n_used = c.n_experts < N_USED ? c.n_experts : N_USED;
    }
    if (ggml_quantize_requires_imatrix(type) ||
        (type != GGML_TYPE_F32 && !ggml_get_type_traits(type)->to_float))
        return true;
    if (make_graph(&c, buft, type, experts) && fill_matrix(&c, type) && fill_rest(&c, experts)) {
        struct ggml_cgraph *graph = ggml_new_graph(c.ctx);
        ggml_build_forward_expand(graph, c.out);
        fine = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        if (fine) {
            ggml_backend_tensor_get(c.out, c.got, 0, ggml_nbytes(c.out));
            fine = right(&c);
        }
    }
    fini(&c);
    return fine;
}
