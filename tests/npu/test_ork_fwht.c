/* The rotation against its definition in double, and against itself on every instruction set. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fused.h"

static uint64_t seed = 7;

static float rnd(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (float)((int32_t)(seed >> 32)) * 0x1p-31f;
}

static int bit_parity(size_t v)
{
    return __builtin_parityll(v);
}

/* H[i][j] = (-1)^popcount(i & j) / sqrt(block) */
static void reference(const float *x, size_t n, size_t block, double *y)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (size_t j = 0; j < block; j++)
            sum += (bit_parity((i % block) & j) ? -1.0 : 1.0) * x[i / block * block + j];
        y[i] = sum / sqrt((double)block);
    }
}

static void test_definition(void **state)
{
    static const size_t cases[][2] = {{1, 1},   {2, 2},     {12, 4},      {64, 64},
                                      {96, 32}, {384, 128}, {2048, 2048}, {80, 16}};

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const size_t n = cases[c][0], block = cases[c][1];
        float *x = malloc(n * sizeof(*x));
        double *y = malloc(n * sizeof(*y));

        for (size_t i = 0; i < n; i++)
            x[i] = rnd();
        reference(x, n, block, y);
        ork_fwht(x, n, block);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(x[i] - y[i]) <= 1e-6 * sqrt((double)block));
        free(x);
        free(y);
    }
}

static void test_involution_and_block(void **state)
{
    float x[64], y[64];

    (void)state;
    for (size_t i = 0; i < 64; i++)
        x[i] = y[i] = rnd();
    ork_fwht(y, 64, 64);
    ork_fwht(y, 64, 64);
    for (size_t i = 0; i < 64; i++)
        assert_true(fabsf(x[i] - y[i]) < 1e-6f);
    assert_int_equal(ork_fwht_block(2560), 512);
    assert_int_equal(ork_fwht_block(2048), 2048);
    assert_int_equal(ork_fwht_block(99), 1);
    ork_fwht(y, 64, 3); /* not a power of two: left alone */
}

/* Bound between instruction sets: zero. Bound to the double product: half a code step plus what
 * float rounding of the row adds (1e-5 of the scale's range). */
static float one_scale(const struct ork_kernels *k, const struct ork_quantise *how,
                       uint32_t code_max, const float *row, uint32_t n, float *scratch,
                       int8_t *codes)
{
    float scale;

    ork_fused_codes(k, how, code_max, row, n, n, scratch, codes, &scale);
    return scale;
}

static void check_fused(const struct ork_kernels *k, uint32_t n, bool norm, bool rotate,
                        uint32_t code_max)
{
    float *row = malloc(n * sizeof(*row)), *w = malloc(n * sizeof(*w));
    float *scratch = malloc(n * sizeof(*scratch)), *rotated = malloc(n * sizeof(*row));
    double *exact = malloc(n * sizeof(*exact)), squares = 0;
    int8_t *codes = malloc(n), *scalar = malloc(n);
    const struct ork_quantise how = {
        .size = sizeof(how), .norm = norm ? w : NULL, .eps = 1e-5f, .rotate = rotate};
    float scale, scalar_scale;

    for (uint32_t i = 0; i < n; i++) {
        row[i] = rnd() * (i % 37 ? 1 : 20);
        w[i] = 1 + rnd();
        squares += (double)row[i] * row[i];
    }
    scale = one_scale(k, &how, code_max, row, n, scratch, codes);
    scalar_scale = one_scale(ork_kernels_scalar(), &how, code_max, row, n, scratch, scalar);
    assert_memory_equal(&scale, &scalar_scale, sizeof(scale));
    assert_memory_equal(codes, scalar, n);
    for (uint32_t i = 0; i < n; i++)
        rotated[i] = (float)(norm ? row[i] * (double)w[i] / sqrt(squares / n + 1e-5) : row[i]);
    reference(rotated, n, rotate ? ork_fwht_block(n) : 1, exact);
    for (uint32_t i = 0; i < n; i++)
        assert_true(fabs(exact[i] - (double)codes[i] * scale) <=
                    0.5 * scale + 1e-5 * code_max * scale);
    free(row);
    free(w);
    free(scratch);
    free(rotated);
    free(exact);
    free(codes);
    free(scalar);
}

static void test_fused(void **state)
{
    const struct ork_kernels *tables[] = {ork_kernels_scalar(), ork_kernels_avx2(),
                                          ork_kernels_avx512(), ork_kernels_neon()};
    static const uint32_t widths[] = {1, 7, 32, 96, 100, 512, 2048, 2560};

    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; tables[t] && i < sizeof(widths) / sizeof(widths[0]); i++)
            for (int bits = 0; bits < 8; bits++)
                check_fused(tables[t], widths[i], bits & 1, bits & 2, bits & 4 ? 127 : 7);
}

static void test_odd_rows(void **state)
{
    const struct ork_quantise how = {.size = sizeof(how)};
    float row[32] = {0}, scratch[32];
    int8_t codes[32];

    (void)state;
    assert_true(one_scale(ork_kernels_best(), &how, 127, row, 32, scratch, codes) == 0);
    assert_int_equal(codes[0], 0);
    row[3] = 1e-44f;
    assert_true(one_scale(ork_kernels_best(), &how, 127, row, 32, scratch, codes) == 0);
    row[3] = NAN;
    row[4] = 2;
    assert_true(isnan(one_scale(ork_kernels_best(), &how, 127, row, 32, scratch, codes)));
    row[3] = INFINITY;
    assert_true(isnan(one_scale(ork_kernels_best(), &how, 127, row, 32, scratch, codes)));
    row[3] = 127;
    row[4] = -0.5f;
    row[5] = 0.49999997f;
    row[6] = 2.5f;
    assert_true(one_scale(ork_kernels_best(), &how, 127, row, 32, scratch, codes) == 1);
    assert_int_equal(codes[3], 127);
    assert_int_equal(codes[4], -1);
    assert_int_equal(codes[5], 0);
    assert_int_equal(codes[6], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),
        cmocka_unit_test(test_involution_and_block),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_odd_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
