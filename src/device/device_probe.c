/*
 * The questions are llama.cpp's own: an op whose weight lies in an empty buffer of the type that is
 * asked about.
 */
#include "device/device_probe.h"

#include <ggml.h>
#include <string.h>

/* Extra buffer types are in no header's promise; the registry gives them by name. */
static ggml_backend_buffer_type_t *extra_types(ggml_backend_dev_t device)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    void *symbol =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts") : NULL;
    ggml_backend_dev_get_extra_bufts_t get = NULL;
    memcpy(&get, &symbol, sizeof get);
    return get ? get(device) : NULL;
}

/* Memory that a tensor which is asked about lies in. */
static ggml_backend_buffer_t empty_buffer(ggml_backend_buffer_type_t buft)
{
    ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(buft, 0);
    if (empty)
        ggml_backend_buffer_set_usage(empty, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return empty;
}

static struct ggml_tensor *make_op(struct ggml_context *ctx, struct ggml_tensor *w, uint32_t n_used,
                                   uint32_t n_tokens)
{
    if (n_used == 0)
        return ggml_mul_mat(
            ctx, w, ggml_new_tensor_4d(ctx, GGML_TYPE_F32, w->ne[0], n_tokens, w->ne[2], w->ne[3]));
    struct ggml_tensor *x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, w->ne[0], n_used, n_tokens);
    struct ggml_tensor *ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, n_used, n_tokens);
    return ggml_mul_mat_id(ctx, w, x, ids);
}

static bool takes(ggml_backend_dev_t device, ggml_backend_buffer_type_t buft,
                  struct ggml_tensor *op)
{
    ggml_backend_buffer_t empty = empty_buffer(buft);
    if (!empty)
        return false;
    op->src[0]->buffer = empty;
    bool yes = ggml_backend_dev_supports_op(device, op);
    op->src[0]->buffer = NULL;
    ggml_backend_buffer_free(empty);
    return yes;
}

bool device_probe_op(ggml_backend_dev_t device, struct ggml_tensor *node, int src)
{
    struct ggml_tensor *w = node->src[src];
    struct ggml_tensor *root = w->view_src ? w->view_src : w;
    ggml_backend_buffer_t of_view = w->buffer, of_root = root->buffer;
    ggml_backend_buffer_t empty = empty_buffer(ggml_backend_dev_buffer_type(device));
    if (!empty)
        return false;
    w->buffer = root->buffer = empty;
    bool yes = ggml_backend_dev_supports_op(device, node);
    w->buffer = of_view;
    root->buffer = of_root;
    ggml_backend_buffer_free(empty);
    return yes;
}

ggml_backend_buffer_type_t device_probe_matrix(ggml_backend_dev_t device, enum ggml_type type,
                                               const int64_t *ne, uint32_t n_used,
                                               uint32_t n_tokens)
{
    struct ggml_init_params params = {.mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx)
        return NULL;
    ggml_backend_buffer_type_t found = NULL, own = ggml_backend_dev_buffer_type(device);
    struct ggml_tensor *w = ggml_new_tensor(ctx, type, GGML_MAX_DIMS, ne);
    struct ggml_tensor *op = make_op(ctx, w, n_used, n_tokens);
    for (ggml_backend_buffer_type_t *t = extra_types(device); t && *t && !found; t++)
        if (takes(device, *t, op))
            found = *t;
    if (!found && takes(device, own, op))
        found = own;
    ggml_free(ctx);
    return found;
}

const enum ggml_type *device_probe_carried(enum ggml_type type)
{
    static const enum ggml_type grids[] = {GGML_TYPE_Q8_0, GGML_TYPE_COUNT};
    static const enum ggml_type floats[] = {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_COUNT};
    return ggml_is_quantized(type) ? grids : floats;
}
