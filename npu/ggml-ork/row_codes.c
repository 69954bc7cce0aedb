/* Quantising one row. Plain loops that the compiler vectorises; the same arithmetic on every
 * processor, so that the same model gives the same bits. */
#include "row_codes.h"

#include <math.h>
#include <string.h>

#define CODE_MAX 127.0f

/* fmaxf loses a NaN, so finiteness is a sum that stays 0 for finite rows. */
static float absmax_of(const float *x, uint32_t n)
{
    float most = 0.0f;
    float unfinite = 0.0f;

    for (uint32_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);

        most = a > most ? a : most;
        unfinite += x[i] * 0.0f;
    }
    return unfinite == 0.0f ? most : NAN;
}

float row_codes_make(const float *x, uint32_t n, int8_t *codes)
{
    const float most = absmax_of(x, n);
    const float scale = most / CODE_MAX;
    const float inverse = CODE_MAX / most;

    /* The inverse of a denormal is infinite; such a row is zero at this precision. */
    if (!(most > 0.0f) || isinf(inverse)) {
        memset(codes, 0, n);
        return isnan(most) ? NAN : 0.0f;
    }
    for (uint32_t i = 0; i < n; i++) {
        const float v = x[i] * inverse;
        const float half = v < 0.0f ? -0.5f : 0.5f;

        codes[i] = (int8_t)(int32_t)(v + half);
    }
    return scale;
}
