/* One suite for every transport: every type, shapes at, below and above each limit, odd sizes,
 * sparse and extreme operands, core splits, many jobs in flight. Integers exact, fp16 within the
 * bound of product.c.
 *
 * test_conformance TRANSPORT[:SIMULATOR OPTIONS] [long|threads]. Exits 77 when the device is not
 * there. "long" runs every row count from 1 to 2100 instead of those around the limits; "threads"
 * only what runs jobs at the same time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "half.h"
#include "product.h"
#include "transport/transport.h"

/* What the program was called with; the device is opened once for all tests. */
struct suite {
    struct ork_open_options open;
    bool every_m;
    struct ork_device *device;
    uint64_t expected_saturated; /* cells of the products that are meant to */
};

static int open_transport(const struct suite *s, struct ork_transport **out,
                          struct ork_error *error)
{
    if (!strcmp(s->open.transport, "vendor"))
        return ork_vendor_open(out, error);
    if (!strcmp(s->open.transport, "mainline"))
        return ork_mainline_open(out, error);
    return ork_sim_open(s->open.sim_options, out, error);
}

static const enum ork_type all_types[] = {ORK_I8_I32, ORK_I4_I16, ORK_F16_F32, ORK_F16_F16};

static int range_of(enum ork_type type)
{
    return type == ORK_I4_I16 ? 8 : type == ORK_I8_I32 ? 128 : 1000;
}

/* Columns of one kernel group: N is a multiple of it on the device. */
static uint32_t group_of(enum ork_type type)
{
    return type == ORK_I4_I16 ? 64 : type == ORK_I8_I32 ? 32 : 16;
}

static void run_weight(struct ork_device *device, struct product *p,
                       const struct ork_weight_options *options)
{
    struct ork_error error = {0, ""};
    struct ork_weight *weight = product_weight(p, device, options);
    struct ork_matmul call = product_call(p, weight);
    if (ork_matmul_run(device, &call, 1, &error) < 0)
        fail_msg("M %u N %u K %u type %d: %s", p->m, p->n, p->k, (int)p->type, error.text);
    ork_weight_destroy(weight);
}

static void run_product(struct ork_device *device, struct product *p)
{
    run_weight(device, p, NULL);
    product_check(p);
}

static void run_shape(struct ork_device *device, enum ork_type type, uint32_t m, uint32_t n,
                      uint32_t k)
{
    struct product p;
    product_make(&p, type, m, n, k, range_of(type), m * UINT64_C(2654435761) + n * 97 + k);
    run_product(device, &p);
    product_free(&p);
}

/* One weight, many row counts: the rows of the largest product serve all. */
static void run_rows(struct ork_device *device, enum ork_type type, const uint32_t *rows, size_t n)
{
    const uint32_t columns = group_of(type) + 1, k = 96;
    struct ork_error error = {0, ""};
    struct ork_weight *weight;
    struct product p;
    product_make(&p, type, rows[n - 1], columns, k, range_of(type), 11);
    weight = product_weight(&p, device, NULL);
    for (size_t i = 0; i < n; i++) {
        struct product part = p;
        struct ork_matmul call;
        part.m = rows[i];
        call = product_call(&part, weight);
        memset(part.c, 0x5a, (size_t)part.m * columns * 4);
        if (ork_matmul_run(device, &call, 1, &error) < 0)
            fail_msg("%u rows, type %d: %s", rows[i], (int)type, error.text);
        product_check(&part);
    }
    ork_weight_destroy(weight);
    product_free(&p);
}

/* Around the multiples of 4, of 64-row groups, the 11-bit height and what a bank holds. */
static void test_rows(void **state)
{
    static const uint32_t sampled[] = {
        1,   2,   3,   4,   5,   6,    7,    8,    9,    12,   15,   16,   17,   31,   32,   33,
        63,  64,  65,  88,  127, 128,  129,  176,  177,  255,  256,  257,  341,  342,  352,  353,
        511, 512, 513, 704, 705, 1023, 1024, 1025, 1365, 1366, 1877, 2046, 2047, 2048, 2049, 2100};
    const struct suite *s = *state;
    uint32_t every[2100];
    for (uint32_t m = 0; m < 2100; m++)
        every[m] = m + 1;
    for (size_t t = 0; t < 4; t++)
        run_rows(s->device, all_types[t], s->every_m ? every : sampled,
                 s->every_m ? 2100 : sizeof sampled / sizeof *sampled);
}

static void test_columns(void **state)
{
    const struct suite *s = *state;
    for (size_t t = 0; t < 4; t++) {
        const uint32_t group = group_of(all_types[t]);
        const uint32_t columns[] = {
            1,    2,    group - 1, group, group + 1, 3 * group - 1, 3 * group,
            8191, 8192, 8193,      16384, 16385,     3 * 8192 - 1,  3 * 8192 + 1};
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            run_shape(s->device, all_types[t], 3, columns[i], 33);
    }
}

/* Blocks of 32, int4's saturation bound, one bank per row, the largest single program, the widest
 * channel field, beyond all. */
static void test_depths(void **state)
{
    static const uint32_t depths[] = {
        1,   2,    31,   32,   33,   63,   64,   65,    479,   480,   481,   511,   512,   513,
        668, 1023, 1024, 1025, 2048, 4096, 5632, 10240, 10751, 10752, 10753, 16384, 16385, 22529};
    const struct suite *s = *state;
    for (size_t t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
            run_shape(s->device, all_types[t], 5, group_of(all_types[t]) + 1, depths[i]);
}

static void test_random_shapes(void **state)
{
    const struct suite *s = *state;
    uint64_t seed = 42;
    for (int i = 0; i < (s->every_m ? 400 : 40); i++) {
        uint32_t r[4];
        for (size_t j = 0; j < 4; j++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            r[j] = (uint32_t)(seed >> 33);
        }
        run_shape(s->device, all_types[r[0] % 4], 1 + r[1] % 300, 1 + r[2] % 300, 1 + r[3] % 1500);
    }
}

/* Element i of an operand filled by `pattern`: the extremes in every combination, and mostly
 * zeros. */
enum pattern { LOWEST, HIGHEST, ALTERNATING, SPARSE, N_PATTERNS };

static int pattern_code(enum pattern pattern, enum ork_type type, size_t i)
{
    const int high = range_of(type) - 1, low = -range_of(type);
    switch (pattern) {
    case LOWEST:
        return low;
    case HIGHEST:
        return high;
    case ALTERNATING:
        return i % 2 ? low : high;
    default:
        return i * 2654435761u % 97 ? 0 : i % 3 ? high : low;
    }
}

static void pattern_fill(void *operand, size_t n, enum ork_type type, enum pattern pattern)
{
    const bool half = type == ORK_F16_F32 || type == ORK_F16_F16;
    for (size_t i = 0; i < n; i++) {
        const int code = pattern_code(pattern, type, i);
        if (half)
            ((uint16_t *)operand)[i] = ork_half_from_float((float)code * 0.002f);
        else
            ((int8_t *)operand)[i] = (int8_t)code;
    }
}

/* K = 2048 of the lowest int4 codes is 2^17 per cell: right only because K is sliced. */
static void test_patterns(void **state)
{
    const struct suite *s = *state;
    for (size_t t = 0; t < 4; t++)
        for (int a = 0; a < N_PATTERNS; a++)
            for (int b = 0; b < N_PATTERNS; b++) {
                struct product p;
                product_alloc(&p, all_types[t], 6, group_of(all_types[t]) + 3, 2048);
                pattern_fill(p.a, (size_t)p.m * p.k, p.type, (enum pattern)a);
                pattern_fill(p.b, (size_t)p.n * p.k, p.type, (enum pattern)b);
                product_multiply(&p);
                run_product(s->device, &p);
                product_free(&p);
            }
}

/* The same product on one, two and three cores. */
static void test_core_splits(void **state)
{
    const struct suite *s = *state;
    for (uint32_t cores = 1; cores <= 3; cores++) {
        struct ork_open_options open = s->open;
        struct ork_error error = {0, ""};
        struct ork_device *device;
        struct ork_caps caps;
        open.n_cores = cores;
        if (ork_device_open(&open, &device, &error) < 0)
            fail_msg("%s", error.text);
        ork_device_caps(device, &caps);
        assert_true(caps.n_cores <= cores);
        for (size_t t = 0; t < 4; t++) {
            run_shape(device, all_types[t], 17, 3 * group_of(all_types[t]) + 5, 200);
            run_shape(device, all_types[t], 2, 1, 40);
        }
        ork_device_close(device);
    }
}

/* A thousand jobs at once, waited for from both ends. */
static void test_thousand_in_flight(void **state)
{
    enum { JOBS = 1000, M = 4, N = 33, K = 64 };
    const struct suite *s = *state;
    struct ork_fence **fences = calloc(JOBS, sizeof(struct ork_fence *));
    int32_t(*results)[M * N] = calloc(JOBS, sizeof *results);
    struct ork_weight *weight;
    struct ork_matmul call;
    struct product p;
    assert_non_null(fences);
    assert_non_null(results);
    product_make(&p, ORK_I8_I32, M, N, K, 128, 3);
    weight = product_weight(&p, s->device, NULL);
    call = product_call(&p, weight);
    for (size_t i = 0; i < JOBS; i++) {
        call.c = results[i];
        assert_int_equal(ork_matmul_submit(s->device, &call, 1, &fences[i], NULL), 0);
    }
    for (size_t i = 0; i < JOBS; i++) {
        const size_t at = i % 2 ? JOBS - 1 - i / 2 : i / 2;
        assert_int_equal(ork_fence_wait(fences[at], -1, NULL), 0);
        assert_memory_equal(results[at], p.want, sizeof results[at]);
    }
    ork_weight_destroy(weight);
    product_free(&p);
    free(results);
    free(fences);
}

/* The compatibility layouts of int4 give what the dense one gives, or are refused where the device
 * computes single rows wrong. */
static void test_int4_layouts(void **state)
{
    const struct suite *s = *state;
    struct ork_caps caps;
    ork_device_caps(s->device, &caps);
    for (int mode = ORK_I4_DENSE; mode <= ORK_I4_ROWS; mode++) {
        const struct ork_weight_options options = {.size = sizeof options,
                                                   .i4_mode = (enum ork_i4_mode)mode};
        struct ork_weight *weight;
        struct product p;
        if (mode >= ORK_I4_BCHAIN && caps.selftest_m1 != 1) {
            assert_int_equal(
                ork_weight_create(s->device, ORK_I4_I16, 131, 300, &options, &weight, NULL),
                -EOPNOTSUPP);
            continue;
        }
        product_make(&p, ORK_I4_I16, 29, 131, 300, 8, 7);
        run_weight(s->device, &p, &options);
        product_check(&p);
        product_free(&p);
    }
}

/* int4 sums beyond int16 end at the bound on either side, in one K slice that is too long, and
 * are counted. */
static void test_int4_saturation(void **state)
{
    const struct ork_weight_options options = {
        .size = sizeof options, .i4_may_saturate = true, .k_slice = 1024};
    struct suite *s = *state;
    struct ork_stats stats;
    struct product p;
    product_alloc(&p, ORK_I4_I16, 4, 64, 1024);
    pattern_fill(p.a, (size_t)p.m * p.k, p.type, LOWEST);
    pattern_fill(p.b, (size_t)p.n * p.k / 2, p.type, LOWEST);
    pattern_fill((int8_t *)p.b + (size_t)p.n * p.k / 2, (size_t)p.n * p.k / 2, p.type, HIGHEST);
    product_multiply(&p);
    for (size_t i = 0; i < (size_t)p.m * p.n; i++)
        p.want[i] = p.want[i] > 0 ? INT16_MAX : INT16_MIN;
    run_weight(s->device, &p, &options);
    product_check(&p);
    ork_device_stats(s->device, &stats);
    s->expected_saturated += (uint64_t)p.m * p.n;
    assert_int_equal(stats.saturated_cells, s->expected_saturated);
    product_free(&p);
}

/* A program that never starts: the job fails, and a device opened afterwards computes. */
static void test_hang(void **state)
{
    const struct suite *s = *state;
    struct ork_error error = {0, ""};
    struct ork_transport_info info;
    struct ork_job_result result;
    struct ork_transport *t;
    struct ork_device *device;
    struct ork_bo commands, output;
    const struct ork_bo *reads[] = {&commands}, *writes[] = {&output};
    struct ork_program_ref program;
    struct ork_job job = {.size = sizeof job,
                          .programs = &program,
                          .n_programs = 1,
                          .reads = reads,
                          .n_reads = 1,
                          .writes = writes,
                          .n_writes = 1,
                          .timeout_ms = 500};
    uint64_t ticket;
    if (open_transport(s, &t, &error) < 0)
        fail_msg("%s", error.text);
    t->ops->info(t, &info);
    assert_int_equal(t->ops->bo_create(t, 8192, ORK_BO_WRITE_COMBINE, 0, &commands), 0);
    assert_int_equal(t->ops->bo_create(t, 4096, ORK_BO_CACHED, 0, &output), 0);
    program = (struct ork_program_ref){commands.iova + 4096, 112}; /* zeros: fillers only */
    assert_int_equal(t->ops->submit(t, &job, &ticket), 0);
    assert_int_equal(t->ops->wait(t, ticket, -1, &result), 0);
    assert_int_equal(result.error, info.simulated ? -EINVAL : -ETIMEDOUT);
    assert_true(result.text[0] != 0);
    t->ops->bo_destroy(t, &commands);
    t->ops->bo_destroy(t, &output);
    t->ops->close(t);
    if (ork_device_open(&s->open, &device, &error) < 0)
        fail_msg("%s", error.text);
    run_shape(device, ORK_I8_I32, 9, 70, 100);
    ork_device_close(device);
}

/* Nothing failed on the way, nothing saturated unseen, all memory is back. */
static void test_books(void **state)
{
    const struct suite *s = *state;
    struct ork_stats stats;
    ork_device_stats(s->device, &stats);
    assert_int_equal(stats.failed_jobs, 0);
    assert_int_equal(stats.saturated_cells, s->expected_saturated);
    assert_true(stats.macs_padded >= stats.macs);
    assert_true(stats.submits > 0);
    assert_int_equal(ork_device_health(s->device), 0);
}

static int open_suite(struct suite *suite, char *spec, struct ork_error *error)
{
    char *options = strchr(spec, ':');
    if (options)
        *options++ = 0;
    suite->open = (struct ork_open_options){
        .size = sizeof suite->open, .transport = spec, .sim_options = options};
    if (options && !strcmp(options, "no-rdma")) { /* not the simulator's: a recipe of ours */
        suite->open.sim_options = NULL;
        suite->open.no_rdma_block = true;
    }
    return ork_device_open(&suite->open, &suite->device, error);
}

int main(int argc, char **argv)
{
    struct suite suite = {.every_m = argc > 2 && !strcmp(argv[2], "long")};
    struct ork_error error = {0, ""};
    int failed, err = argc > 1 ? open_suite(&suite, argv[1], &error) : -EINVAL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_rows, &suite),
        cmocka_unit_test_prestate(test_columns, &suite),
        cmocka_unit_test_prestate(test_depths, &suite),
        cmocka_unit_test_prestate(test_random_shapes, &suite),
        cmocka_unit_test_prestate(test_patterns, &suite),
        cmocka_unit_test_prestate(test_core_splits, &suite),
        cmocka_unit_test_prestate(test_thousand_in_flight, &suite),
        cmocka_unit_test_prestate(test_int4_layouts, &suite),
        cmocka_unit_test_prestate(test_int4_saturation, &suite),
        cmocka_unit_test_prestate(test_books, &suite),
        cmocka_unit_test_prestate(test_hang, &suite),
    };
    const struct CMUnitTest at_once[] = {
        cmocka_unit_test_prestate(test_core_splits, &suite),
        cmocka_unit_test_prestate(test_thousand_in_flight, &suite),
        cmocka_unit_test_prestate(test_books, &suite),
    };
    if (err == -ENODEV || err == -EACCES || err == -EPERM) {
        printf("skipped: %s\n", error.text);
        return 77;
    }
    if (err) {
        fprintf(stderr, "test_conformance: %s\n", error.text);
        return 1;
    }
    failed = argc > 2 && !strcmp(argv[2], "threads") ? cmocka_run_group_tests(at_once, NULL, NULL)
                                                     : cmocka_run_group_tests(tests, NULL, NULL);
    ork_device_close(suite.device);
    return failed;
}
