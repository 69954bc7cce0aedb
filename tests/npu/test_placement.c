/* Who multiplies, as a table: the published crossover, residency, experts down to one row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "placement.h"

static const struct placement_rules at_365 = {.submit_us = 365, .n_cores = 3};

static struct placement_ask dense(uint64_t rows, uint32_t n, uint32_t k)
{
    return (struct placement_ask){.resident = true,
                                  .rows = rows,
                                  .n = n,
                                  .k = k,
                                  .active = 1,
                                  .weight_bytes = (uint64_t)n * k,
                                  .source_bytes = (uint64_t)n * k * 34 / 32};
}

/* The fewest rows the NPU takes; more are the NPU's too. */
static uint64_t crossover(const struct placement_rules *rules, struct placement_ask ask)
{
    uint64_t first = 0;

    for (ask.rows = 1; ask.rows <= 4096; ask.rows++) {
        const bool npu = placement_decide(rules, &ask).on_npu;

        if (npu && !first)
            first = ask.rows;
        assert_true(npu || !first);
    }
    return first;
}

static void the_crossover_is_the_measured_one(void **state)
{
    const struct placement_rules fast = {.submit_us = 80, .n_cores = 3};
    const struct placement_rules slow = {.submit_us = 1400, .n_cores = 3};
    struct placement_ask ask = dense(0, 2048, 2048);

    (void)state;
    assert_in_range(crossover(&at_365, ask), 30, 34);
    assert_int_equal(crossover(&fast, ask), 1);
    assert_in_range(crossover(&slow, ask), 60, 110);
    /* Small weights cost the host little: later. */
    assert_true(crossover(&at_365, dense(0, 512, 512)) > 100);
    ask.resident = false;
    assert_in_range(crossover(&at_365, ask), 150, 600);
}

static void resident_experts_down_to_one_row(void **state)
{
    struct placement_ask ask = dense(1, 512, 2048);
    struct placement_rules strict = at_365;

    (void)state;
    assert_false(placement_decide(&at_365, &ask).on_npu);
    ask.routed = true;
    assert_true(placement_decide(&at_365, &ask).on_npu);
    strict.min_rows = 64; /* is about dense products */
    assert_true(placement_decide(&strict, &ask).on_npu);
    ask.resident = false;
    assert_false(placement_decide(&at_365, &ask).on_npu);
}

static void the_option_decides_dense_products(void **state)
{
    const struct placement_rules rules = {.submit_us = 365, .n_cores = 3, .min_rows = 10};

    (void)state;
    assert_int_equal(crossover(&rules, dense(0, 2048, 2048)), 10);
    assert_int_equal(crossover(&rules, dense(0, 64, 64)), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_crossover_is_the_measured_one),
        cmocka_unit_test(resident_experts_down_to_one_row),
        cmocka_unit_test(the_option_decides_dense_products),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
