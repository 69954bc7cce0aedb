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

static const struct bmoe_stats before = {.decode_tokens = 100, .decode_us = 5000000};

static void test_all(void **state)
{
    struct bmoe_stats stats = {.bytes_read = 5 << 20,
                               .decode_tokens = 107,
                               .decode_us = 7000000,
                               .hits = 1,
                               .misses = 3,
                               .fault_wait_us = 1500000,
                               .hook_wait_us = 500000,
                               .peak_rss_bytes = 100 << 20};
    char line[512];

    (void)state;
    summary_write(line, sizeof(line), &(struct summary){&info, &result, &before, &stats, 8});
    assert_string_equal(line, "prompt 20 tokens at 40.00 tok/s, 10 reused, decode 8 tokens at 3.50 "
                              "tok/s, load 0.25 s, first token 0.75 s, read 5.0 MiB, hits 25.0 %, "
                              "stall 2.00 s, peak memory 100 MiB");
}

static void test_unmeasured(void **state)
{
    struct bmoe_stats stats = {.bytes_read = -1,
                               .decode_tokens = 100,
                               .decode_us = 5000000,
                               .hits = -1,
                               .misses = -1,
                               .fault_wait_us = -1,
                               .hook_wait_us = -1,
                               .peak_rss_bytes = -1};
    struct bmoe_result nothing = {.n_prompt = 3};
    char line[512];

    (void)state;
    summary_write(line, sizeof(line), &(struct summary){&info, &nothing, &before, &stats, 0});
    assert_string_equal(line, "prompt 3 tokens, decode 0 tokens, load 0.25 s, first token 0.00 s");
    summary_write_reads(line, sizeof(line), &stats);
    assert_string_equal(line, "");
}

static void test_limits(void **state)
{
    struct bmoe_stats stats = {.bytes_read = 0};
    struct bmoe_result cut = result;
    char line[512];

    (void)state;
    cut.stopped_by_limit = true;
    summary_write(line, sizeof(line), &(struct summary){&info, &cut, &before, &stats, 8});
    assert_non_null(strstr(line, ", ended at the limit of -n"));
    summary_write(line, sizeof(line), &(struct summary){&info, &cut, &before, &stats, 0});
    assert_non_null(strstr(line, ", ended by a full context"));
}

static void test_cut(void **state)
{
    struct bmoe_stats stats = {.bytes_read = 1};
    char line[512], small[40];

    (void)state;
    summary_write(line, sizeof(line), &(struct summary){&info, &result, &before, &stats, 8});
    summary_write(small, sizeof(small), &(struct summary){&info, &result, &before, &stats, 8});
    assert_int_equal(strncmp(line, small, strlen(small)), 0);
    assert_true(strlen(small) < sizeof(small));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_unmeasured),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
