/* What is computed here, and what is not.
 *
 * Two products, from F32 rows and a weight that can be packed. Where the weight lies decides: in
 * the packed type it is resident and is multiplied at any number of rows; in plain or host memory
 * it is the CPU's. That also is how libllama finds the packed type: it asks with the weight in a
 * buffer of the default type first, hears no, and asks again with the extra one. A weight that lies
 * nowhere yet (a probe, a test) is accepted; should it end up in plain memory, it is packed for the
 * product and dropped. Everything else is refused, so ggml's scheduler gives it to the CPU, which
 * reads our plain memory in place. */
#include "op_support.h"

#include "packed_weight.h"

static bool rows_fit(const struct ggml_tensor *x, const struct ggml_tensor *dst)
{
    return x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float) && dst->type == GGML_TYPE_F32 &&
           ggml_is_contiguous(dst) && ggml_nelements(dst) > 0 && ggml_nrows(x) < 1 << 24;
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

bool op_support_ask(const struct plugin *p, const struct ggml_tensor *op)
{
    return op_support_is_nothing(op) || (op_support_shape(op) && weight_is_here(p, op->src[0]));
}
