/* Layouts against the index formulas, every instruction set against the scalar reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "half.h"
#include "pack.h"
#include "regcmd.h"

static uint64_t seed = 1;

static uint32_t rnd(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(seed >> 33);
}

static void fill(void *p, size_t bytes, enum ork_type type)
{
    uint8_t *b = p;

    for (size_t i = 0; i < bytes; i++)
        b[i] = type == ORK_I4_I16 ? (uint8_t)((int)(rnd() & 15) - 8) : (uint8_t)rnd();
}

static const struct ork_kernels *tables[5];

static size_t find_tables(void)
{
    const struct ork_kernels *all[] = {ork_kernels_scalar(), ork_kernels_avx2(),
                                       ork_kernels_avx512(), ork_kernels_neon()};
    size_t n = 0;

    for (size_t i = 0; i < 4; i++)
        if (all[i])
            tables[n++] = all[i];
    return n;
}

static const uint32_t shapes[][3] = {{1, 40, 32},    {4, 64, 64},     {5, 130, 96},
                                     {33, 257, 100}, {150, 65, 2050}, {13, 100, 1000}};

/* element index -> bits, for any element width */
static uint32_t device_element(const uint8_t *p, uint64_t i, uint32_t bits)
{
    if (bits == 4)
        return p[i / 2] >> (i & 1) * 4 & 15;
    if (bits == 8)
        return p[i];
    return (uint32_t)(p[2 * i] | p[2 * i + 1] << 8);
}

static uint32_t host_element(const void *rows, uint64_t i, const struct ork_type_desc *type)
{
    if (type->in_bits == 16)
        return ((const uint16_t *)rows)[i];
    return ((const uint8_t *)rows)[i] & (type->in_bits == 4 ? 15 : 255);
}

static void slicing_of(enum ork_type type, uint32_t k, enum ork_i4_mode mode,
                       enum ork_layout layout, struct ork_slicing *s)
{
    const struct ork_plan_options o = {.k_slice = 480, .i4_mode = mode, .layout = layout};

    assert_int_equal(ork_slicing_make(type, k, &o, s, NULL), 0);
}

/* The formula of the weight block layout, per slice. */
static void test_weight_formula(void **state)
{
    (void)state;
    for (int t = 0; t < ORK_N_TYPES; t++) {
        const struct ork_type_desc *type = ork_type_find((enum ork_type)t);

        for (size_t i = 0; i < 6; i++) {
            const uint32_t n = shapes[i][1], k = shapes[i][2];
            struct ork_slicing s;
            uint8_t *host, *dev;
            uint64_t n_pad;

            slicing_of((enum ork_type)t, k, ORK_I4_DENSE, ORK_LAYOUT_CUBE, &s);
            n_pad = ork_n_pad((enum ork_type)t, n);
            host = malloc((size_t)n * k * type->host_bytes);
            dev = calloc(1, ork_slicing_weight_bytes(&s, n));
            fill(host, (size_t)n * k * type->host_bytes, (enum ork_type)t);
            ork_pack_weight(ork_kernels_scalar(), &s, n, dev, 0, n, host);
            for (uint64_t r = 0; r < n_pad; r++) {
                for (uint64_t c = 0; c < s.k_pad; c++) {
                    const uint32_t slice = (uint32_t)(c / s.depth);
                    const uint64_t depth = ork_slicing_depth(&s, slice), kk = c % s.depth;
                    const uint64_t g = type->kernels;
                    const uint64_t at = n_pad * slice * s.depth + (r / g) * (depth / 32) * g * 32 +
                                        (kk / 32) * g * 32 + (r % g) * 32 + kk % 32;
                    const uint32_t want = r < n && c < k ? host_element(host, r * k + c, type) : 0;

                    assert_int_equal(device_element(dev, at, type->in_bits), want);
                }
            }
            free(host);
            free(dev);
        }
    }
}

/* Cube, flat, stride-2, BCHAIN and single rows against their formulas. */
static void check_input(enum ork_type t, enum ork_i4_mode mode, enum ork_layout layout, uint32_t m,
                        uint32_t k)
{
    const struct ork_type_desc *type = ork_type_find(t);
    struct ork_slicing s;
    struct ork_rows r;
    uint8_t *host = malloc((size_t)m * k * type->host_bytes), *dev;

    slicing_of(t, k, mode, layout, &s);
    assert_int_equal(ork_rows_make(&s, m, &r, NULL), 0);
    dev = calloc(1, r.bytes);
    fill(host, (size_t)m * k * type->host_bytes, t);
    ork_pack_rows(ork_kernels_scalar(), &s, &r, dev, host);
    for (uint64_t row = 0; row < m; row++) {
        for (uint64_t c = 0; c < s.k_pad; c++) {
            const uint32_t slice = (uint32_t)(c / s.depth);
            const uint64_t depth = ork_slicing_depth(&s, slice), kk = c % s.depth;
            const uint64_t m0 = row / r.m_tile * r.m_tile, local = row - m0;
            const uint64_t rows = r.m_tile < r.m_pad - m0 ? r.m_tile : r.m_pad - m0;
            const uint64_t lines = rows * r.line_mul, c2 = type->feature_c2;
            const uint64_t base = ork_rows_offset(&s, &r, slice, (uint32_t)m0) * 8 / type->in_bits;
            uint64_t at = (kk / c2) * lines * c2 + local * r.line_mul * c2 + kk % c2;

            if (layout == ORK_LAYOUT_FLAT)
                at = local * s.k_pad + kk;
            if (mode == ORK_I4_BCHAIN)
                at = 2 * local * depth + kk;
            if (mode == ORK_I4_ROWS)
                at = kk;
            assert_int_equal(device_element(dev, base + at, type->in_bits),
                             c < k ? host_element(host, row * k + c, type) : 0);
        }
    }
    free(host);
    free(dev);
}

static void test_input_formula(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        const uint32_t m = shapes[i][0], k = shapes[i][2];

        for (int t = 0; t < ORK_N_TYPES; t++) {
            check_input((enum ork_type)t, ORK_I4_DENSE, ORK_LAYOUT_CUBE, m, k);
            if (t != ORK_I4_I16)
                check_input((enum ork_type)t, ORK_I4_DENSE, ORK_LAYOUT_FLAT, m, k);
        }
        check_input(ORK_I4_I16, ORK_I4_STRIDE2, ORK_LAYOUT_CUBE, m, k);
        check_input(ORK_I4_I16, ORK_I4_BCHAIN, ORK_LAYOUT_CUBE, m, k);
        check_input(ORK_I4_I16, ORK_I4_ROWS, ORK_LAYOUT_CUBE, m, k);
    }
}

static void test_weight_round_trip(void **state)
{
    (void)state;
    for (int t = 0; t < ORK_N_TYPES; t++) {
        const size_t bytes = (size_t)100 * 1000 * ork_type_find((enum ork_type)t)->host_bytes;
        uint8_t *host = malloc(bytes), *back = malloc(bytes), *dev;
        struct ork_slicing s;

        slicing_of((enum ork_type)t, 1000, ORK_I4_DENSE, ORK_LAYOUT_CUBE, &s);
        dev = calloc(1, ork_slicing_weight_bytes(&s, 100));
        fill(host, bytes, (enum ork_type)t);
        ork_pack_weight(ork_kernels_best(), &s, 100, dev, 0, 100, host);
        ork_unpack_weight(ork_kernels_best(), &s, 100, dev, 0, 100, back);
        assert_memory_equal(host, back, bytes);
        free(host);
        free(back);
        free(dev);
    }
}

/* A device output put where the chip's own output rule says, read back through the plan. */
static void check_output(enum ork_type t, enum ork_i4_mode mode, enum ork_layout layout, uint32_t m,
                         uint32_t n, const struct ork_kernels *kernels)
{
    const struct ork_type_desc *type = ork_type_find(t);
    const struct ork_plan_options o = {
        .k_slice = 64, .n_cores = 2, .i4_mode = mode, .layout = layout};
    struct ork_slicing s;
    struct ork_plan p;
    uint8_t *out[ORK_MAX_CORES];
    int32_t *c = calloc((size_t)m * n, 4);
    const struct ork_readback to = {.c = c, .stride = n};

    assert_int_equal(ork_slicing_make(t, 200, &o, &s, NULL), 0);
    assert_int_equal(ork_plan_make(&s, m, n, &p, NULL), 0);
    for (uint32_t i = 0; i < p.n_cores; i++)
        out[i] = calloc(1, p.c_bytes[i]);
    for (uint32_t i = 0; i < p.n_tiles; i++) {
        const struct ork_tile *tile = &p.tiles[i];
        struct ork_geometry g;

        ork_geometry_of_tile(&p, tile, &g);
        for (uint32_t row = 0; row < tile->rows; row++) {
            for (uint32_t col = 0; col < tile->cols; col++) {
                const uint64_t surf = col / type->out_c2, line = (uint64_t)row * p.rows.line_mul;
                const uint64_t at =
                    16 * (surf / type->out_atoms * g.dst_surf_add +
                          surf % type->out_atoms * g.dst_surf_stride + line * (1 + g.notch)) +
                    col % type->out_c2 * type->out_bytes;
                const int value =
                    (int)((tile->m0 + row) * 7 + (tile->n0 + col) * 3 + tile->slice) % 1000;
                uint8_t *dst = out[tile->core] + tile->c_offset + at;

                assert_true(tile->c_offset + at + type->out_bytes <= p.c_bytes[tile->core]);
                if (t == ORK_I8_I32)
                    memcpy(dst, &value, 4);
                else if (t == ORK_I4_I16)
                    memcpy(dst, &(int16_t){(int16_t)value}, 2);
                else if (t == ORK_F16_F32)
                    memcpy(dst, &(float){(float)value}, 4);
                else
                    memcpy(dst, &(uint16_t){ork_half_from_float((float)value)}, 2);
            }
        }
    }
    for (uint32_t i = 0; i < p.n_tiles; i += s.n_slices)
        assert_int_equal(ork_unpack_tiles(kernels, &p, i, out[p.tiles[i].core], &to), 0);
    for (uint32_t i = 0; i < m * n; i++) {
        int want = 0;

        for (uint32_t k = 0; k < s.n_slices; k++)
            want += (int)(i / n * 7 + i % n * 3 + k) % 1000;
        if (t == ORK_F16_F32)
            assert_int_equal((int)((float *)c)[i], want);
        else if (t == ORK_F16_F16)
            assert_int_equal(((uint16_t *)c)[i], ork_half_from_float((float)want));
        else
            assert_int_equal(c[i], want);
    }
    for (uint32_t i = 0; i < p.n_cores; i++)
        free(out[i]);
    free(c);
    ork_plan_fini(&p);
}

static void test_output(void **state)
{
    const size_t n_tables = find_tables();

    (void)state;
    for (size_t k = 0; k < n_tables; k++) {
        for (int t = 0; t < ORK_N_TYPES; t++) {
            check_output((enum ork_type)t, ORK_I4_DENSE, ORK_LAYOUT_CUBE, 9, 700, tables[k]);
            check_output((enum ork_type)t, ORK_I4_DENSE, ORK_LAYOUT_CUBE, 1, 17, tables[k]);
            if (t != ORK_I4_I16)
                check_output((enum ork_type)t, ORK_I4_DENSE, ORK_LAYOUT_FLAT, 9, 333, tables[k]);
        }
        check_output(ORK_I4_I16, ORK_I4_STRIDE2, ORK_LAYOUT_CUBE, 9, 700, tables[k]);
        check_output(ORK_I4_I16, ORK_I4_BCHAIN, ORK_LAYOUT_CUBE, 9, 700, tables[k]);
        check_output(ORK_I4_I16, ORK_I4_ROWS, ORK_LAYOUT_CUBE, 9, 130, tables[k]);
    }
}

static void compare_table(const struct ork_kernels *a, const struct ork_kernels *b, size_t n)
{
    enum { CELLS = 100, STEP = 48 };
    static uint8_t src[CELLS * STEP], x[2][CELLS * 64], y[2][CELLS * 64];
    static float f[2][CELLS * 8], in[CELLS * 8];

    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(rnd() & 1 ? rnd() : 0xffu >> (rnd() & 1));
    for (size_t i = 0; i < CELLS * 8; i++) {
        const uint32_t bits = rnd() ^ rnd() << 16;

        memcpy(&in[i], &bits, 4);
        f[0][i] = f[1][i] = (float)(int)(rnd() % 2000) - 1000;
    }
    a->cells_put(x[0], STEP, src, n);
    b->cells_put(x[1], STEP, src, n);
    a->cells_get(y[0], src, STEP, n);
    b->cells_get(y[1], src, STEP, n);
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    assert_memory_equal(y[0], y[1], sizeof(y[0]));
    a->nibbles_put(x[0], STEP, (const int8_t *)src, n);
    b->nibbles_put(x[1], STEP, (const int8_t *)src, n);
    a->nibbles_get((int8_t *)y[0], src, STEP, n);
    b->nibbles_get((int8_t *)y[1], src, STEP, n);
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    assert_memory_equal(y[0], y[1], sizeof(y[0]));
    a->add_i32((int32_t *)(void *)y[0], src, STEP, n);
    b->add_i32((int32_t *)(void *)y[1], src, STEP, n);
    memset(x, 0, sizeof(x));
    assert_int_equal(a->add_i16((int32_t *)(void *)x[0], src, STEP, n),
                     b->add_i16((int32_t *)(void *)x[1], src, STEP, n));
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    assert_memory_equal(y[0], y[1], sizeof(y[0]));
    a->to_f16((uint16_t *)(void *)x[0], in, n * 4);
    b->to_f16((uint16_t *)(void *)x[1], in, n * 4);
    assert_memory_equal(x[0], x[1], sizeof(x[0]));
    for (size_t add = 0; add < 2; add++) {
        a->scale(f[0], (const int32_t *)(void *)y[0], f[0], 0.37f, n * 4, add);
        b->scale(f[1], (const int32_t *)(void *)y[0], f[1], 0.37f, n * 4, add);
        assert_memory_equal(f[0], f[1], sizeof(f[0]));
    }
}

/* Float sums of special values: NaN payloads may differ, everything else not. */
static void compare_float_adds(const struct ork_kernels *a, const struct ork_kernels *b)
{
    enum { CELLS = 61 };
    static float acc[2][CELLS * 8];
    static uint16_t src[CELLS * 8];
    static float src32[CELLS * 4];

    for (size_t i = 0; i < CELLS * 8; i++) {
        src[i] = (uint16_t)rnd();
        acc[0][i] = acc[1][i] = (float)(rnd() % 100);
    }
    for (size_t i = 0; i < CELLS * 4; i++)
        src32[i] = (float)rnd() * 1e-3f;
    a->add_f16(acc[0], (const uint8_t *)src, 16, CELLS);
    b->add_f16(acc[1], (const uint8_t *)src, 16, CELLS);
    a->add_f32(acc[0], (const uint8_t *)src32, 16, CELLS);
    b->add_f32(acc[1], (const uint8_t *)src32, 16, CELLS);
    for (size_t i = 0; i < CELLS * 8; i++)
        if (acc[0][i] == acc[0][i])
            assert_memory_equal(&acc[0][i], &acc[1][i], 4);
        else
            assert_true(acc[1][i] != acc[1][i]);
}

static void test_vector_equals_scalar(void **state)
{
    const size_t n_tables = find_tables();

    (void)state;
    for (size_t i = 1; i < n_tables; i++) {
        print_message("comparing %s\n", tables[i]->name);
        for (size_t n = 0; n <= 100; n++)
            compare_table(tables[0], tables[i], n);
        compare_float_adds(tables[0], tables[i]);
    }
}

/* All 65536 halves through float and back. */
static void test_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);

        assert_int_equal(ork_half_from_float(ork_half_to_float((uint16_t)h)), nan ? h | 0x200 : h);
    }
    assert_int_equal(ork_half_from_float(65519.99f), 0x7bff);
    assert_int_equal(ork_half_from_float(65520.0f), 0x7c00);
    assert_int_equal(ork_half_from_float(0x1p-25f), 0);
    assert_int_equal(ork_half_from_float(0x1.8p-25f), 1);
    assert_int_equal(ork_half_from_float(2049.0f), ork_half_from_float(2048.0f));
}

static void test_saturation_is_counted(void **state)
{
    const int16_t cell[8] = {32767, -32768, 0, 32766, -32767, 32767, 1, 2};
    int32_t acc[8] = {0};

    (void)state;
    assert_int_equal(ork_kernels_best()->add_i16(acc, (const uint8_t *)cell, 16, 1), 3);
    assert_int_equal(acc[1], -32768);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_formula),        cmocka_unit_test(test_input_formula),
        cmocka_unit_test(test_weight_round_trip),     cmocka_unit_test(test_output),
        cmocka_unit_test(test_vector_equals_scalar),  cmocka_unit_test(test_half),
        cmocka_unit_test(test_saturation_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
