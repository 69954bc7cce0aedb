/*
 * A block is 32 weights: an exponent, then 16 bytes of two indices each, of weight j below and of
 * weight j + 16 above. Index 0..7 names 0, 1, 2, 3, 4, 6, 8, 12 times the scale, 8..15 the same
 * with a minus; ggml takes the first of the nearest. The scale is a power of two, so the
 * differences it compares are exact where they decide, and "nearest, of two the first" is how many
 * of the seven middles between neighbours a magnitude exceeds. -0 is never first.
 */
#include "mk_mxfp4.h"

#include <math.h>

enum { BLOCK = 32, HALF = BLOCK / 2, MIDDLES = 7, BIAS = 127 };

/* ggml's scale for a largest magnitude: it becomes 8 to 16 of the steps. */
static uint8_t exponent_of(float largest)
{
    return largest > 0.0f ? (uint8_t)(floorf(log2f(largest)) - 2 + BIAS) : 0;
}

static void indices_of(const float *weights, float scale, int32_t *index)
{
    static const float middles[MIDDLES] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
    for (int j = 0; j < BLOCK; j++)
        index[j] = 0;
    for (int k = 0; k < MIDDLES; k++) {
        float middle = middles[k] * scale;
        for (int j = 0; j < BLOCK; j++)
            index[j] += fabsf(weights[j]) > middle;
    }
    for (int j = 0; j < BLOCK; j++)
        index[j] += 8 * ((weights[j] < 0.0f) & (index[j] > 0));
}

void mk_mxfp4_encode(const float *weights, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i += BLOCK, weights += BLOCK, out += 1 + HALF) {
        int32_t index[BLOCK];
        float largest = 0.0f;
        for (int j = 0; j < BLOCK; j++)
            largest = fabsf(weights[j]) > largest ? fabsf(weights[j]) : largest;
        out[0] = exponent_of(largest);
        indices_of(weights, ldexpf(1.0f, out[0] - BIAS - 1), index);
        for (int j = 0; j < HALF; j++)
            out[1 + j] = (uint8_t)(index[j] | index[j + HALF] << 4);
    }
}
