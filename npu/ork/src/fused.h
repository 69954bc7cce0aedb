/* RMSNorm * weight, Walsh-Hadamard rotation, row absmax, quantisation and packing of one float
 * row, in one pass: the row is read once, turned in a scratch that stays in the first-level cache,
 * and leaves as device cells. The row-constant factors (1/rms, 1/sqrt(block)) do not touch the
 * codes; they go into the scale. */
#ifndef ORK_FUSED_H
#define ORK_FUSED_H

#include "kernels.h"
#include "pack.h"

/* Codes of one row: scratch holds k floats, codes k int8_t. scales[s] is that of elements
 * [s * depth, (s + 1) * depth), the whole row where depth >= k: x is about scale * code. A row that
 * is not finite gives zero codes and scales NaN, so that it stays visible. */
void ork_fused_codes(const struct ork_kernels *kernels, const struct ork_quantise *how,
                     uint32_t code_max, const float *row, uint32_t k, uint32_t depth,
                     float *scratch, int8_t *codes, float *scales);

#endif
