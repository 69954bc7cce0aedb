/*
 * The line of figures: all of them, and what is left out when it was not measured.
 */
#include "summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct bmoe_info info = {.load_s = 0.25};
static const struct bmoe_result result = {.n_prompt = 30,
                                          .n_reused = 10,
                                          .n_predicted = 8,
                                          .prefill_s = 0.5,
                                          .decode_s = 2,
                                          .first_token_s = 0.75};

static void test_all(void **state)
{
    struct bmoe_stats stats = {.bytes_read = 5 << 20,
                               .hits = 1,
                               .misses = 3,
                               .fault_wait_us = 1500000,
                               .hook_wait_us = 500000,
                               .peak_rss_bytes = 100 << 20};
    char line[512];

    (void)state;
    summary_write(line, sizeof(line), &info, &stats, &result);
    assert_string_equal(line, "prompt 20 tokens at 40.00 tok/s, 10 reused, decode 8 tokens at 4.00 "
                              "tok/s, load 0.25 s, first token 0.75 s, read 5.0 MiB, hits 25.0 %, "
                              "stall 2.00 s, peak memory 100 MiB");
}

static void test_unmeasured(void **state)
{
    struct bmoe_stats stats = {.bytes_read = -1,
                               .hits = -1,
                               .misses = -1,
                               .fault_wait_us = -1,
                               .hook_wait_us = -1,
                               .peak_rss_bytes = -1};
    struct bmoe_result nothing = {.n_prompt = 3};
    char line[512];

    (void)state;
    summary_write(line, sizeof(line), &info, &stats, &nothing);
    assert_string_equal(line, "prompt 3 tokens, decode 0 tokens, load 0.25 s, first token 0.00 s");
    summary_write_reads(line, sizeof(line), &stats);
    assert_string_equal(line, "");
}

static void test_cut(void **state)
{
    struct bmoe_stats stats = {.bytes_read = 1};
    char line[512], small[40];

    (void)state;
    summary_write(line, sizeof(line), &info, &stats, &result);
    summary_write(small, sizeof(small), &info, &stats, &result);
    assert_int_equal(strncmp(line, small, strlen(small)), 0);
    assert_true(strlen(small) < sizeof(small));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_unmeasured),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
