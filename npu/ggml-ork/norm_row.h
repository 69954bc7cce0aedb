/* RMS_NORM, NORM and the MUL and ADD of a row of weights, as nodes of their own or as the first
 * step of coding rows: the same arithmetic in the same order either way, so that fusing changes no
 * bit. */
#ifndef GGML_ORK_NORM_ROW_H
#define GGML_ORK_NORM_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "ggml_backend_abi.h"

/* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * scale + shift; the mean of x is 0 unless
 * centred, scale and shift may be NULL. */
struct norm_how {
    bool centred; /* NORM, not RMS_NORM */
    float eps;
    const float *scale, *shift;
};

/* y may be x. */
void norm_row(float *y, const float *x, const struct norm_how *how, uint32_t k);

/* Shapes, types and strides that norm_row_node computes. */
bool norm_row_is_norm(const struct ggml_tensor *node);
bool norm_row_is_mul(const struct ggml_tensor *node);
bool norm_row_is_add(const struct ggml_tensor *node);
/* Of a NORM or RMS_NORM alone. */
struct norm_how norm_row_how(const struct ggml_tensor *norm);
/* Row r of x, in the order of dimensions 1, 2, 3. */
const float *norm_row_of(const struct ggml_tensor *x, int64_t row);
/* One of these nodes, alone. */
void norm_row_node(const struct ggml_tensor *node);

#endif
