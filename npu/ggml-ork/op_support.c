/* What is computed here, and what is not.
 *
 * Two products, from F32 rows and a weight that can be packed. Where the weight lies decides: in
 * the packed type it is resident and is multiplied at any number of rows; in plain or host memory
 * it is the CPU's. That also is how libllama finds the packed type: it asks with the weight in a
 * buffer of the default type first, hears no, and asks again with the extra one. A weight that lies
 * nowhere yet (a probe, a test) is accepted; should it end up in plain memory, it is packed for the
 * product and dropped. RMS_NORM, NORM, MUL and ADD are taken where the weights of the latter are
 * ours, for the sake of the products after them (node_fusion.c). Everything else is refused, so
 * ggml's scheduler gives it to the CPU, which reads our plain memory in place. */
#include "op_support.h"

#include "norm_row.h"

/* No rows are fine: the last layer of a piece of which no logits are wanted has none, and who
 * refuses them makes the scheduler copy their weights. */
static bool rows_fit(const struct ggml_tensor *x, const struct ggml_tensor *dst)
{
    return x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float) && dst->type == GGML_TYPE_F32 &&
           ggml_is_contiguous(dst) && ggml_nrows(x) < 1 << 24;
}

static bool mul_mat_fits(const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0];
    const struct ggml_tensor *x = op->src[1];
    const bool one_matrix = w->ne[2] == 1 && w->ne[3] == 1;

    return x->ne[0] == w->ne[0] && (one_matrix || (x->ne[2] == w->ne[2] && x->ne[3] == w->ne[3])) &&
           rows_fit(x, op);
}

static bool mul_mat_id_fits(const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0];
    const struct ggml_tensor *x = op->src[1];
    const struct ggml_tensor *ids = op->src[2];

    return x->ne[0] == w->ne[0] && w->ne[3] == 1 && x->ne[3] == 1 && ids->type == GGML_TYPE_I32 &&
           ids->nb[0] == sizeof(int32_t) && ids->ne[2] == 1 && ids->ne[3] == 1 &&
           ids->ne[1] == x->ne[2] && x->ne[1] > 0 && ids->ne[0] % x->ne[1] == 0 &&
           ids->ne[0] * ids->ne[1] < 1 << 24 && rows_fit(x, op);
}

bool op_support_shape(const struct ggml_tensor *op)
{
    if (!op->src[0] || !op->src[1] || !packed_weight_fits(op->src[0]))
        return false;
    if (op->op == GGML_OP_MUL_MAT)
        return mul_mat_fits(op);
    return op->op == GGML_OP_MUL_MAT_ID && op->src[2] && mul_mat_id_fits(op);
}

bool op_support_is_packed(const struct plugin *p, const struct ggml_tensor *w)
{
    return w->buffer && ggml_backend_buffer_get_type(w->buffer) == &p->packed;
}

const struct packed_weight *op_support_weight(const struct plugin *p, const struct ggml_tensor *w)
{
    const struct packed_weight *packed = op_support_is_packed(p, w) ? w->extra : NULL;

    return packed && !w->view_src && !atomic_load(&packed->torn) ? packed : NULL;
}

bool op_support_is_nothing(const struct ggml_tensor *op)
{
    switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return true;
    default:
        return false;
    }
}

/* A buffer of no bytes is how libllama asks about a type before there is any memory. */
static bool weight_is_here(const struct plugin *p, const struct ggml_tensor *w)
{
    const ggml_backend_buffer_t buffer = w->view_src ? w->view_src->buffer : w->buffer;

    if (!buffer)
        return w->op == GGML_OP_NONE && !w->view_src && !(w->flags & GGML_TENSOR_FLAG_INPUT);
    if (ggml_backend_buffer_get_type(buffer) != &p->packed || w->view_src)
        return false;
    return w->extra || ggml_backend_buffer_get_size(buffer) == 0;
}

/* Where the rows pay for packing a weight of the host's (ORK_MOVE). All experts are taken to have
 * rows, since nobody knows before the router ran. */
static bool pays_for_packing(const struct plugin *p, const struct ggml_tensor *op)
{
    const struct ggml_tensor *w = op->src[0];
    const ggml_backend_buffer_t buffer = w->buffer;
    const bool routed = op->op == GGML_OP_MUL_MAT_ID;
    const struct placement_ask ask = {
        .routed = routed,
        .rows = (uint64_t)(routed ? op->src[2]->ne[0] * op->src[2]->ne[1] : ggml_nrows(op->src[1])),
        .n = (uint32_t)w->ne[1],
        .k = (uint32_t)w->ne[0],
        .active = (uint32_t)(w->ne[2] * w->ne[3]),
        .weight_bytes = packed_weight_bytes(&p->format, w),
        .source_bytes = ggml_nbytes(w)};

    return p->options.move && buffer && ggml_backend_buffer_get_size(buffer) > 0 &&
           ggml_backend_buffer_is_host(buffer) && w->op == GGML_OP_NONE && !w->view_src &&
           ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
           placement_decide(&p->rules, &ask).on_npu;
}

/* A weight that was not given to this device draws no op to it. */
static bool is_the_hosts(const struct plugin *p, const struct ggml_tensor *w)
{
    return w->buffer &&
           ggml_backend_buffer_get_usage(w->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
           ggml_backend_buft_get_device(ggml_backend_buffer_get_type(w->buffer)) != &p->device;
}

/* The ADD of a norm's bias, or the question where a bias is to lie. Other sums are the CPU's. */
static bool adds_to_norm(const struct plugin *p, const struct ggml_tensor *op)
{
    const struct ggml_tensor *x = op->src[0];
    const ggml_backend_buffer_t buffer = op->src[1]->buffer;

    if (x->op == GGML_OP_MUL)
        return norm_row_is_mul(x) && norm_row_is_norm(x->src[0]);
    return x->op == GGML_OP_NONE && buffer && ggml_backend_buffer_get_size(buffer) == 0 &&
           ggml_backend_buffer_get_type(buffer) == &p->plain;
}

bool op_support_ask(const struct plugin *p, const struct ggml_tensor *op)
{
    if (op_support_is_nothing(op))
        return true;
    if (op_support_shape(op))
        return weight_is_here(p, op->src[0]) || pays_for_packing(p, op);
    if (norm_row_is_add(op) && !adds_to_norm(p, op))
        return false;
    return norm_row_is_norm(op) ||
           ((norm_row_is_mul(op) || norm_row_is_add(op)) && !is_the_hosts(p, op->src[1]));
}
