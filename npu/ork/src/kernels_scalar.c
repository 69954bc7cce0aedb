/* The reference: what every vector table is compared with, bit for bit. Plain loops. */
#include "half.h"
#include "kernels.h"

#include <math.h>
#include <string.h>

static void cells_put(uint8_t *dst, size_t step, const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * step, src + i * 16, 16);
}

static void cells_get(uint8_t *dst, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(dst + i * 16, src + i * step, 16);
}

static void nibbles_put(uint8_t *dst, size_t step, const int8_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < 16; j++)
            dst[i * step + j] =
                (uint8_t)((codes[i * 32 + 2 * j] & 15) | (codes[i * 32 + 2 * j + 1] & 15) << 4);
}

static void nibbles_get(int8_t *codes, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < 16; j++) {
            const uint8_t byte = src[i * step + j];

            codes[i * 32 + 2 * j] = (int8_t)((byte & 15) ^ 8) - 8;
            codes[i * 32 + 2 * j + 1] = (int8_t)((byte >> 4) ^ 8) - 8;
        }
    }
}

static void add_i32(int32_t *acc, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t cell[4];

        memcpy(cell, src + i * step, 16);
        for (size_t j = 0; j < 4; j++)
            acc[i * 4 + j] = (int32_t)((uint32_t)acc[i * 4 + j] + cell[j]);
    }
}

static size_t add_i16(int32_t *acc, const uint8_t *src, size_t step, size_t n)
{
    size_t at_bound = 0;

    for (size_t i = 0; i < n; i++) {
        int16_t cell[8];

        memcpy(cell, src + i * step, 16);
        for (size_t j = 0; j < 8; j++) {
            acc[i * 8 + j] += cell[j];
            at_bound += cell[j] == INT16_MAX || cell[j] == INT16_MIN;
        }
    }
    return at_bound;
}

static void add_f32(float *acc, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float cell[4];

        memcpy(cell, src + i * step, 16);
        for (size_t j = 0; j < 4; j++)
            acc[i * 4 + j] += cell[j];
    }
}

static void add_f16(float *acc, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t cell[8];

        memcpy(cell, src + i * step, 16);
        for (size_t j = 0; j < 8; j++)
            acc[i * 8 + j] += ork_half_to_float(cell[j]);
    }
}

static void scale(float *out, const int32_t *acc, const float *b, float a, size_t n, bool add)
{
    for (size_t i = 0; i < n; i++) {
        const float value = (float)acc[i] * (a * b[i]);

        out[i] = add ? out[i] + value : value;
    }
}

static void dots(int32_t *sums, const int8_t *w, const int8_t *x, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 0;

        for (int i = 0; i < 32; i++)
            sum += (int16_t)w[32 * j + i] * (int16_t)x[i];
        sums[j] += sum;
    }
}

static void to_f16(uint16_t *out, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = ork_half_from_float(src[i]);
}

static float norm_mul(float *y, const float *x, const float *norm, size_t n)
{
    float lane[ORK_REDUCE_LANES] = {0};

    for (size_t i = 0; i < n; i++) {
        lane[i % ORK_REDUCE_LANES] += x[i] * x[i];
        y[i] = norm ? x[i] * norm[i] : x[i];
    }
    for (size_t half = ORK_REDUCE_LANES / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static void fwht(float *x, size_t n, size_t block)
{
    for (size_t start = 0; block && start + block <= n; start += block) {
        float *v = x + start;

        for (size_t h = 1; h < block; h *= 2) {
            for (size_t i = 0; i < block; i += 2 * h) {
                for (size_t j = i; j < i + h; j++) {
                    const float a = v[j], b = v[j + h];

                    v[j] = a + b;
                    v[j + h] = a - b;
                }
            }
        }
    }
}

static float absmax(const float *x, size_t n)
{
    float max = 0;

    for (size_t i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    return max;
}

static void quantise(int8_t *codes, const float *x, float inv, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float q = x[i] * inv;
        float whole;

        q = q > limit ? limit : q < -limit ? -limit : q == q ? q : 0;
        whole = (float)(int32_t)q;
        codes[i] = (int8_t)((int32_t)whole + (q - whole >= 0.5f) - (q - whole <= -0.5f));
    }
}

const struct ork_kernels *ork_kernels_scalar(void)
{
    static const struct ork_kernels table = {
        .name = "scalar",
        .cells_put = cells_put,
        .cells_get = cells_get,
        .nibbles_put = nibbles_put,
        .nibbles_get = nibbles_get,
        .add_i32 = add_i32,
        .add_i16 = add_i16,
        .add_f32 = add_f32,
        .add_f16 = add_f16,
        .scale = scale,
        .dots = dots,
        .to_f16 = to_f16,
        .norm_mul = norm_mul,
        .fwht = fwht,
        .absmax = absmax,
        .quantise = quantise,
    };
    return &table;
}
