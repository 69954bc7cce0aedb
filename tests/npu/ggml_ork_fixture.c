/* See the header. ORK_PLUGIN is the path of the shared object under test. */
#include "ggml_ork_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void quiet(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)level;
    (void)text;
    (void)user_data;
}

void fixture_load(void)
{
    if (ggml_backend_dev_by_name("ORK0"))
        return;
    ggml_log_set(quiet, NULL);
    unsetenv("GGML_BACKEND_PATH");
    ggml_backend_load_all_from_path(BMOE_BACKENDS_DIR);
    setenv("ORK_TRANSPORT", "sim", 1);
    setenv("ORK_MIN_ROWS", "4", 0); /* so that the NPU and the host both have their share */
    assert_non_null(ggml_backend_load(ORK_PLUGIN));
    assert_non_null(ggml_backend_dev_by_name("ORK0"));
    assert_non_null(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

ggml_backend_dev_t fixture_ork(void)
{
    return ggml_backend_dev_by_name("ORK0");
}

ggml_backend_buffer_type_t fixture_packed(void)
{
    void *proc = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(fixture_ork()),
                                                   "ggml_backend_dev_get_extra_bufts");
    ggml_backend_dev_get_extra_bufts_t get;
    ggml_backend_buffer_type_t *types;

    assert_non_null(proc);
    memcpy(&get, &proc, sizeof(get));
    types = get(fixture_ork());
    assert_non_null(types[0]);
    assert_null(types[1]);
    return types[0];
}

ggml_backend_buffer_type_t fixture_cpu_buft(void)
{
    return ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

struct ggml_context *fixture_context(void)
{
    struct ggml_context *ctx =
        ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true});

    assert_non_null(ctx);
    return ctx;
}

struct ggml_tensor *fixture_weight(struct ggml_context *ctx, const struct product_shape *s)
{
    return ggml_new_tensor_3d(ctx, s->type, s->k, s->n, s->matrices);
}

struct ggml_tensor *fixture_node(struct ggml_context *ctx, const struct product_shape *s,
                                 struct ggml_tensor *w)
{
    if (!s->used)
        return ggml_mul_mat(ctx, w,
                            ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->k, s->tokens, s->x_slots));
    return ggml_mul_mat_id(ctx, w,
                           ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->k, s->x_slots, s->tokens),
                           ggml_new_tensor_2d(ctx, GGML_TYPE_I32, s->used, s->tokens));
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static float *uniform(size_t n, uint32_t *state)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)draw(state) / (float)(1 << 23) - 1.0f;
    return x;
}

void fixture_fill(const struct product_shape *s, uint32_t seed, struct product_data *out)
{
    const size_t rows = (size_t)(s->n * s->matrices);
    float *w = uniform(rows * (size_t)s->k, &seed);

    *out = (struct product_data){.w_bytes = rows * ggml_row_size(s->type, s->k),
                                 .x_floats = (size_t)(s->k * s->tokens * s->x_slots),
                                 .n_ids = (size_t)(s->used * s->tokens)};
    out->out_floats = (size_t)(s->n * s->tokens * (s->used ? s->used : s->x_slots));
    out->w = malloc(out->w_bytes);
    assert_non_null(out->w);
    if (s->type == GGML_TYPE_F32)
        memcpy(out->w, w, out->w_bytes);
    else
        ggml_quantize_chunk(s->type, w, out->w, 0, (int64_t)rows, s->k, NULL);
    free(w);
    out->x = uniform(out->x_floats, &seed);
    out->ids = calloc(out->n_ids + 1, sizeof(*out->ids));
    assert_non_null(out->ids);
    for (size_t i = 0; i < out->n_ids; i++) /* different within a token, as routing has it */
        out->ids[i] =
            (int32_t)((i / (size_t)s->used * 7 + i % (size_t)s->used * 3 + draw(&seed) % 3) %
                      (uint32_t)s->matrices);
}

void fixture_data_free(struct product_data *data)
{
    free(data->w);
    free(data->x);
    free(data->ids);
}

static void set_weight(struct ggml_tensor *w, const struct product_data *data, enum set_how how)
{
    const size_t parts =
        how == SET_WHOLE ? 1 : (size_t)(how == SET_BY_ROWS ? ggml_nrows(w) : w->ne[2]);
    const size_t bytes = data->w_bytes / parts;

    for (size_t i = parts; i-- > 0;)
        ggml_backend_tensor_set(w, (const char *)data->w + i * bytes, i * bytes, bytes);
}

enum ggml_status fixture_compute(ggml_backend_t backend, ggml_backend_buffer_type_t type,
                                 const struct product_shape *shape, const struct product_data *data,
                                 enum set_how how, float *out)
{
    struct ggml_context *weights = fixture_context();
    struct ggml_context *rest = fixture_context();
    struct ggml_tensor *w = fixture_weight(weights, shape);
    struct ggml_tensor *node = fixture_node(rest, shape, w);
    struct ggml_cgraph *graph = ggml_new_graph(rest);
    ggml_backend_buffer_t weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights, type);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(rest, backend);
    enum ggml_status status;

    assert_non_null(weight_buffer);
    assert_non_null(buffer);
    ggml_build_forward_expand(graph, node);
    set_weight(w, data, how);
    ggml_backend_tensor_set(node->src[1], data->x, 0, data->x_floats * sizeof(float));
    if (shape->used)
        ggml_backend_tensor_set(node->src[2], data->ids, 0, data->n_ids * sizeof(int32_t));
    status = ggml_backend_graph_compute(backend, graph);
    if (status == GGML_STATUS_SUCCESS)
        ggml_backend_tensor_get(node, out, 0, data->out_floats * sizeof(float));
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(weight_buffer);
    ggml_free(rest);
    ggml_free(weights);
    return status;
}

double fixture_distance(const float *a, const float *b, size_t n)
{
    double off = 0.0;
    double all = 0.0;

    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return sqrt(off / all);
}
