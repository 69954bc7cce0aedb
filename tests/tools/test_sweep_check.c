/* The check of a sweep's ratios against an earlier one's file. */
#include "sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void make_rates(struct sweep_rates *r, double ratio)
{
    *r = (struct sweep_rates){0};
    for (int b = 0; b < SWEEP_BUDGETS; b++) {
        r->budget[b].part = 16u >> b;
        for (int p = 0; p < BENCH_N_PHASES; p++)
            r->budget[b].ratio[p] = ratio;
    }
}

static void ratios_are_compared(void **state)
{
    (void)state;
    char dir[] = "/tmp/bmoe-sweep-XXXXXX", csv[64];
    struct sweep_rates before, now;
    assert_non_null(mkdtemp(dir));
    snprintf(csv, sizeof csv, "%s/small.csv", dir);
    make_rates(&before, 1.2);
    assert_int_equal(
        sweep_write(&before, &(struct sweep_paths){.dir = dir, .name = "small", .command = "c"}),
        0);
    make_rates(&now, 1.2 * 1.14);
    assert_int_equal(sweep_check(&now, csv), 0);
    now.budget[2].ratio[PHASE_DECODE] = 1.2 * 1.16;
    assert_int_equal(sweep_check(&now, csv), 1);
    make_rates(&now, 1.2 * 1.16);
    assert_int_equal(sweep_check(&now, csv), BENCH_N_PHASES * SWEEP_BUDGETS);
    assert_true(sweep_check(&now, "/dev/null") < 0);
    assert_true(sweep_check(&now, "/nowhere") < 0);
    for (const char *const *end = (const char *const[]){"csv", "md", "svg", NULL}; *end; end++) {
        snprintf(csv, sizeof csv, "%s/small.%s", dir, *end);
        assert_int_equal(unlink(csv), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ratios_are_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
