/*
 * The line of figures: all of them, and what is left out when it was not measured.
 */
#include "summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The meter is filled by hand; these are here for the linker. */
void bmoe_session_stats(struct bmoe_session *s, struct bmoe_stats *out)
{
    (void)s;
    (void)out;
}

void bmoe_session_describe(struct bmoe_session *s, struct bmoe_info *out)
{
    (void)s;
    (void)out;
}

static const struct bmoe_result result = {
    .n_prompt = 30, .n_reused = 10, .n_predicted = 8, .prefill_s = 0.5, .first_token_s = 0.75};

static struct bmoe_stats unmeasured(void)
{
    struct bmoe_stats stats = {.size = sizeof(stats)};

#define UNMEASURED(member, kind, unit, key, phases, meaning, brief) stats.member = -1;
    BMOE_COUNTERS(UNMEASURED)
#undef UNMEASURED
    return stats;
}

static struct meter measured(void)
{
    struct meter m = {.info = {.load_s = 0.25}, .n_decodes = 7, .sum = {.wall_ms = 2000}};

    m.before = m.after = unmeasured();
    m.before.prefill_tokens = 100;
    m.after.prefill_tokens = 120;
    return m;
}

static void test_all(void **state)
{
    struct meter m = measured();
    const struct turn turn = {&m, &result};
    char line[512];

    (void)state;
    m.before.bytes_read = 1 << 20;
    m.after.bytes_read = 6 << 20;
    m.after.hits = 1;
    m.after.misses = 3;
    m.before.fault_wait_us = m.before.hook_wait_us = 1000000;
    m.after.fault_wait_us = 2500000;
    m.after.hook_wait_us = 1500000;
    m.before.retries = 1;
    m.after.retries = 3;
    m.after.peak_rss_bytes = 100 << 20;
    summary_write(line, sizeof(line), &turn, 8);
    assert_string_equal(line, "prompt 20 tokens at 40.00 tok/s, 10 reused, decode 8 tokens at 3.50 "
                              "tok/s, load 0.25 s, first token 0.75 s, hits 25.0 %, read 5.0 MiB, "
                              "stall 2.00 s, 2 reads made again, peak memory 100.0 MiB");
    m.before.dev_tokens = m.before.dev_read_bytes = m.before.dev_stall_us = 0;
    m.after.dev_tokens = 0;
    m.after.dev_read_bytes = 0;
    m.after.dev_stall_us = 125000;
    summary_write(line, sizeof(line), &turn, 8);
    assert_null(strstr(line, "for"));
    m.after.dev_tokens = 512;
    summary_write(line, sizeof(line), &turn, 8);
    assert_non_null(strstr(line, "100.0 MiB, prefill device 512 tokens with 0.0 MiB read for it "
                                 "and 0.12 s waited for them"));
}

static void test_unmeasured(void **state)
{
    struct meter m = measured();
    const struct bmoe_result nothing = {.n_prompt = 3};
    const struct turn turn = {&m, &nothing};
    char line[512];

    (void)state;
    m.n_decodes = 0;
    m.after.prefill_tokens = 103;
    m.before.retries = m.after.retries = 5;
    summary_write(line, sizeof(line), &turn, 0);
    assert_string_equal(line, "prompt 3 tokens, load 0.25 s");
}

static void test_limits(void **state)
{
    struct meter m = measured();
    struct bmoe_result cut = result;
    const struct turn turn = {&m, &cut};
    char line[512];

    (void)state;
    cut.stopped_by_limit = true;
    summary_write(line, sizeof(line), &turn, 8);
    assert_non_null(strstr(line, ", ended at the limit of -n"));
    summary_write(line, sizeof(line), &turn, 0);
    assert_non_null(strstr(line, ", ended by a full context"));
}

static void test_cut(void **state)
{
    struct meter m = measured();
    const struct turn turn = {&m, &result};
    char line[512], small[40];

    (void)state;
    summary_write(line, sizeof(line), &turn, 8);
    for (size_t room = 1; room <= sizeof(small); room++) {
        summary_write(small, room, &turn, 8);
        assert_int_equal(strlen(small), room - 1);
        assert_memory_equal(line, small, room - 1);
    }
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
