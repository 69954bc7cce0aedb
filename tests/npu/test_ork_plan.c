/* Plans: every column, row and K element covered once, offsets disjoint and inside, CBUF banks
 * within the chip, refusals with their reason. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ork_plan.h"

static const struct shape {
    enum ork_type type;
    enum ork_i4_mode mode;
    uint32_t m, n, k, cores;
    enum ork_layout layout;
} shapes[] = {
    {ORK_I8_I32, ORK_I4_DENSE, 1, 32, 32, 1, ORK_LAYOUT_CUBE},
    {ORK_I8_I32, ORK_I4_DENSE, 2100, 200, 4100, 3, ORK_LAYOUT_CUBE},
    {ORK_I8_I32, ORK_I4_DENSE, 7, 20000, 96, 3, ORK_LAYOUT_CUBE},
    {ORK_I8_I32, ORK_I4_DENSE, 33, 64, 5000, 2, ORK_LAYOUT_FLAT},
    {ORK_F16_F32, ORK_I4_DENSE, 301, 16, 2049, 3, ORK_LAYOUT_CUBE},
    {ORK_F16_F16, ORK_I4_DENSE, 65, 8193, 64, 1, ORK_LAYOUT_FLAT},
    {ORK_I4_I16, ORK_I4_DENSE, 1999, 130, 2048, 3, ORK_LAYOUT_CUBE},
    {ORK_I4_I16, ORK_I4_STRIDE2, 77, 128, 100, 1, ORK_LAYOUT_CUBE},
    {ORK_I4_I16, ORK_I4_BCHAIN, 70, 700, 1000, 2, ORK_LAYOUT_CUBE},
    {ORK_I4_I16, ORK_I4_ROWS, 9, 64, 512, 1, ORK_LAYOUT_CUBE},
};

static void make(const struct shape *s, struct ork_plan *plan)
{
    const struct ork_plan_options options = {
        .n_cores = s->cores, .i4_mode = s->mode, .layout = s->layout};
    struct ork_slicing slicing;
    struct ork_error error = {0, ""};

    if (ork_slicing_make(s->type, s->k, &options, &slicing, &error) < 0 ||
        ork_plan_make(&slicing, s->m, s->n, plan, &error) < 0)
        fail_msg("%s", error.text);
}

/* The tiles of a plan tile the volume m_pad x n_pad x k_pad: sizes add up and no two overlap. */
static void test_coverage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct ork_plan p;
        uint64_t volume = 0;

        make(&shapes[i], &p);
        for (uint32_t t = 0; t < p.n_tiles; t++) {
            const struct ork_tile *a = &p.tiles[t];

            volume += (uint64_t)a->rows * a->cols * a->depth;
            assert_true(a->m0 + a->rows <= p.rows.m_pad && a->n0 + a->cols <= p.n_pad);
            assert_int_equal(a->depth, ork_slicing_depth(&p.slicing, a->slice));
            for (uint32_t u = t + 1; u < p.n_tiles && u < t + 200; u++) {
                const struct ork_tile *b = &p.tiles[u];

                assert_false(a->slice == b->slice && a->m0 < b->m0 + b->rows &&
                             b->m0 < a->m0 + a->rows && a->n0 < b->n0 + b->cols &&
                             b->n0 < a->n0 + a->cols);
            }
        }
        assert_true(volume == (uint64_t)p.rows.m_pad * p.n_pad * p.slicing.k_pad);
        assert_true(p.rows.m_pad >= p.rows.m && p.n_pad >= p.n && p.slicing.k_pad >= p.slicing.k);
        ork_plan_fini(&p);
    }
}

static void test_offsets_and_banks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct ork_type_desc *type = ork_type_find(shapes[i].type);
        struct ork_plan p;
        uint64_t c_end[ORK_MAX_CORES] = {0};

        make(&shapes[i], &p);
        for (uint32_t t = 0; t < p.n_tiles; t++) {
            const struct ork_tile *a = &p.tiles[t];
            const uint64_t row = (uint64_t)a->depth * type->in_bits / 8;

            assert_int_equal(a->a_offset % 16, 0);
            assert_true(a->a_offset + row <= p.a_bytes);
            assert_true(a->b_offset + a->cols * row <= p.b_bytes);
            assert_true(a->c_offset >= c_end[a->core]);
            assert_int_equal(a->c_offset % ORK_TILE_ALIGN, 0);
            c_end[a->core] = a->c_offset + (uint64_t)a->lines * a->cols * type->out_bytes;
            assert_true(c_end[a->core] <= p.c_bytes[a->core]);
            assert_int_equal(a->data_banks + a->weight_banks, ORK_CBUF_BANKS);
            assert_true(a->weight_banks >= type->min_weight_banks);
            assert_true((a->data_banks - type->slack_banks) * (uint64_t)ORK_BANK_BYTES >=
                        a->lines * row);
            assert_true(a->weight_banks * (uint64_t)ORK_BANK_BYTES >= type->kernels * row);
            assert_true(a->lines <= ORK_MAX_ROWS && a->cols <= ORK_MAX_N);
            assert_true(t >= p.core_first[a->core] && t < p.core_first[a->core + 1]);
        }
        ork_plan_fini(&p);
    }
}

static void test_known_row_caps(void **state)
{
    static const struct {
        enum ork_type type;
        bool loose;
        uint32_t k, rows;
    } caps[] = {
        /* 11 banks of data less int8's slack bank */
        {ORK_I8_I32, true, 512, 640},
        {ORK_I8_I32, true, 2048, 160},
        {ORK_F16_F32, true, 512, 320},
        {ORK_F16_F32, true, 2048, 80},
        {ORK_I4_I16, true, 2048, 352},
        {ORK_I4_I16, true, 1024, 704},
        /* one kernel group stays resident */
        {ORK_I8_I32, false, 2048, 144},
        {ORK_I4_I16, false, 2048, 320},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        const struct ork_plan_options o = {.k_slice = caps[i].k,
                                           .i4_may_saturate = caps[i].type == ORK_I4_I16,
                                           .loose_banks = caps[i].loose};
        struct ork_slicing s;
        struct ork_rows r;

        assert_int_equal(ork_slicing_make(caps[i].type, caps[i].k, &o, &s, NULL), 0);
        assert_int_equal(ork_rows_make(&s, 2000, &r, NULL), 0);
        assert_int_equal(r.m_tile, caps[i].rows);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        enum ork_type type;
        uint32_t k;
        struct ork_plan_options o;
        int rc;
        const char *word;
    } cases[] = {
        {ORK_I8_I32, 0, {0}, -EINVAL, "K"},
        {ORK_I8_I32, ORK_MAX_DIM_MK + 1, {0}, -EINVAL, "K"},
        {(enum ork_type)9, 64, {0}, -EINVAL, "type"},
        {ORK_I4_I16, 4096, {.k_slice = 512}, -EOPNOTSUPP, "saturate"},
        {ORK_I4_I16, 672, {.k_slice = 672, .i4_absmax = 7}, -EOPNOTSUPP, "saturate"},
        {ORK_I4_I16, 64, {.layout = ORK_LAYOUT_FLAT}, -EOPNOTSUPP, "flat"},
        {ORK_I8_I32, 20000, {.k_slice = 20000}, -EOPNOTSUPP, "slice"},
        {ORK_I8_I32, 10240, {.k_slice = 10240}, -EOPNOTSUPP, "banks"},
        {ORK_I8_I32, 64, {.k_slice = 16}, -EINVAL, "slice"},
        {ORK_I4_I16, 64, {.i4_mode = (enum ork_i4_mode)9}, -EINVAL, "mode"},
        {ORK_I8_I32, 64, {.n_cores = 4}, -EINVAL, "cores"},
        {ORK_I8_I32, 64, {.m_multiple = 3}, -EINVAL, "padded"},
        {ORK_I8_I32, 64, {.i4_mode = ORK_I4_BCHAIN}, -EINVAL, "int4"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ork_slicing s;
        struct ork_error error = {0, ""};

        assert_int_equal(ork_slicing_make(cases[i].type, cases[i].k, &cases[i].o, &s, &error),
                         cases[i].rc);
        assert_int_equal(error.code, cases[i].rc);
        assert_non_null(strstr(error.text, cases[i].word));
    }
}

/* The deepest slices that are allowed, and that single rows reach the vendor's K limit. */
static void test_limits_accepted(void **state)
{
    const struct ork_plan_options single = {.k_slice = 10240, .m_multiple = 1};
    const struct ork_plan_options seven = {.i4_absmax = 7};
    const struct ork_plan_options endless = {.k_slice = UINT32_MAX};
    struct ork_slicing s;

    (void)state;
    assert_int_equal(ork_slicing_make(ORK_I8_I32, 10240, &single, &s, NULL), 0);
    assert_int_equal(s.n_slices, 1);
    assert_int_equal(ork_slicing_make(ORK_I4_I16, 4096, NULL, &s, NULL), 0);
    assert_true(s.depth <= 480);
    assert_int_equal(ork_slicing_make(ORK_I4_I16, 640, &seven, &s, NULL), 0);
    assert_int_equal(s.depth, 640);
    assert_int_equal(ork_slicing_make(ORK_I8_I32, 70, &endless, &s, NULL), 0);
    assert_int_equal(s.n_slices, 1);
    assert_int_equal(s.depth, 96);
}

/* The three old int4 recipes against the dense one, in programs and wasted lines. */
static void test_i4_modes_compared(void **state)
{
    static const enum ork_i4_mode modes[] = {ORK_I4_DENSE, ORK_I4_STRIDE2, ORK_I4_BCHAIN,
                                             ORK_I4_ROWS};
    uint32_t programs[4];
    uint64_t macs[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct shape s = {ORK_I4_I16, modes[i], 352, 64, 480, 1, ORK_LAYOUT_CUBE};
        struct ork_plan p;

        make(&s, &p);
        programs[i] = p.work.n_programs;
        macs[i] = p.work.macs;
        ork_plan_fini(&p);
    }
    assert_int_equal(programs[0], 1);
    assert_int_equal(programs[3], 352);
    assert_int_equal(programs[2], (352 + 24) / 25);
    assert_true(macs[1] == 2 * macs[0] && macs[2] == 4 * macs[0] && macs[3] == macs[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage),        cmocka_unit_test(test_offsets_and_banks),
        cmocka_unit_test(test_known_row_caps),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits_accepted), cmocka_unit_test(test_i4_modes_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
