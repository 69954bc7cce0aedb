/* The inner loops: dense dot products on the widened panels.
 *
 * Integers: exact in int32 (|a * b| <= 2^14, K < 2^16, so a sum stays below 2^30).
 * Floats: products of halves are exact in float; each sum has 16 partial sums, partial sum l adds
 * the products of elements l, l + 16, l + 32, ... in that order, and at the end 8, 4, 2 and 1
 * neighbours are folded (l += l + 8, l += l + 4, ...). The chip's order is not documented, so
 * this one is ours; it does not depend on the host's vector width or on fused multiply-add. */
#ifndef ORK_SIM_GEMM_H
#define ORK_SIM_GEMM_H

#include <stddef.h>
#include <stdint.h>

/* sums[r * kernels + c] = sum over i < k of a[r * k + i] * b[c * k + i]; kernels a multiple of 4,
 * k of 16. */
void sim_gemm_int(const int16_t *a, size_t rows, const int16_t *b, size_t kernels, size_t k,
                  int32_t *sums);
void sim_gemm_float(const float *a, size_t rows, const float *b, size_t kernels, size_t k,
                    float *sums);

#endif
