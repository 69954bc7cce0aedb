/* Plain C that compilers vectorise: a 4 x 4 block of integer sums, a 1 x 4 block of float sums.
 *
 * On x86 the same bodies are compiled again for AVX2 and chosen by what the processor has; the
 * results are equal by construction (see sim_gemm.h), the speed is not. */
#include "sim_gemm.h"

#include <string.h>

#define SIM_INLINE static inline __attribute__((always_inline))

enum { BLOCK = 4, LANES = 16 };

SIM_INLINE void int_block(const int16_t *restrict a, const int16_t *restrict b, size_t k,
                          int32_t *restrict out, size_t pitch, size_t rows)
{
    int32_t s[BLOCK][BLOCK] = {{0}};
    for (size_t i = 0; i < k; i++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < BLOCK; c++)
                s[r][c] += (int32_t)a[r * k + i] * b[c * k + i];
    for (size_t r = 0; r < rows; r++)
        memcpy(out + r * pitch, s[r], sizeof s[r]);
}

SIM_INLINE void int_panel(const int16_t *a, size_t rows, const int16_t *b, size_t kernels, size_t k,
                          int32_t *sums)
{
    for (size_t c = 0; c < kernels; c += BLOCK) {
        size_t r = 0;
        for (; r + BLOCK <= rows; r += BLOCK)
            int_block(a + r * k, b + c * k, k, sums + r * kernels + c, kernels, BLOCK);
        for (; r < rows; r++)
            int_block(a + r * k, b + c * k, k, sums + r * kernels + c, kernels, 1);
    }
}

SIM_INLINE void float_block(const float *restrict a, const float *restrict b, size_t k,
                            float *restrict out)
{
    float s[BLOCK][LANES] = {{0}};
    for (size_t i = 0; i < k; i += LANES)
        for (size_t c = 0; c < BLOCK; c++)
            for (size_t l = 0; l < LANES; l++)
                s[c][l] += a[i + l] * b[c * k + i + l];
    for (size_t c = 0; c < BLOCK; c++) {
        for (size_t half = LANES / 2; half; half /= 2)
            for (size_t l = 0; l < half; l++)
                s[c][l] += s[c][l + half];
        out[c] = s[c][0];
    }
}

SIM_INLINE void float_panel(const float *a, size_t rows, const float *b, size_t kernels, size_t k,
                            float *sums)
{
    for (size_t c = 0; c < kernels; c += BLOCK)
        for (size_t r = 0; r < rows; r++)
            float_block(a + r * k, b + c * k, k, sums + r * kernels + c);
}

#if defined(__x86_64__)
#define SIM_AVX2 __attribute__((target("avx2")))

SIM_AVX2 static void int_panel_avx2(const int16_t *a, size_t rows, const int16_t *b, size_t kernels,
                                    size_t k, int32_t *sums)
{
    int_panel(a, rows, b, kernels, k, sums);
}

SIM_AVX2 static void float_panel_avx2(const float *a, size_t rows, const float *b, size_t kernels,
                                      size_t k, float *sums)
{
    float_panel(a, rows, b, kernels, k, sums);
}

static int have_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define int_panel_avx2   int_panel
#define float_panel_avx2 float_panel

static int have_avx2(void)
{
    return 0;
}
#endif

void sim_gemm_int(const int16_t *a, size_t rows, const int16_t *b, size_t kernels, size_t k,
                  int32_t *sums)
{
    if (have_avx2())
        int_panel_avx2(a, rows, b, kernels, k, sums);
    else
        int_panel(a, rows, b, kernels, k, sums);
}

void sim_gemm_float(const float *a, size_t rows, const float *b, size_t kernels, size_t k,
                    float *sums)
{
    if (have_avx2())
        float_panel_avx2(a, rows, b, kernels, k, sums);
    else
        float_panel(a, rows, b, kernels, k, sums);
}
