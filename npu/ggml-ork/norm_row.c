/* The sum of squares runs in double, element by element, as the CPU backend has it. */
#include "norm_row.h"

#include <math.h>
#include <string.h>

#define K_MULTIPLE 32

static float rms_scale(const float *x, float eps, uint32_t k)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < k; i++)
        sum += (double)(x[i] * x[i]);
    return 1.0f / sqrtf((float)(sum / k) + eps);
}

void norm_row(float *y, const float *x, const float *norm, float eps, uint32_t k)
{
    const float scale = rms_scale(x, eps, k);

    for (uint32_t i = 0; i < k; i++) {
        const float v = x[i] * scale;

        y[i] = norm ? v * norm[i] : v;
    }
}

static bool rows_fit(const struct ggml_tensor *node)
{
    const struct ggml_tensor *x = node->src[0];

    return x && x->type == GGML_TYPE_F32 && node->type == GGML_TYPE_F32 &&
           x->nb[0] == sizeof(float) && ggml_is_contiguous(node) && ggml_are_same_shape(x, node) &&
           x->ne[0] % K_MULTIPLE == 0 && x->ne[0] > 0 && x->ne[0] < 1 << 17;
}

bool norm_row_is_rms(const struct ggml_tensor *node)
{
    return node->op == GGML_OP_RMS_NORM && rows_fit(node);
}

/* By one row of weights for all rows. */
bool norm_row_is_mul(const struct ggml_tensor *node)
{
    const struct ggml_tensor *w = node->src[1];

    return node->op == GGML_OP_MUL && rows_fit(node) && w && w->type == GGML_TYPE_F32 &&
           w->op == GGML_OP_NONE && ggml_is_contiguous(w) && w->ne[0] == node->ne[0] &&
           ggml_nrows(w) == 1;
}

float norm_row_eps(const struct ggml_tensor *rms)
{
    float eps;

    memcpy(&eps, rms->op_params, sizeof(eps));
    return eps;
}

const float *norm_row_of(const struct ggml_tensor *x, int64_t row)
{
    const int64_t i1 = row % x->ne[1];
    const int64_t i2 = row / x->ne[1] % x->ne[2];
    const int64_t i3 = row / x->ne[1] / x->ne[2];

    return (const float *)(const void *)((const char *)x->data + i1 * x->nb[1] + i2 * x->nb[2] +
                                         i3 * x->nb[3]);
}

void norm_row_node(const struct ggml_tensor *node)
{
    const uint32_t k = (uint32_t)node->ne[0];
    const float *w = node->op == GGML_OP_MUL ? node->src[1]->data : NULL;

    for (int64_t r = 0; r < ggml_nrows(node); r++) {
        const float *x = norm_row_of(node->src[0], r);
        float *y = (float *)node->data + r * k;

        if (!w) {
            norm_row(y, x, NULL, norm_row_eps(node), k);
            continue;
        }
        for (uint32_t i = 0; i < k; i++)
            y[i] = x[i] * w[i];
    }
}
