/* What goes wrong on a device: jobs that fail, a device that dies, calls that are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "product.h"

/* Without the self test, which would meet the fault first. */
static struct ork_device *open_failing(const char *sim_options)
{
    const struct ork_open_options o = {
        .size = sizeof(o), .transport = "sim", .sim_options = sim_options, .skip_selftest = true};
    struct ork_device *d;

    assert_int_equal(ork_device_open(&o, &d, NULL), 0);
    return d;
}

/* A job that times out: -EIO, a dump, c untouched, and the device goes on. */
static void test_failed_job(void **state)
{
    struct ork_error error = {0, ""};
    struct ork_device *d = open_failing("kernel=vendor,fail_job=1,cores=1");
    struct ork_matmul call;
    struct ork_stats stats;
    struct ork_weight *w;
    struct product p;
    char *dump;

    (void)state;
    assert_null(ork_device_last_failure(d));
    product_make(&p, ORK_I8_I32, 4, 64, 64, 127, 5);
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    memset(p.c, 0x11, 4 * 64 * 4);
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EIO);
    assert_int_equal(error.code, -EIO);
    assert_int_equal(((int32_t *)p.c)[5], 0x11111111);
    dump = ork_device_last_failure(d);
    assert_non_null(dump);
    assert_non_null(strstr(dump, "CNA 1070 FEATURE_DATA_ADDR"));
    free(dump);
    ork_device_stats(d, &stats);
    assert_int_equal(stats.failed_jobs, 1);
    assert_int_equal(ork_device_health(d), 0);
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    product_check(&p);
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

static void test_dead_device(void **state)
{
    struct ork_error error = {0, ""};
    struct ork_device *d = open_failing("kernel=vendor,dead_after=1,cores=1");
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;

    (void)state;
    product_make(&p, ORK_I8_I32, 4, 64, 64, 127, 5);
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    assert_true(ork_matmul_run(d, &call, 1, &error) < 0);
    assert_int_equal(ork_device_health(d), -EIO);
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EIO);
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

static void test_refusals(void **state)
{
    struct ork_device *d = product_open_sim(NULL, false);
    struct ork_error error = {0, ""};
    struct ork_open_options o = {.size = sizeof(o), .transport = "abacus"};
    struct ork_matmul call;
    struct ork_device *other;
    struct ork_weight *w;
    struct product p;
    float scale[64];

    (void)state;
    assert_int_equal(ork_device_open(&o, &other, &error), -EINVAL);
    assert_non_null(strstr(error.text, "abacus"));
    o.size = 3;
    assert_int_equal(ork_device_open(&o, &other, &error), -EINVAL);
    product_make(&p, ORK_F16_F32, 2, 64, 64, 127, 5);
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    call.b_scale = scale;
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EINVAL);
    call.b_scale = NULL;
    call.c_stride = 63;
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EINVAL);
    call.c_stride = 0;
    call.a = NULL;
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EINVAL);
    call.a = p.a;
    call.m = 0;
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EINVAL);
    call.m = 2;
    call.scales_per_slice = true;
    assert_int_equal(ork_matmul_run(d, &call, 1, &error), -EINVAL);
    assert_non_null(strstr(error.text, "scales_per_slice"));
    assert_int_equal(ork_matmul_run(d, &call, 0, &error), -EINVAL);
    assert_int_equal(ork_weight_pack(w, 60, 5, p.b), -EINVAL);
    ork_weight_destroy(w);
    assert_true(ork_weight_bytes(ORK_I8_I32, 0, 64, NULL, &error) == 0);
    assert_true(ork_weight_bytes(ORK_I4_I16, 100, 100, NULL, NULL) == 128 * 128 / 2);
    assert_int_equal(ork_weight_create(d, ORK_I8_I32, 1u << 20, 1u << 16, NULL, &w, &error),
                     -ENOMEM);
    product_free(&p);
    ork_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_job),
        cmocka_unit_test(test_dead_device),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
