/* The public API on the simulator: what a caller relies on, on every kind of device. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "product.h"

static void run_one(struct ork_device *d, enum ork_type type, uint32_t m, uint32_t n, uint32_t k,
                    const struct ork_weight_options *options)
{
    const int range = type == ORK_I4_I16 ? 7 : 127;
    struct ork_error error = {0, ""};
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;

    product_make(&p, type, m, n, k, range, m * 131 + n * 17 + k);
    w = product_weight(&p, d, options);
    call = product_call(&p, w);
    if (ork_matmul_run(d, &call, 1, &error) < 0)
        fail_msg("%s", error.text);
    product_check(&p);
    ork_weight_destroy(w);
    product_free(&p);
}

static const char *const personalities[] = {
    "kernel=vendor",
    "kernel=mainline",
    "kernel=vendor,chain=either,noncoherent=1",
    "kernel=mainline,cores=1,threads=0",
    "kernel=vendor,quirks=clamp",
    "kernel=vendor,quirks=chain",
    "kernel=vendor,iova_base=4026531840",
};

static void test_types_on_every_personality(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++) {
        struct ork_device *d = product_open_sim(personalities[i], i & 1);

        for (int type = 0; type < ORK_N_TYPES; type++) {
            run_one(d, (enum ork_type)type, 1, 64, 64, NULL);
            run_one(d, (enum ork_type)type, 5, 100, 100, NULL);
            run_one(d, (enum ork_type)type, i ? 30 : 150, 200, i ? 520 : 2100, NULL);
        }
        ork_device_close(d);
    }
}

static void test_selftest_verdicts(void **state)
{
    static const struct {
        const char *options;
        int m1, chain;
    } cases[] = {{"kernel=vendor", 1, 1},
                 {"kernel=vendor,quirks=clamp", 0, 1},
                 {"kernel=vendor,quirks=chain", 1, 0},
                 {"kernel=mainline", 1, -1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ork_device *d = product_open_sim(cases[i].options, false);
        struct ork_caps caps;

        ork_device_caps(d, &caps);
        assert_int_equal(caps.selftest_i8, 1);
        assert_int_equal(caps.selftest_i4, 1);
        assert_int_equal(caps.selftest_f16, 1);
        assert_int_equal(caps.selftest_m1, cases[i].m1);
        assert_int_equal(caps.m_multiple, cases[i].m1 ? 1 : 4);
        assert_int_equal(caps.selftest_chain, cases[i].chain);
        assert_true(caps.submit_us > 0);
        assert_true(caps.simulated);
        ork_device_close(d);
    }
}

static void test_int4_modes_agree(void **state)
{
    struct ork_device *d = product_open_sim(NULL, false);

    (void)state;
    for (int mode = ORK_I4_DENSE; mode <= ORK_I4_ROWS; mode++) {
        const struct ork_weight_options o = {.size = sizeof(o), .i4_mode = (enum ork_i4_mode)mode};

        run_one(d, ORK_I4_I16, 1, 64, 64, &o);
        run_one(d, ORK_I4_I16, 37, 200, 64, &o);
        run_one(d, ORK_I4_I16, 61, 130, 1100, &o);
    }
    ork_device_close(d);
}

/* All active experts of a layer, one submit per core. */
static void test_batch_is_one_job_per_core(void **state)
{
    enum { EXPERTS = 24 };
    struct ork_device *d = product_open_sim("kernel=vendor", false);
    struct ork_matmul batch[EXPERTS];
    struct ork_weight *w[EXPERTS];
    struct product p[EXPERTS];
    struct ork_stats before, after;

    (void)state;
    for (uint32_t i = 0; i < EXPERTS; i++) {
        product_make(&p[i], ORK_I8_I32, 1 + i % 5, 96, 128, 127, i);
        w[i] = product_weight(&p[i], d, NULL);
        batch[i] = product_call(&p[i], w[i]);
    }
    ork_device_stats(d, &before);
    assert_int_equal(ork_matmul_run(d, batch, EXPERTS, NULL), 0);
    ork_device_stats(d, &after);
    assert_int_equal(after.submits - before.submits, 3);
    assert_int_equal(after.matmuls - before.matmuls, EXPERTS);
    assert_int_equal(after.programs - before.programs, EXPERTS);
    assert_true(after.device_us > before.device_us && after.predicted_us > before.predicted_us);
    for (uint32_t i = 0; i < EXPERTS; i++) {
        product_check(&p[i]);
        ork_weight_destroy(w[i]);
        product_free(&p[i]);
    }
    ork_device_close(d);
}

/* Within 5 %. */
static bool alike(double a, double b)
{
    return a < b * 1.05 && b < a * 1.05;
}

static double predicted(struct ork_device *d, const struct ork_matmul *batch, size_t n)
{
    struct ork_stats before, after;

    ork_device_stats(d, &before);
    assert_int_equal(ork_matmul_run(d, batch, n, NULL), 0);
    ork_device_stats(d, &after);
    assert_true(
        alike(after.device_us - before.device_us, after.predicted_us - before.predicted_us));
    return after.predicted_us - before.predicted_us;
}

/* A batch of several types takes what all of them take, in whatever order they come. */
static void test_mixed_types_are_predicted(void **state)
{
    const struct ork_open_options o = {.size = sizeof(o),
                                       .transport = "sim",
                                       .sim_options = "kernel=vendor,cores=1",
                                       .skip_selftest = true};
    static const enum ork_type types[] = {ORK_I8_I32, ORK_F16_F32, ORK_I4_I16};
    struct ork_matmul batch[3], reversed[3];
    struct ork_weight *weights[3];
    double together, alone = 0;
    struct ork_device *d;
    struct product p[3];

    (void)state;
    assert_int_equal(ork_device_open(&o, &d, NULL), 0);
    for (int i = 0; i < 3; i++) {
        product_make(&p[i], types[i], 64, 256, 256, 7, 21);
        weights[i] = product_weight(&p[i], d, NULL);
        batch[i] = reversed[2 - i] = product_call(&p[i], weights[i]);
    }
    together = predicted(d, batch, 3);
    assert_true(alike(together, predicted(d, reversed, 3)));
    for (int i = 0; i < 3; i++) {
        const double one = predicted(d, &batch[i], 1);

        assert_true(together > one);
        alone += one;
        product_check(&p[i]);
    }
    assert_true(together < alone * 1.05);
    for (int i = 0; i < 3; i++) {
        ork_weight_destroy(weights[i]);
        product_free(&p[i]);
    }
    ork_device_close(d);
}

static void test_shared_input_and_scales(void **state)
{
    enum { M = 6, N = 100, K = 160 };
    const struct ork_quantise how = {.size = sizeof(how), .rotate = true};
    struct ork_device *d = product_open_sim(NULL, false);
    static float x[M * K], xr[K], b[N], c[M * N];
    struct ork_matmul call;
    struct ork_input *input;
    struct ork_weight *w;
    struct product p;

    (void)state;
    product_make(&p, ORK_I8_I32, M, N, K, 127, 3);
    w = product_weight(&p, d, NULL);
    assert_int_equal(ork_input_create(d, w, 8, &input, NULL), 0);
    assert_null(ork_input_scales(input));
    assert_int_equal(ork_input_pack(input, M, p.a), 0);
    call = product_call(&p, w);
    call.a = NULL;
    call.input = input;
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    product_check(&p);

    for (int i = 0; i < M * K; i++)
        x[i] = sinf((float)i * 0.37f) * (float)(1 + i % 7);
    for (int i = 0; i < N; i++)
        b[i] = 0.01f * (float)(i + 1);
    assert_int_equal(ork_input_quantise(input, M, x, &how), 0);
    assert_non_null(ork_input_scales(input));
    call.c = c;
    call.b_scale = b;
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    for (int m = 0; m < M; m++) {
        memcpy(xr, x + m * K, sizeof(xr));
        ork_fwht(xr, K, ork_fwht_block(K));
        for (int n = 0; n < N; n++) {
            double want = 0, step = 0;

            for (int k = 0; k < K; k++) {
                want += (double)xr[k] * ((int8_t *)p.b)[n * K + k];
                step += abs(((int8_t *)p.b)[n * K + k]);
            }
            assert_true(fabs(want * b[n] - c[m * N + n]) <=
                        0.51 * ork_input_scales(input)[m] * step * b[n]);
        }
    }
    ork_input_destroy(input);
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

/* Scales per K slice, as group-quantised weights need them. */
static void test_scales_per_slice(void **state)
{
    enum { M = 3, N = 70, K = 256, S = 4 };
    const struct ork_weight_options o = {.size = sizeof(o), .k_slice = K / S};
    struct ork_device *d = product_open_sim(NULL, false);
    static float as[S * M], bs[S * N], c[M * N];
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;

    (void)state;
    product_make(&p, ORK_I4_I16, M, N, K, 7, 5);
    w = product_weight(&p, d, &o);
    assert_int_equal(ork_weight_n_slices(w), S);
    for (int i = 0; i < S * M; i++)
        as[i] = 0.5f + (float)i;
    for (int i = 0; i < S * N; i++)
        bs[i] = 1.0f / (float)(i + 1);
    call = product_call(&p, w);
    call.c = c;
    call.a_scale = as;
    call.b_scale = bs;
    call.scales_per_slice = true;
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double want = 0;

            for (int s = 0; s < S; s++) {
                int sum = 0;

                for (int k = s * K / S; k < (s + 1) * K / S; k++)
                    sum += ((int8_t *)p.a)[m * K + k] * ((int8_t *)p.b)[n * K + k];
                want += (double)sum * as[s * M + m] * bs[s * N + n];
            }
            assert_true(fabs(want - c[m * N + n]) <= 1e-4 * (1 + fabs(want)));
        }
    }
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

static void test_saturation_shows(void **state)
{
    const struct ork_weight_options o = {
        .size = sizeof(o), .i4_may_saturate = true, .k_slice = 1024};
    struct ork_device *d = product_open_sim(NULL, false);
    struct ork_matmul call;
    struct ork_stats stats;
    struct ork_weight *w;
    struct product p;

    (void)state;
    product_make(&p, ORK_I4_I16, 1, 64, 1024, 7, 5);
    memset(p.a, 7, 1024);
    memset(p.b, 7, 1024); /* row 0 only: 49 * 1024 is above the bound */
    w = product_weight(&p, d, &o);
    call = product_call(&p, w);
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    assert_int_equal(((int32_t *)p.c)[0], 32767);
    ork_device_stats(d, &stats);
    assert_true(stats.saturated_cells >= 1);
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

/* Writes that land after "done" are waited for, and a result that looks like the mark is not
 * taken for a lost one. */
static void test_verify_mode(void **state)
{
    struct ork_device *d = product_open_sim("kernel=vendor,cores=1,quirks=lag", true);
    struct ork_stats stats;
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;

    (void)state;
    run_one(d, ORK_I8_I32, 40, 128, 128, NULL);
    run_one(d, ORK_I4_I16, 40, 128, 128, NULL);
    ork_device_stats(d, &stats);
    assert_true(stats.verify_retries > 0);
    /* 0xaaaa as int16 is -21846 = -(49 * 445 + 41): a whole cell of it, seven columns alike */
    product_make(&p, ORK_I4_I16, 1, 64, 480, 7, 5);
    memset(p.a, 7, 446);
    memset((int8_t *)p.a + 446, 0, 34);
    for (size_t n = 0; n < 64; n++) {
        memset((int8_t *)p.b + n * 480, -7, 445);
        memset((int8_t *)p.b + n * 480 + 445, 0, 35);
        ((int8_t *)p.b)[n * 480 + 445] = -6; /* -42 */
        ((int8_t *)p.b)[n * 480 + 446] = 1;
    }
    ((int8_t *)p.a)[446] = 1;
    for (size_t n = 0; n < 64; n++)
        p.want[n] = -21846;
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    product_check(&p);
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

/* Weights in two address spaces: each works, a batch over both is refused. */
static void test_domains(void **state)
{
    struct ork_weight_options o = {.size = sizeof(o)};
    struct ork_device *d = product_open_sim("kernel=vendor", false);
    struct ork_error error = {0, ""};
    struct ork_matmul batch[2];
    struct ork_weight *w[2], *none;
    struct product p;

    (void)state;
    product_make(&p, ORK_I8_I32, 3, 64, 64, 127, 5);
    for (uint32_t i = 0; i < 2; i++) {
        o.domain = i;
        w[i] = product_weight(&p, d, &o);
        batch[i] = product_call(&p, w[i]);
        assert_int_equal(ork_matmul_run(d, &batch[i], 1, NULL), 0);
        product_check(&p);
    }
    assert_int_equal(ork_matmul_run(d, batch, 2, &error), -EINVAL);
    assert_non_null(strstr(error.text, "domain"));
    o.domain = 16;
    assert_int_equal(ork_weight_create(d, ORK_I8_I32, 64, 64, &o, &none, &error), -EINVAL);
    for (uint32_t i = 0; i < 2; i++)
        ork_weight_destroy(w[i]);
    product_free(&p);
    ork_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_on_every_personality),
        cmocka_unit_test(test_selftest_verdicts),
        cmocka_unit_test(test_int4_modes_agree),
        cmocka_unit_test(test_batch_is_one_job_per_core),
        cmocka_unit_test(test_mixed_types_are_predicted),
        cmocka_unit_test(test_shared_input_and_scales),
        cmocka_unit_test(test_scales_per_slice),
        cmocka_unit_test(test_saturation_shows),
        cmocka_unit_test(test_verify_mode),
        cmocka_unit_test(test_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
