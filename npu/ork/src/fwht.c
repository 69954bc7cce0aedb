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

/* The scale of n elements and their codes. */
static float codes_of(const struct ork_kernels *kernels, const float *x, uint32_t n,
                      uint32_t code_max, int8_t *codes)
{
    const float absmax = kernels->absmax(x, n);
    const float inv = (float)code_max / absmax;

    if (!isfinite(inv)) { /* zero, or too small to be told from it */
        memset(codes, 0, n);
        return 0;
    }
    kernels->quantise(codes, x, inv, (float)code_max, n);
    return absmax / (float)code_max;
}

void ork_quantise_row(const struct ork_quantise *how, uint32_t code_max, const float *row,
                      uint32_t k, uint32_t slice, float *room, int8_t *codes, float *scales)
{
    ork_fused_codes(ork_kernels_best(), how, code_max, row, k, slice ? slice : k, room, codes,
                    scales);
}

void ork_fused_codes(const struct ork_kernels *kernels, const struct ork_quantise *how,
                     uint32_t code_max, const float *row, uint32_t k, uint32_t depth,
                     float *scratch, int8_t *codes, float *scales)
{
    const uint32_t block = how->rotate ? ork_fwht_block(k) : 1;
    const float squares = kernels->norm_mul(scratch, row, how->norm, k);
    const float rms = how->norm ? sqrtf(squares / (float)k + how->eps) : 1.0f;
    const float spread = block > 1 ? sqrtf((float)block) : 1.0f;
    bool finite;

    if (block > 1)
        kernels->fwht(scratch, k, block);
    finite = squares == squares && isfinite(kernels->absmax(scratch, k)) &&
             (!how->norm || isfinite(squares));
    if (!finite)
        memset(codes, 0, k);
    for (uint32_t k0 = 0, s = 0; k0 < k; k0 += depth, s++) {
        const uint32_t some = k - k0 < depth ? k - k0 : depth;

        scales[s] = finite ? codes_of(kernels, scratch + k0, some, code_max, codes + k0) : NAN;
        if (how->norm)
            scales[s] /= rms;
        if (block > 1)
            scales[s] /= spread;
    }
}
