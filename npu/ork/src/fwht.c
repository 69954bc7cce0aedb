/* The rotation as such, and fused with what stands before and after it. */
#include "fused.h"

#include <math.h>
#include <string.h>

uint32_t ork_fwht_block(uint32_t k)
{
    return k & (~k + 1);
}

void ork_fwht(float *x, size_t n, size_t block)
{
    const float norm = block ? 1.0f / sqrtf((float)block) : 0;

    if (!block || (block & (block - 1)))
        return;
    ork_kernels_best()->fwht(x, n, block);
    for (size_t i = 0; i < n / block * block; i++)
        x[i] *= norm;
}

float ork_fused_codes(const struct ork_kernels *kernels, const struct ork_quantise *how,
                      uint32_t code_max, const float *row, uint32_t k, float *scratch,
                      int8_t *codes)
{
    const uint32_t block = how->rotate ? ork_fwht_block(k) : 1;
    const float squares = kernels->norm_mul(scratch, row, how->norm, k);
    float absmax, scale, inv;

    if (block > 1)
        kernels->fwht(scratch, k, block);
    absmax = kernels->absmax(scratch, k);
    scale = absmax / (float)code_max;
    if (how->norm)
        scale /= sqrtf(squares / (float)k + how->eps);
    if (block > 1)
        scale /= sqrtf((float)block);
    if (squares != squares || !isfinite(absmax) || (how->norm && !isfinite(squares))) {
        memset(codes, 0, k);
        return NAN;
    }
    inv = (float)code_max / absmax;
    if (!isfinite(inv)) { /* zero, or too small to be told from it */
        memset(codes, 0, k);
        return 0;
    }
    kernels->quantise(codes, scratch, inv, (float)code_max, k);
    return scale;
}
