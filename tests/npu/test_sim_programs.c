/* The simulator gets the right product from programs that the planner did not make: the lists
 * captured on silicon and the vectors of the open drivers, for every type, with layouts written
 * out here a second time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_fetch.h"
#include "sim/sim_gemm.h"
#include "sim/sim_store.h"
#include "sim_hand.h"

struct shape {
    uint32_t m, k, n;
};

static const struct shape shapes[] = {
    [HAND_I8_FLAT] = {4, 32, 32}, [HAND_F16_FLAT] = {4, 32, 16}, [HAND_I4_ROW] = {1, 64, 64},
    [HAND_I8_CUBE] = {4, 64, 64}, [HAND_F16_CUBE] = {4, 64, 64}, [HAND_I4_CUBE] = {4, 64, 64},
};

static int nibble(const uint8_t *bytes, size_t index)
{
    int value = bytes[index / 2] >> (index % 2 ? 4 : 0) & 0xf;
    return value >= 8 ? value - 16 : value;
}

static float half_at(const uint8_t *bytes, size_t index)
{
    uint16_t half;
    memcpy(&half, bytes + 2 * index, 2);
    return sim_half_to_float(half);
}

/* Element (m, k) of the features, from the layout of the kind. */
static double feature(const struct hand_machine *x, enum hand_kind kind, uint32_t m, uint32_t k)
{
    const struct shape *s = &shapes[kind];
    switch (kind) {
    case HAND_I8_FLAT:
        return (int8_t)x->features[m * s->k + k];
    case HAND_F16_FLAT:
        return half_at(x->features, m * s->k + k);
    case HAND_I4_ROW:
        return nibble(x->features, k);
    case HAND_I8_CUBE:
        return (int8_t)x->features[k / 16 * s->m * 16 + m * 16 + k % 16];
    case HAND_F16_CUBE:
        return half_at(x->features, k / 8 * s->m * 8 + m * 8 + k % 8);
    default:
        return nibble(x->features, k / 32 * s->m * 32 + m * 32 + k % 32);
    }
}

/* Element (n, k) of the weights: groups of kernels, blocks of 32 K. */
static double weight(const struct hand_machine *x, enum hand_kind kind, uint32_t n, uint32_t k)
{
    uint32_t blocks = shapes[kind].k / 32;
    switch (kind) {
    case HAND_I8_FLAT:
    case HAND_I8_CUBE:
        return (int8_t)x->weights[(n / 32 * blocks + k / 32) * 1024 + n % 32 * 32 + k % 32];
    case HAND_F16_FLAT:
    case HAND_F16_CUBE:
        return half_at(x->weights, (n / 16 * blocks + k / 32) * 512 + n % 16 * 32 + k % 32);
    default:
        return nibble(x->weights, (n / 64 * blocks + k / 32) * 2048 + n % 64 * 32 + k % 32);
    }
}

static double result(const struct hand_machine *x, enum hand_kind kind, uint32_t m, uint32_t n)
{
    const struct shape *s = &shapes[kind];
    bool flat = kind == HAND_I8_FLAT || kind == HAND_F16_FLAT;
    size_t wide = flat ? m * s->n + n : n / 4 * s->m * 4 + m * 4 + n % 4;
    int32_t i32;
    int16_t i16;
    float f32;
    memcpy(&i32, x->output + 4 * wide, 4);
    memcpy(&f32, x->output + 4 * wide, 4);
    memcpy(&i16, x->output + 2 * (n / 8 * s->m * 8 + m * 8 + n % 8), 2);
    if (kind == HAND_I4_ROW || kind == HAND_I4_CUBE)
        return i16;
    return kind == HAND_F16_FLAT || kind == HAND_F16_CUBE ? (double)f32 : i32;
}

static double bound(enum hand_kind kind, double magnitude)
{
    return kind == HAND_F16_FLAT || kind == HAND_F16_CUBE ? magnitude * 1e-6 : 0;
}

static void check_product(const struct hand_machine *x, enum hand_kind kind)
{
    for (uint32_t m = 0; m < shapes[kind].m; m++)
        for (uint32_t n = 0; n < shapes[kind].n; n++) {
            double sum = 0, magnitude = 0, error;
            for (uint32_t k = 0; k < shapes[kind].k; k++) {
                double product = feature(x, kind, m, k) * weight(x, kind, n, k);
                sum += product;
                magnitude += product < 0 ? -product : product;
            }
            error = result(x, kind, m, n) - sum;
            assert_true(error <= bound(kind, magnitude) && error >= -bound(kind, magnitude));
        }
}

static void run_kind(enum hand_kind kind, bool with_rdma)
{
    struct hand_machine x;
    struct hand_program program;
    hand_machine_init(&x);
    hand_build(&program, kind, with_rdma);
    for (unsigned seed = 1; seed <= 3; seed++) {
        hand_fill(&x, kind, seed);
        if (hand_run(&x, &program))
            fail_msg("kind %d: %s", kind, x.fault.text);
        check_product(&x, kind);
    }
    assert_int_equal(x.core.status, 0x155);
    assert_int_equal(x.counts.programs, 1);
    assert_int_equal(x.counts.macs, shapes[kind].m * shapes[kind].k * shapes[kind].n);
    hand_machine_fini(&x);
}

static void test_every_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < HAND_N_KINDS; kind++) {
        run_kind((enum hand_kind)kind, false);
        run_kind((enum hand_kind)kind, true);
    }
}

/* Captured without the signed stride, M = 1 reads other cells: the clamp of one open driver. */
static void test_clamped_stride_reads_other_cells(void **state)
{
    struct hand_machine x;
    struct hand_program program;
    uint8_t right[128];
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I4_ROW, false);
    hand_fill(&x, HAND_I4_ROW, 7);
    assert_int_equal(hand_run(&x, &program), 0);
    memcpy(right, x.output, sizeof right);
    x.core.quirks = SIM_QUIRK_CLAMP;
    assert_int_equal(hand_run(&x, &program), 0);
    assert_memory_not_equal(right, x.output, sizeof right);
    hand_set(&program, 0x1080, 0);
    x.core.quirks = 0;
    assert_int_equal(hand_run(&x, &program), 0);
    assert_memory_not_equal(right, x.output, sizeof right);
    hand_machine_fini(&x);
}

/* One line of M pixels is the same product as M lines of one pixel. */
static void test_rows_as_pixels(void **state)
{
    struct hand_machine x;
    struct hand_program program;
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I8_CUBE, false);
    hand_fill(&x, HAND_I8_CUBE, 5);
    hand_set(&program, 0x1020, 0x40001);
    hand_set(&program, 0x1084, 0x40001);
    hand_set(&program, 0x1028, 4);
    hand_set(&program, 0x107c, 16);
    hand_set(&program, 0x1080, (uint32_t)-12 & 0x0fffffff);
    hand_set(&program, 0x3014, 3);
    hand_set(&program, 0x4030, 3);
    hand_set(&program, 0x4034, 0);
    hand_set(&program, 0x405c, 3);
    if (hand_run(&x, &program))
        fail_msg("%s", x.fault.text);
    check_product(&x, HAND_I8_CUBE);
    hand_machine_fini(&x);
}

/* The four-row int4 program with WDMA_SIZE_1 = 0: results in the order of computation. */
static void test_int4_computation_order(void **state)
{
    struct hand_machine x;
    struct hand_program program;
    int16_t cube[4 * 64], stream[4 * 64];
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I4_CUBE, true);
    hand_fill(&x, HAND_I4_CUBE, 9);
    assert_int_equal(hand_run(&x, &program), 0);
    memcpy(cube, x.output, sizeof cube);
    hand_set(&program, 0x405c, 0);
    assert_int_equal(hand_run(&x, &program), 0);
    memcpy(stream, x.output, sizeof stream);
    for (size_t m = 0; m < 4; m++)
        for (size_t n = 0; n < 64; n++)
            assert_int_equal(stream[m * 64 + n], cube[n / 8 * 32 + m * 8 + n % 8]);
    hand_machine_fini(&x);
}

static int16_t first_int16(const struct hand_machine *x)
{
    int16_t value;
    memcpy(&value, x->output, sizeof value);
    return value;
}

/* K = 2048 of +-8 products: beyond int16 on both sides; every cell is counted. */
static void test_int4_saturates(void **state)
{
    struct hand_machine x;
    struct hand_program program;
    uint8_t *weights = malloc(0x10000);
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I4_ROW, false);
    hand_set(&program, 0x1024, 0x7ff0800);
    hand_set(&program, 0x1088, 0x800);
    hand_set(&program, 0x1030, 0x10000);
    hand_set(&program, 0x1034, 0x400);
    hand_set(&program, 0x1044, 16);
    hand_set(&program, 0x1110, 0x100000);
    memset(x.features, 0x88, HAND_BUFFER_BYTES);
    memset(weights, 0x88, 0x10000);
    assert_int_equal(sim_mem_add(&x.mem, 0x100000, weights, 0x10000), 0);
    if (hand_run(&x, &program))
        fail_msg("%s", x.fault.text);
    assert_int_equal(first_int16(&x), INT16_MAX);
    assert_int_equal(x.counts.saturated_cells, 64);
    memset(weights, 0x77, 0x10000);
    assert_int_equal(hand_run(&x, &program), 0);
    assert_int_equal(first_int16(&x), INT16_MIN);
    assert_int_equal(x.counts.saturated_cells, 64);
    memset(weights, 0x11, 0x10000);
    assert_int_equal(hand_run(&x, &program), 0);
    assert_int_equal(first_int16(&x), -8 * 2048);
    assert_int_equal(x.counts.saturated_cells, 0);
    hand_machine_fini(&x);
    free(weights);
}

/* int8 results in narrow types: scale, shift with ties to even, saturation. */
static void test_int8_to_int8(void **state)
{
    struct hand_machine x;
    struct hand_program program;
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I8_FLAT, false);
    hand_set(&program, 0x4010, 0);
    hand_set(&program, 0x4038, 0x10001);
    hand_set(&program, 0x4050, 0x124);
    hand_set(&program, 0x40c0, 0x20);
    hand_set(&program, 0x4084, 3);
    hand_set(&program, 0x4088, 10);
    hand_fill(&x, HAND_I8_FLAT, 3);
    if (hand_run(&x, &program))
        fail_msg("%s", x.fault.text);
    for (uint32_t m = 0; m < 4; m++)
        for (uint32_t n = 0; n < 32; n++) {
            int64_t sum = 0, want;
            for (uint32_t k = 0; k < 32; k++)
                sum += (int64_t)(feature(&x, HAND_I8_FLAT, m, k) * weight(&x, HAND_I8_FLAT, n, k));
            want = sim_shift_round(sum * 3, 10);
            want = want > 127 ? 127 : want < -128 ? -128 : want;
            assert_int_equal((int8_t)x.output[m * 32 + n], want);
        }
    hand_machine_fini(&x);
}

static void test_shift_round(void **state)
{
    static const struct {
        int64_t value;
        uint32_t shift;
        int64_t want;
    } cases[] = {{5, 1, 2},   {7, 1, 4},  {-5, 1, -2}, {-7, 1, -4}, {6, 2, 2},
                 {-6, 2, -2}, {10, 2, 2}, {11, 2, 3},  {9, 0, 9},   {-1, 31, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sim_shift_round(cases[i].value, cases[i].shift), cases[i].want);
}

/* Every half survives the way to float and back; rounding goes to the nearest, ties to even. */
static void test_half_conversion(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        bool nan = (half & 0x7c00) == 0x7c00 && half & 0x3ff;
        if (!nan)
            assert_int_equal(sim_float_to_half(sim_half_to_float((uint16_t)half)), half);
    }
    for (uint32_t half = 0; half < 0x7bff; half++) {
        float low = sim_half_to_float((uint16_t)half),
              high = sim_half_to_float((uint16_t)(half + 1));
        float middle = low + (high - low) / 2;
        assert_int_equal(sim_float_to_half(middle), half + (half & 1));
        assert_int_equal(sim_float_to_half(-middle), 0x8000 | (half + (half & 1)));
    }
    assert_int_equal(sim_float_to_half(65519.0f), 0x7bff);
    assert_int_equal(sim_float_to_half(65520.0f), 0x7c00);
}

/* The float order is the documented one, whatever the vector width: a plain loop agrees bit for
 * bit. */
static void test_float_order(void **state)
{
    enum { ROWS = 3, KERNELS = 4, K = 96 };
    float a[ROWS * K], b[KERNELS * K], sums[ROWS * KERNELS];
    unsigned seed = 1;
    (void)state;
    for (size_t i = 0; i < ROWS * K + KERNELS * K; i++) {
        seed = seed * 1664525 + 1013904223;
        *(i < ROWS * K ? &a[i] : &b[i - ROWS * K]) =
            sim_half_to_float((uint16_t)(seed >> 16 & 0xbfff));
    }
    sim_gemm_float(a, ROWS, b, KERNELS, K, sums);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < KERNELS; c++) {
            float lane[16] = {0};
            for (size_t i = 0; i < K; i++)
                lane[i % 16] += a[r * K + i] * b[c * K + i];
            for (size_t half = 8; half; half /= 2)
                for (size_t l = 0; l < half; l++)
                    lane[l] += lane[l + half];
            assert_memory_equal(&lane[0], &sums[r * KERNELS + c], sizeof(float));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_clamped_stride_reads_other_cells),
        cmocka_unit_test(test_rows_as_pixels),
        cmocka_unit_test(test_int4_computation_order),
        cmocka_unit_test(test_int4_saturates),
        cmocka_unit_test(test_int8_to_int8),
        cmocka_unit_test(test_shift_round),
        cmocka_unit_test(test_half_conversion),
        cmocka_unit_test(test_float_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
