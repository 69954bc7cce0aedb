/* RMS_NORM and MUL, as nodes of their own or as the first step of coding rows: the same arithmetic
 * in the same order either way, so that fusing changes no bit. */
#ifndef GGML_ORK_NORM_ROW_H
#define GGML_ORK_NORM_ROW_H

#include <stdint.h>

#include "ggml_backend_abi.h"

/* y = x / sqrt(mean(x^2) + eps) * norm, norm NULL = without. y may be x. */
void norm_row(float *y, const float *x, const float *norm, float eps, uint32_t k);

/* Shapes, types and strides that norm_row_node computes. */
bool norm_row_is_rms(const struct ggml_tensor *node);
bool norm_row_is_mul(const struct ggml_tensor *node);
float norm_row_eps(const struct ggml_tensor *rms);
/* Row r of x, in the order of dimensions 1, 2, 3. */
const float *norm_row_of(const struct ggml_tensor *x, int64_t row);
/* One of the two nodes, alone. */
void norm_row_node(const struct ggml_tensor *node);

#endif
