/* Sums run in double, element by element, as the CPU backend has that of RMS_NORM. (Its NORM adds
 * in another order on every processor, so there the last bits differ.) */
#include "norm_row.h"

#include <math.h>
#include <string.h>

#define K_MULTIPLE 32

static float mean_of(const float *x, uint32_t k)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < k; i++)
        sum += (double)x[i];
    return (float)(sum / k);
}

static float scale_of(const float *x, float mean, float eps, uint32_t k)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < k; i++) {
        const float d = x[i] - mean;

        sum += (double)(d * d);
    }
    return 1.0f / sqrtf((float)(sum / k) + eps);
}

void norm_row(float *y, const float *x, const struct norm_how *how, uint32_t k)
{
    const float mean = how->centred ? mean_of(x, k) : 0.0f;
    const float scale = scale_of(x, mean, how->eps, k);

    for (uint32_t i = 0; i < k; i++) {
        float v = (x[i] - mean) * scale;

        if (how->scale)
            v *= how->scale[i];
        y[i] = how->shift ? v + how->shift[i] : v;
    }
}

static bool rows_fit(const struct ggml_tensor *node)
{
    const struct ggml_tensor *x = node->src[0];

    return x && x->type == GGML_TYPE_F32 && node->type == GGML_TYPE_F32 &&
           x->nb[0] == sizeof(float) && ggml_is_contiguous(node) && ggml_are_same_shape(x, node) &&
           x->ne[0] % K_MULTIPLE == 0 && x->ne[0] > 0 && x->ne[0] < 1 << 17;
}

bool norm_row_is_norm(const struct ggml_tensor *node)
{
    return (node->op == GGML_OP_RMS_NORM || node->op == GGML_OP_NORM) && rows_fit(node);
}

/* By one row of weights for all rows. */
static bool weights_fit(const struct ggml_tensor *node)
{
    const struct ggml_tensor *w = node->src[1];

    return rows_fit(node) && w && w->type == GGML_TYPE_F32 && w->op == GGML_OP_NONE &&
           ggml_is_contiguous(w) && w->ne[0] == node->ne[0] && ggml_nrows(w) == 1;
}

bool norm_row_is_mul(const struct ggml_tensor *node)
{
    return node->op == GGML_OP_MUL && weights_fit(node);
}

bool norm_row_is_add(const struct ggml_tensor *node)
{
    return node->op == GGML_OP_ADD && weights_fit(node);
}

struct norm_how norm_row_how(const struct ggml_tensor *norm)
{
    struct norm_how how = {.centred = norm->op == GGML_OP_NORM};

    memcpy(&how.eps, norm->op_params, sizeof(how.eps));
    return how;
}

const float *norm_row_of(const struct ggml_tensor *x, int64_t row)
{
    const int64_t i1 = row % x->ne[1];
    const int64_t i2 = row / x->ne[1] % x->ne[2];
    const int64_t i3 = row / x->ne[1] / x->ne[2];

    return (const float *)(const void *)((const char *)x->data + i1 * x->nb[1] + i2 * x->nb[2] +
                                         i3 * x->nb[3]);
}

static void weigh_row(const struct ggml_tensor *node, const float *x, float *y)
{
    const float *w = node->src[1]->data;
    const int64_t k = node->ne[0];

    for (int64_t i = 0; i < k; i++)
        y[i] = node->op == GGML_OP_MUL ? x[i] * w[i] : x[i] + w[i];
}

void norm_row_node(const struct ggml_tensor *node)
{
    const uint32_t k = (uint32_t)node->ne[0];
    const bool is_norm = norm_row_is_norm(node);
    struct norm_how how = {0};

    if (is_norm)
        how = norm_row_how(node);
    for (int64_t r = 0; r < ggml_nrows(node); r++) {
        const float *x = norm_row_of(node->src[0], r);
        float *y = (float *)node->data + r * k;

        if (is_norm)
            norm_row(y, x, &how, k);
        else
            weigh_row(node, x, y);
    }
}
