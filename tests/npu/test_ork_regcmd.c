/* Programs word for word: against register vectors computed independently from the cube formulas,
 * against the write order and values captured on silicon, and against golden text dumps. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ork_regs.h"
#include "regcmd.h"
#include "regdump.h"

#define ADDRESSES ((struct ork_addresses){0x1000, 0x2000, 0x3000})

static void emit_plan(enum ork_type type, uint32_t m, uint32_t k, uint32_t n, bool rdma,
                      uint64_t out[ORK_PROGRAM_MAX])
{
    const struct ork_plan_options options = {.i4_may_saturate = type == ORK_I4_I16};
    const struct ork_recipe recipe = {.rdma_block = rdma};
    struct ork_slicing slicing;
    struct ork_plan plan;
    struct ork_geometry g;

    assert_int_equal(ork_slicing_make(type, k, &options, &slicing, NULL), 0);
    assert_int_equal(ork_plan_make(&slicing, m, n, &plan, NULL), 0);
    assert_int_equal(plan.n_tiles, 1);
    ork_geometry_of_tile(&plan, plan.tiles, &g);
    assert_int_equal(ork_regcmd_emit(&g, &ADDRESSES, &recipe, out, NULL), 0);
    ork_plan_fini(&plan);
}

/* The register's value; every write of it must carry the same one. */
static uint32_t value_of(const uint64_t *program, uint32_t n, uint32_t reg)
{
    uint32_t value = 0, found = 0;

    for (uint32_t i = 0; i + ORK_TAIL_ENTRIES < n; i++) {
        if (ORK_ENTRY_REG(program[i]) != reg)
            continue;
        if (found++)
            assert_int_equal(value, ORK_ENTRY_VALUE(program[i]));
        value = ORK_ENTRY_VALUE(program[i]);
    }
    if (!found)
        fail_msg("register %04x is not written", reg);
    return value;
}

/* "reg=value reg=value ..." in hex. */
static const struct {
    enum ork_type type;
    uint32_t m, k, n;
    const char *registers;
} vectors[] = {
    {ORK_I8_I32, 4, 64, 64,
     "100c=0 1010=50 1014=9 1020=10004 1024=3f0040 1028=1 102c=4 1030=1000 1034=40 1038=1010040 "
     "1040=a2 1044=1 104c=b 1050=10000 1054=10000 1058=10000 105c=10000 1070=1000 1078=f000f "
     "107c=4 1080=0 1084=10004 1088=40 1110=2000 3010=0 3014=30000 3018=3f 400c=1e4 "
     "4010=80000000 4020=3000 4024=40 4030=0 4034=3 4038=0 403c=3f003f 4040=53 4060=53 4050=7fe "
     "4058=3f 405c=30000 4070=383 4078=1 4084=1 40c0=200 500c=0 5010=3 5014=3f 5034=1 5044=7810 "
     "5068=1010101"},
    {ORK_F16_F32, 4, 64, 64,
     "100c=120 1010=50 1014=9 1020=10004 1024=3f0040 1028=1 102c=4 1030=2000 1034=80 "
     "1038=1010040 1040=b1 1044=2 104c=b 1050=10000 105c=10000 1070=1000 1078=f000f 107c=4 1080=0 "
     "1084=10004 1088=40 1110=2000 3010=201 3014=30000 3018=3f 400c=1e4 4010=a8000002 4020=3000 "
     "4024=40 4030=0 4034=3 4038=0 403c=3f003f 4040=53 4060=53 4050=36e 4058=3f 405c=30000 "
     "4070=383 4078=1 4084=1 40c0=100 500c=0 5010=3 5014=3f 5034=1 5044=7810 5068=1010101"},
    {ORK_I4_I16, 4, 64, 64,
     "100c=360 1010=50 1014=9 1020=10004 1024=3f0040 1028=1 102c=4 1030=800 1034=20 1038=1010040 "
     "1040=b1 1044=1 104c=b 1050=10000 105c=10000 1070=1000 1078=f000f 107c=4 1080=0 1084=10004 "
     "1088=40 1110=2000 3010=600 3014=30000 3018=3f 400c=1e4 4010=38000006 4020=3000 4024=40 "
     "4030=0 4034=3 4038=0 403c=3f003f 4040=53 4060=53 4050=7fe 4058=3f 405c=30000 4070=383 "
     "4078=1 4084=1 40c0=200 500c=0 5010=3 5014=3f 5034=1 5044=7810 5068=1010101"},
    {ORK_I8_I32, 64, 512, 256,
     "100c=0 1010=410 1014=9 1020=10040 1024=1ff0200 1028=1 102c=40 1030=20000 1034=200 "
     "1038=1010100 1040=a2 1044=8 104c=b 1050=10000 105c=10000 1070=1000 1078=f000f 107c=4 "
     "1080=3c 1084=10040 1088=200 1110=2000 3010=0 3014=3f0000 3018=ff 400c=1e4 4010=80000000 "
     "4020=3000 4024=400 4030=0 4034=3f 4038=0 403c=ff00ff 4040=53 4060=53 4050=7fe 4058=ff "
     "405c=3f0000 4070=383 4078=1 4084=1 40c0=2000 500c=0 5010=3f 5014=ff 5034=1 5044=7810 "
     "5068=1010101"},
    {ORK_I4_I16, 64, 512, 256,
     "100c=360 1010=410 1014=9 1020=10040 1024=1ff0200 1028=1 102c=40 1030=10000 1034=100 "
     "1038=1010100 1040=b1 1044=4 104c=b 1050=10000 105c=10000 1070=1000 1078=f000f 107c=4 "
     "1080=3c 1084=10040 1088=200 1110=2000 3010=600 3014=3f0000 3018=ff 400c=1e4 4010=38000006 "
     "4020=3000 4024=400 4030=0 4034=3f 4038=0 403c=ff00ff 4040=53 4060=53 4050=7fe 4058=ff "
     "405c=3f0000 4070=383 4078=1 4084=1 40c0=2000 500c=0 5010=3f 5014=ff 5034=1 5044=7810 "
     "5068=1010101"},
    {ORK_F16_F16, 4, 64, 64, "4010=48000002 4050=126 4084=10001 40c0=80 4024=40 4038=0"},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const uint32_t n = ork_regcmd_entries(true);
        uint64_t program[ORK_PROGRAM_MAX];
        const char *at = vectors[i].registers;
        unsigned reg, value;
        int length;

        emit_plan(vectors[i].type, vectors[i].m, vectors[i].k, vectors[i].n, true, program);
        while (sscanf(at, "%x=%x%n", &reg, &value, &length) == 2) {
            if (value_of(program, n, reg) != value)
                fail_msg("vector %zu: %04x is %x, not %x", i, reg, value_of(program, n, reg),
                         value);
            at += length;
        }
        assert_int_equal(*at, '\0');
        assert_int_equal(ORK_ENTRY_VALUE(program[n - 1]), 0x1d);
    }
}

/* The write order of the captured 108-entry program; registers not named here are zero. */
static const uint16_t capture_order[] = {
    0x1040, 0x1104, 0x1100, 0x100c, 0x4004, 0x100c, 0x1010, 0x1014, 0x1020, 0x1024, 0x1028, 0x102c,
    0x1030, 0x1034, 0x1038, 0x1040, 0x1044, 0x104c, 0x1050, 0x1054, 0x1058, 0x105c, 0x1060, 0x1064,
    0x1068, 0x1070, 0x1074, 0x1078, 0x107c, 0x1080, 0x1084, 0x1088, 0x1100, 0x1104, 0x1110, 0x1140,
    0x1144, 0x1148, 0x114c, 0x1150, 0x1154, 0x1158, 0x115c, 0x1160, 0x1164, 0x1168, 0x116c, 0x1170,
    0x1174, 0x1178, 0x117c, 0x1180, 0x1184, 0x3010, 0x3014, 0x3018, 0x301c, 0x3030, 0x400c, 0x4010,
    0x4014, 0x4020, 0x4024, 0x4030, 0x4034, 0x4038, 0x403c, 0x4040, 0x4044, 0x4048, 0x404c, 0x4050,
    0x4054, 0x4058, 0x405c, 0x4060, 0x4064, 0x4068, 0x406c, 0x4070, 0x4074, 0x4078, 0x407c, 0x4080,
    0x4084, 0x4088, 0x4090, 0x4094, 0x4098, 0x409c, 0x40a0, 0x40a4, 0x40a8, 0x40ac, 0x40c0, 0x40c4,
    0x4100, 0x4104, 0x4108, 0x410c, 0x4110, 0x4114, 0x4118, 0x411c, 0x4120, 0x4124, 0x4128, 0x412c,
};

static const struct capture {
    enum ork_type type;
    uint32_t m, k, n;
    struct {
        uint16_t reg;
        uint32_t value;
    } set[48];
} captures[] = {
    {ORK_I8_I32,
     4,
     32,
     32,
     {{0x1040, 0xb1},       {0x100c, 0x20000000}, {0x4004, 0xe},      {0x1010, 0x50},
      {0x1014, 0x9},        {0x1020, 0x10004},    {0x1024, 0x1f0020}, {0x1028, 1},
      {0x102c, 4},          {0x1030, 0x400},      {0x1034, 0x20},     {0x1038, 0x1010020},
      {0x1044, 1},          {0x104c, 0xb},        {0x1050, 0x10000},  {0x1054, 0x10000},
      {0x1058, 0x10000},    {0x105c, 0x10000},    {0x1070, 0x1000},   {0x1078, 0xf000f},
      {0x107c, 2},          {0x1084, 0x10004},    {0x1088, 0x20},     {0x1110, 0x2000},
      {0x3010, 1},          {0x3014, 0x30000},    {0x3018, 0x1f},     {0x400c, 0x1e4},
      {0x4010, 0x80000000}, {0x4020, 0x3000},     {0x4024, 0x10},     {0x4034, 3},
      {0x4038, 0x70007},    {0x403c, 0x1f001f},   {0x4040, 0x53},     {0x4050, 0x7fc},
      {0x4058, 0x1f},       {0x405c, 0x30000},    {0x4060, 0x53},     {0x4070, 0x383},
      {0x4078, 1},          {0x4084, 1},          {0x40c0, 0x80}}},
    {ORK_F16_F32,
     4,
     32,
     16,
     {{0x1040, 0xb1},       {0x100c, 0x20000120}, {0x4004, 0xe},      {0x1010, 0x50},
      {0x1014, 0x9},        {0x1020, 0x10004},    {0x1024, 0x1f0020}, {0x1028, 1},
      {0x102c, 4},          {0x1030, 0x400},      {0x1034, 0x40},     {0x1038, 0x1010010},
      {0x1044, 1},          {0x104c, 0xb},        {0x1050, 0x10000},  {0x1054, 0x10000},
      {0x1058, 0x10000},    {0x105c, 0x10000},    {0x1070, 0x1000},   {0x1078, 0xf000f},
      {0x107c, 4},          {0x1084, 0x10004},    {0x1088, 0x20},     {0x1110, 0x2000},
      {0x3010, 0x201},      {0x3014, 0x30000},    {0x3018, 0xf},      {0x400c, 0x1e4},
      {0x4010, 0xa8000002}, {0x4020, 0x3000},     {0x4024, 0x10},     {0x4034, 3},
      {0x4038, 0x30003},    {0x403c, 0xf000f},    {0x4040, 0x53},     {0x4050, 0x36e},
      {0x4058, 0xf},        {0x405c, 0x30000},    {0x4060, 0x53},     {0x4070, 0x383},
      {0x4078, 1},          {0x4084, 1},          {0x40c0, 0x40}}},
    {ORK_I4_I16,
     1,
     64,
     64,
     {{0x1040, 0xb1},       {0x100c, 0x360},      {0x4004, 0xe},      {0x1010, 0x20},
      {0x1014, 0x9},        {0x1020, 0x10001},    {0x1024, 0x3f0040}, {0x1028, 1},
      {0x102c, 1},          {0x1030, 0x800},      {0x1034, 0x20},     {0x1038, 0x1010040},
      {0x1044, 1},          {0x104c, 0xb},        {0x1050, 0x10000},  {0x1054, 0x10000},
      {0x1058, 0x10000},    {0x105c, 0x10000},    {0x1070, 0x1000},   {0x1078, 0xf000f},
      {0x107c, 4},          {0x1080, 0x0ffffffd}, {0x1084, 0x10001},  {0x1088, 0x40},
      {0x1110, 0x2000},     {0x3010, 0x601},      {0x3018, 0x3f},     {0x400c, 0x1e4},
      {0x4010, 0x38000006}, {0x4020, 0x3000},     {0x4024, 0x10},     {0x403c, 0x3f003f},
      {0x4040, 0x53},       {0x4050, 0x7fe},      {0x4058, 0x3f},     {0x4060, 0x53},
      {0x4070, 0x383},      {0x4078, 1},          {0x4084, 1},        {0x40c0, 0x80}}},
};

static void test_captures(void **state)
{
    const struct ork_recipe recipe = {.rdma_block = false};

    (void)state;
    assert_int_equal(sizeof(capture_order) / 2, 108);
    for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
        const struct capture *c = &captures[i];
        uint64_t program[ORK_PROGRAM_MAX];
        struct ork_geometry g;

        ork_geometry_template(c->type, c->m, c->k, c->n, &g);
        assert_int_equal(ork_regcmd_emit(&g, &ADDRESSES, &recipe, program, NULL), 0);
        for (size_t e = 0; e < 108; e++) {
            const uint32_t reg = capture_order[e];
            const uint64_t target = reg < 0x3000 ? 0x201 : reg < 0x4000 ? 0x801 : 0x1001;
            uint32_t want = 0;

            for (size_t s = 0; s < 48 && c->set[s].reg; s++)
                want = c->set[s].reg == reg ? c->set[s].value : want;
            if (program[e] != (target << 48 | (uint64_t)want << 16 | reg))
                fail_msg("capture %zu, entry %zu (%04x): %016llx, not value %x", i, e, reg,
                         (unsigned long long)program[e], want);
        }
        assert_true(program[108] == 0);
        assert_true(program[109] == UINT64_C(0x0101000000000014));
        assert_true(program[110] == UINT64_C(0x0041000000000000));
        assert_true(program[111] == UINT64_C(0x00810000000d0008));
    }
}

static void test_chain_tail(void **state)
{
    const struct ork_recipe shorter = {.next_iova = 0x12340, .next_entries = 112};
    const struct ork_recipe longer = {
        .rdma_block = true, .next_iova = 0xfffffff0, .next_entries = 130};
    uint64_t program[ORK_PROGRAM_MAX];
    struct ork_geometry g;

    (void)state;
    ork_geometry_template(ORK_I8_I32, 4, 32, 32, &g);
    assert_int_equal(ork_regcmd_emit(&g, &ADDRESSES, &shorter, program, NULL), 0);
    assert_true(program[108] == UINT64_C(0x0101000123400010));
    assert_true(program[109] == UINT64_C(0x0101000000370014));
    assert_int_equal(ork_regcmd_emit(&g, &ADDRESSES, &longer, program, NULL), 0);
    assert_true(program[126] == UINT64_C(0x0101fffffff00010));
    assert_int_equal(ORK_ENTRY_VALUE(program[127]), 64);
    assert_int_equal(ORK_ENTRY_VALUE(program[129]), 0x1d);
}

static void test_refusals(void **state)
{
    struct ork_addresses a = ADDRESSES;
    struct ork_recipe recipe = {.rdma_block = true};
    uint64_t program[ORK_PROGRAM_MAX];
    struct ork_geometry g;
    uint32_t reg;

    (void)state;
    ork_geometry_template(ORK_I8_I32, 4, 32, 32, &g);
    a.weight = UINT64_C(1) << 32;
    assert_int_equal(ork_regcmd_emit(&g, &a, &recipe, program, &reg), -ERANGE);
    assert_int_equal(reg, ORK_REG_CNA_DCOMP_ADDR0);
    a.weight = 0x2008;
    assert_int_equal(ork_regcmd_emit(&g, &a, &recipe, program, &reg), -ERANGE);
    a = ADDRESSES;
    g.cols = 8224;
    assert_int_equal(ork_regcmd_emit(&g, &a, &recipe, program, &reg), -ERANGE);
    assert_int_equal(reg, ORK_REG_DPU_DATA_CUBE_CHANNEL);
    g.cols = 32;
    g.lines = 2048;
    assert_int_equal(ork_regcmd_emit(&g, &a, &recipe, program, &reg), -ERANGE);
    assert_int_equal(reg, ORK_REG_CNA_DATA_SIZE0);
    g.lines = 4;
    recipe.next_iova = 0x10001;
    assert_int_equal(ork_regcmd_emit(&g, &a, &recipe, program, &reg), -ERANGE);
    assert_int_equal(reg, ORK_REG_PC_BASE_ADDRESS);
}

/* The old int4 recipes differ from the dense one in exactly the registers they are known by. */
static void test_i4_modes(void **state)
{
    static const struct {
        enum ork_i4_mode mode;
        uint32_t m, lines, r405c, r107c, r1080, r4024, r4038, r40c0;
    } cases[] = {
        {ORK_I4_DENSE, 4, 4, 0x30000, 4, 0, 0x40, 0, 0x200},
        {ORK_I4_STRIDE2, 4, 8, 0, 4, 4, 0x10, 0x70007, 0x400},
        {ORK_I4_BCHAIN, 4, 16, 0, 16, 0x0ffffffd, 0x10, 0x70007, 0x800},
        {ORK_I4_ROWS, 1, 1, 0, 4, 0x0ffffffd, 0x10, 0, 0x80},
    };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct ork_plan_options options = {.i4_mode = cases[i].mode};
        const struct ork_recipe recipe = {.rdma_block = true};
        uint64_t p[ORK_PROGRAM_MAX];
        struct ork_slicing slicing;
        struct ork_plan plan;
        struct ork_geometry g;

        assert_int_equal(ork_slicing_make(ORK_I4_I16, 256, &options, &slicing, NULL), 0);
        assert_int_equal(ork_plan_make(&slicing, cases[i].m, 64, &plan, NULL), 0);
        assert_int_equal(plan.n_tiles, 1);
        ork_geometry_of_tile(&plan, plan.tiles, &g);
        assert_int_equal(ork_regcmd_emit(&g, &ADDRESSES, &recipe, p, NULL), 0);
        assert_int_equal(value_of(p, 130, 0x1020), 0x10000 | cases[i].lines);
        assert_int_equal(value_of(p, 130, 0x405c), cases[i].r405c);
        assert_int_equal(value_of(p, 130, 0x107c), cases[i].r107c);
        assert_int_equal(value_of(p, 130, 0x1080), cases[i].r1080);
        assert_int_equal(value_of(p, 130, 0x4024), cases[i].r4024);
        assert_int_equal(value_of(p, 130, 0x4038), cases[i].r4038);
        assert_int_equal(value_of(p, 130, 0x40c0), cases[i].r40c0);
        ork_plan_fini(&plan);
    }
}

/* Set ORK_GOLDEN_WRITE to a folder to write the dumps instead of comparing them. */
static void test_golden_dumps(void **state)
{
    static const struct {
        enum ork_type type;
        uint32_t m, k, n;
        bool rdma;
        const char *name;
    } cases[] = {
        {ORK_I8_I32, 64, 512, 256, true, "i8"},
        {ORK_I4_I16, 64, 448, 256, true, "i4"},
        {ORK_F16_F32, 64, 512, 256, true, "f16_f32"},
        {ORK_F16_F16, 64, 512, 256, false, "f16_f16_no_rdma"},
    };
    const char *folder = getenv("ORK_GOLDEN_WRITE");

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        static char text[16384], want[16384];
        uint64_t program[ORK_PROGRAM_MAX];
        char path[512];
        size_t length;
        FILE *f;

        emit_plan(cases[i].type, cases[i].m, cases[i].k, cases[i].n, cases[i].rdma, program);
        length = ork_regdump(program, ork_regcmd_entries(cases[i].rdma), text, sizeof(text));
        assert_true(length < sizeof(text));
        snprintf(path, sizeof(path), "%s/%s.txt", folder ? folder : GOLDEN_DIR, cases[i].name);
        f = fopen(path, folder ? "w" : "r");
        assert_non_null(f);
        if (folder) {
            fwrite(text, 1, length, f);
        } else {
            want[fread(want, 1, sizeof(want) - 1, f)] = '\0';
            assert_string_equal(text, want);
        }
        fclose(f);
    }
}

static void test_regdump(void **state)
{
    const uint64_t odd[] = {0, UINT64_C(0x0041000000000000), UINT64_C(0x9999000000014242),
                            ORK_ENTRY(ORK_TARGET_DPU, ORK_REG_DPU_SURFACE_ADD, 0x83)};
    char text[256], tiny[8];
    const size_t length = ork_regdump(odd, 4, text, sizeof(text));

    (void)state;
    assert_string_equal(text, "  0 filler\n  1 sync\n  2 ? target 0x9999 reg 0x4242 = 0x1\n"
                              "  3 DPU 40c0 SURFACE_ADD = 0x83 SURF_ADD=8 UNKNOWN_BITS=0x3\n");
    assert_int_equal(ork_regdump(odd, 4, tiny, sizeof(tiny)), length);
    assert_int_equal(ork_regdump(odd, 4, NULL, 0), length);
    assert_string_equal(tiny, "  0 fil");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),    cmocka_unit_test(test_captures),
        cmocka_unit_test(test_chain_tail), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_i4_modes),   cmocka_unit_test(test_golden_dumps),
        cmocka_unit_test(test_regdump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
