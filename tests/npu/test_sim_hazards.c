/* What hangs the chip or silently spoils its results is an error that names the register. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_hand.h"

struct hazard {
    const char *name;
    enum hand_kind kind;
    bool with_rdma;
    uint32_t set[3][2]; /* register, value; register 0 ends */
    enum sim_fault_kind fault;
    uint32_t reg;
};

static const struct hazard hazards[] = {
    {"MRDMA not disabled", HAND_I8_CUBE, true, {{0x5044, 0x7800}}, SIM_FAULT_HANG, 0x5044},
    {"operand reader on", HAND_I8_CUBE, true, {{0x5034, 0}}, SIM_FAULT_HANG, 0x5034},
    {"reader's rows differ", HAND_I8_CUBE, true, {{0x5010, 4}}, SIM_FAULT_MISMATCH, 0x5010},
    {"banks beyond 12", HAND_I8_CUBE, false, {{0x1040, 0xbc}}, SIM_FAULT_CORRUPT, 0x1040},
    {"no data bank", HAND_I8_CUBE, false, {{0x1040, 0xc0}}, SIM_FAULT_CORRUPT, 0x1040},
    {"narrow fp16", HAND_F16_FLAT, false, {{0x1040, 0x1b}}, SIM_FAULT_HANG, 0x1040},
    {"reuse in a first program",
     HAND_I8_CUBE,
     false,
     {{0x1040, 0x10a2}},
     SIM_FAULT_CORRUPT,
     0x1040},
    {"K odd", HAND_I8_CUBE, false, {{0x1024, 0x2f0030}}, SIM_FAULT_CORRUPT, 0x1024},
    {"K unequal", HAND_I8_CUBE, false, {{0x1024, 0x1f0040}}, SIM_FAULT_MISMATCH, 0x1024},
    {"N odd", HAND_I8_CUBE, false, {{0x1038, 0x1010030}}, SIM_FAULT_CORRUPT, 0x1038},
    {"N beyond 8192", HAND_I8_CUBE, false, {{0x1038, 0x1012020}}, SIM_FAULT_CORRUPT, 0x1038},
    {"no rows", HAND_I8_CUBE, false, {{0x1020, 0x10000}}, SIM_FAULT_HANG, 0x1020},
    {"weight bytes", HAND_I8_CUBE, false, {{0x1030, 0x1001}}, SIM_FAULT_MISMATCH, 0x1030},
    {"kernel bytes", HAND_I8_CUBE, false, {{0x1034, 0x20}}, SIM_FAULT_MISMATCH, 0x1034},
    {"entries", HAND_I8_CUBE, false, {{0x1044, 2}}, SIM_FAULT_MISMATCH, 0x1044},
    {"atomics", HAND_I8_CUBE, false, {{0x102c, 5}}, SIM_FAULT_MISMATCH, 0x102c},
    {"core rows", HAND_I8_CUBE, false, {{0x3014, 0x20000}}, SIM_FAULT_MISMATCH, 0x3014},
    {"core columns", HAND_I8_CUBE, false, {{0x3018, 0x1f}}, SIM_FAULT_MISMATCH, 0x3018},
    {"DPU rows", HAND_I8_CUBE, false, {{0x4034, 2}}, SIM_FAULT_MISMATCH, 0x4034},
    {"writer rows", HAND_I8_CUBE, false, {{0x405c, 0x20000}}, SIM_FAULT_MISMATCH, 0x405c},
    {"writer off for int8", HAND_I8_CUBE, false, {{0x405c, 0}}, SIM_FAULT_CORRUPT, 0x405c},
    {"precision of the core", HAND_I8_CUBE, false, {{0x3010, 0x200}}, SIM_FAULT_MISMATCH, 0x3010},
    {"precision of the DPU",
     HAND_I8_CUBE,
     false,
     {{0x4010, 0x80000002}},
     SIM_FAULT_MISMATCH,
     0x4010},
    {"mixed operands", HAND_I8_CUBE, false, {{0x100c, 0x100}}, SIM_FAULT_MISMATCH, 0x100c},
    {"int4 -> int32", HAND_I4_CUBE, false, {{0x4010, 0x98000006}}, SIM_FAULT_UNSUPPORTED, 0x4010},
    {"too few surfaces", HAND_I4_CUBE, false, {{0x4050, 0x126}}, SIM_FAULT_CORRUPT, 0x4050},
    {"uneven surfaces", HAND_I4_CUBE, false, {{0x4050, 0x7f6}}, SIM_FAULT_MISMATCH, 0x4050},
    {"uneven notch", HAND_I8_FLAT, false, {{0x4038, 0x70006}}, SIM_FAULT_MISMATCH, 0x4038},
    {"fp16 conversion", HAND_F16_CUBE, false, {{0x4084, 0x10001}}, SIM_FAULT_MISMATCH, 0x4084},
    {"int4 flat", HAND_I4_CUBE, false, {{0x100c, 0x20000360}}, SIM_FAULT_UNSUPPORTED, 0x100c},
    {"bias stage", HAND_I8_CUBE, false, {{0x4040, 0x52}}, SIM_FAULT_UNSUPPORTED, 0x4040},
    {"unnamed bits", HAND_I8_CUBE, false, {{0x1044, 0x4001}}, SIM_FAULT_FIELD, 0x1044},
    {"features outside", HAND_I8_CUBE, false, {{0x1070, 0x100000}}, SIM_FAULT_READ, 0x1070},
    {"features run out",
     HAND_I8_CUBE,
     false,
     {{0x1070, HAND_FEATURES + HAND_BUFFER_BYTES - 240}},
     SIM_FAULT_READ,
     0x1070},
    {"features below zero",
     HAND_I8_CUBE,
     false,
     {{0x1070, 0}, {0x1080, 0x0fffff00}},
     SIM_FAULT_READ,
     0x1070},
    {"features misaligned",
     HAND_I8_CUBE,
     false,
     {{0x1070, HAND_FEATURES + 8}},
     SIM_FAULT_FIELD,
     0x1070},
    {"weights outside",
     HAND_I8_CUBE,
     false,
     {{0x1110, HAND_WEIGHTS + HAND_BUFFER_BYTES - 4080}},
     SIM_FAULT_READ,
     0x1110},
    {"output outside",
     HAND_I8_CUBE,
     false,
     {{0x4020, HAND_OUTPUT + HAND_BUFFER_BYTES - 1008}},
     SIM_FAULT_WRITE,
     0x4020},
    {"output stride", HAND_I8_CUBE, false, {{0x40c0, 0xfffffff0}}, SIM_FAULT_WRITE, 0x4020},
};

static void test_hazards(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++) {
        const struct hazard *h = &hazards[i];
        struct hand_machine x;
        struct hand_program program;
        uint8_t before[HAND_BUFFER_BYTES];
        int err;
        hand_machine_init(&x);
        hand_build(&program, h->kind, h->with_rdma);
        hand_fill(&x, h->kind, 1);
        memcpy(before, x.output, sizeof before);
        for (size_t s = 0; s < 3 && h->set[s][0]; s++)
            hand_set(&program, h->set[s][0], h->set[s][1]);
        err = hand_run(&x, &program);
        if (x.fault.kind != h->fault || x.fault.reg != h->reg)
            fail_msg("%s: got %s at 0x%04x: %s", h->name, sim_fault_kind_name(x.fault.kind),
                     x.fault.reg, x.fault.text);
        assert_int_equal(err, sim_fault_errno(h->fault));
        if (err)
            assert_memory_equal(before, x.output, sizeof before);
        hand_machine_fini(&x);
    }
}

static int run_changed(struct hand_machine *x, const struct hand_program *program)
{
    hand_fill(x, HAND_I8_CUBE, 1);
    return hand_run(x, program);
}

static void expect_fault(const struct hand_machine *x, enum sim_fault_kind kind, uint32_t reg)
{
    if (x->fault.kind != kind || x->fault.reg != reg)
        fail_msg("got %s at 0x%04x: %s", sim_fault_kind_name(x->fault.kind), x->fault.reg,
                 x->fault.text);
}

/* More rows than the data banks hold, with addresses that would be fine. */
static void test_too_many_rows(void **state)
{
    static const uint32_t set[][2] = {{0x1020, 0x10400},   {0x1084, 0x10400}, {0x102c, 0x400},
                                      {0x3014, 0x3ff0000}, {0x4034, 0x3ff},   {0x405c, 0x3ff0000},
                                      {0x1040, 0xa2}};
    struct hand_machine x;
    struct hand_program program;
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I8_CUBE, false);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        hand_set(&program, set[i][0], set[i][1]);
    assert_int_equal(run_changed(&x, &program), -EFAULT); /* 1024 rows of 64 fit two banks */
    hand_set(&program, 0x1040, 0xb1);
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0x1040);
    hand_machine_fini(&x);
}

static void test_entry_order_is_free(void **state)
{
    struct hand_machine x;
    struct hand_program program, shuffled;
    uint8_t right[1024];
    unsigned seed = 1;
    (void)state;
    hand_machine_init(&x);
    hand_build(&program, HAND_I8_CUBE, false);
    assert_int_equal(run_changed(&x, &program), 0);
    memcpy(right, x.output, sizeof right);
    shuffled = program;
    for (size_t i = program.n - 5; i > 5; i--) { /* the shadow pointer stays in front */
        size_t j;
        uint64_t entry;
        seed = seed * 1664525 + 1013904223;
        j = 5 + (seed >> 16) % (i - 4);
        entry = shuffled.entries[i];
        shuffled.entries[i] = shuffled.entries[j];
        shuffled.entries[j] = entry;
    }
    if (run_changed(&x, &shuffled))
        fail_msg("%s", x.fault.text);
    assert_memory_equal(right, x.output, sizeof right);
    hand_machine_fini(&x);
}

static void test_entries(void **state)
{
    struct hand_machine x;
    struct hand_program program, good;
    (void)state;
    hand_machine_init(&x);
    hand_build(&good, HAND_I8_CUBE, false);

    program = good; /* twice with different values */
    hand_insert(&program, UINT64_C(0x0201000000931040));
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_MISMATCH, 0x1040);
    program = good; /* the pointer after its block */
    hand_remove(&program, 0x4004);
    hand_insert(&program, UINT64_C(0x10010000000e4004));
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_ENTRY, 0x4004);
    program = good; /* a register of another block */
    hand_insert(&program, UINT64_C(0x0801000000001040));
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_ENTRY, 0x1040);
    program = good; /* the pooling block */
    hand_insert(&program, UINT64_C(0x4001000000006000));
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_UNSUPPORTED, 0x6000);
    program = good; /* one register never written */
    hand_remove(&program, 0x107c);
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0x107c);
    program = good; /* no synchronising entry */
    program.entries[program.n - 2] = 0;
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0x0008);
    program = good; /* no enable entry */
    program.entries[program.n - 1] = 0;
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0);
    program = good; /* the mask starts the readers, nothing set them up */
    program.entries[program.n - 1] = UINT64_C(0x00810000001d0008);
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0x5044);
    program = good; /* nothing starts */
    program.entries[program.n - 1] = UINT64_C(0x00810000000c0008);
    assert_int_equal(run_changed(&x, &program), -EINVAL);
    expect_fault(&x, SIM_FAULT_HANG, 0x0008);
    hand_machine_fini(&x);
}

/* Two programs in one job; each case spoils the second or the tail of the first. */
struct pair {
    struct hand_machine x;
    struct hand_program first, second;
    struct ork_program_ref refs[2];
};

static int run_pair(struct pair *p, bool chained)
{
    struct sim_job job = {p->refs, 2, chained};
    hand_fill(&p->x, HAND_I8_CUBE, 1);
    hand_load(&p->x, HAND_PROGRAM, &p->first);
    hand_load(&p->x, HAND_PROGRAM + 0x800, &p->second);
    memset(&p->x.fault, 0, sizeof p->x.fault);
    return sim_core_run(&p->x.core, &p->x.mem, &job, &p->x.counts, &p->x.fault);
}

static void pair_init(struct pair *p, enum hand_kind kind)
{
    hand_machine_init(&p->x);
    hand_build(&p->first, kind, false);
    hand_build(&p->second, kind, false);
    hand_chain(&p->first, HAND_PROGRAM + 0x800, p->second.n);
    p->refs[0] = (struct ork_program_ref){HAND_PROGRAM, (uint32_t)p->first.n};
    p->refs[1] = (struct ork_program_ref){HAND_PROGRAM + 0x800, (uint32_t)p->second.n};
}

static void test_chain(void **state)
{
    struct pair p;
    (void)state;
    pair_init(&p, HAND_I8_CUBE);
    assert_int_equal(run_pair(&p, true), 0);
    assert_int_equal(p.x.counts.programs, 2);
    assert_int_equal(p.x.core.status, 0x3ff);
    assert_int_equal(run_pair(&p, false), -EINVAL); /* one kick each: the tail stalls */
    expect_fault(&p.x, SIM_FAULT_HANG, 0x10);
    hand_chain(&p.first, 0, 0);
    assert_int_equal(run_pair(&p, false), 0);
    assert_int_equal(run_pair(&p, true), -EINVAL); /* the chain ends early */
    expect_fault(&p.x, SIM_FAULT_HANG, 0x10);
    hand_chain(&p.first, HAND_PROGRAM + 0x400, p.second.n);
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_MISMATCH, 0x10);
    hand_chain(&p.first, HAND_PROGRAM + 0x800, p.second.n - 4);
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_HANG, 0x14);
    hand_chain(&p.first, HAND_PROGRAM + 0x800, p.second.n);
    hand_chain(&p.second, HAND_PROGRAM, p.first.n); /* on and on */
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_HANG, 0x10);
    assert_int_equal(p.x.fault.program, 1);
    hand_machine_fini(&p.x);
}

/* Programs that leave registers out: one row is how the vendor runtime does it, several hang. */
static void test_compact_programs(void **state)
{
    struct pair p;
    (void)state;
    pair_init(&p, HAND_I4_ROW);
    hand_remove(&p.second, 0x1014);
    hand_remove(&p.second, 0x1010);
    p.refs[1].n_entries = (uint32_t)p.second.n;
    assert_int_equal(run_pair(&p, true), -EINVAL); /* the amount no longer fits */
    hand_chain(&p.first, HAND_PROGRAM + 0x800, p.second.n);
    if (run_pair(&p, true))
        fail_msg("%s", p.x.fault.text);
    hand_machine_fini(&p.x);
    pair_init(&p, HAND_I8_CUBE);
    hand_remove(&p.second, 0x1014);
    p.refs[1].n_entries = (uint32_t)p.second.n;
    hand_chain(&p.first, HAND_PROGRAM + 0x800, p.second.n);
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_HANG, 0x1020);
    hand_machine_fini(&p.x);
}

static void test_reuse_bits(void **state)
{
    struct pair p;
    (void)state;
    pair_init(&p, HAND_I8_CUBE);
    hand_set(&p.second, 0x1040, 0x10a2); /* the same features */
    assert_int_equal(run_pair(&p, true), 0);
    assert_int_equal(p.x.counts.feature_bytes, 256);
    hand_set(&p.second, 0x1070, HAND_FEATURES + 256); /* others */
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_CORRUPT, 0x1040);
    hand_set(&p.second, 0x1040, 0x20a2); /* the same weights */
    assert_int_equal(run_pair(&p, true), 0);
    assert_int_equal(p.x.counts.weight_bytes, 4096);
    hand_set(&p.second, 0x1110, HAND_WEIGHTS + 1024); /* others */
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_CORRUPT, 0x1040);
    hand_set(&p.second, 0x1110, HAND_WEIGHTS);
    hand_set(&p.second, 0x107c, 5); /* another geometry */
    assert_int_equal(run_pair(&p, true), -EINVAL);
    expect_fault(&p.x, SIM_FAULT_CORRUPT, 0x1040);
    hand_machine_fini(&p.x);
}

/* A job's program that does not lie in a buffer, or only begins in one. */
static void test_program_outside(void **state)
{
    static const struct ork_program_ref outside[] = {{0x100000, 112},
                                                     {HAND_PROGRAM + HAND_BUFFER_BYTES - 64, 112},
                                                     {HAND_PROGRAM + 8, 112},
                                                     {0, 1},
                                                     {0xfffffff0, 4095}};
    struct hand_machine x;
    (void)state;
    hand_machine_init(&x);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        struct sim_job job = {&outside[i], 1, false};
        memset(&x.fault, 0, sizeof x.fault);
        assert_int_equal(sim_core_run(&x.core, &x.mem, &job, &x.counts, &x.fault), -EFAULT);
        expect_fault(&x, SIM_FAULT_READ, 0x10);
        assert_int_equal(x.core.status, 1 << 12);
    }
    hand_machine_fini(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hazards),
        cmocka_unit_test(test_too_many_rows),
        cmocka_unit_test(test_entry_order_is_free),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_compact_programs),
        cmocka_unit_test(test_reuse_bits),
        cmocka_unit_test(test_program_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
