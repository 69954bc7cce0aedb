/*
 * The context's memory where a prefill device reaches it: gate_device_memory MODEL. Moved to its
 * host buffer type, or looked at where it lies, answers and saved states are the bytes of an
 * all-CPU session, and the pages that a move leaves are given back, also after each clear.
 */
#include "gate_fake.h"
#include "gate_live.h"

#include "base/host.h"
#include "device/kv_memory.h"
#include "engine/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { UBATCH = 64, N_CTX = 1024 };

static const char *model;
static ggml_backend_dev_t device;
static struct gate_live right = {.prompt_bytes = 180, .n_predict = 4};
static struct kv_state right_state;
static char lines[8192];

static void on_log(void *user, enum bmoe_log_level level, const char *line)
{
    size_t n = strlen(lines);
    (void)user;
    (void)level;
    snprintf(lines + n, sizeof lines - n, "%s\n", line);
}

static struct bmoe_session *open_there(bool there, uint32_t n_ctx)
{
    struct gate_case c;
    struct bmoe_options o;
    struct bmoe_error err;
    struct session_hooks hooks = {.device = there ? device : NULL};
    struct bmoe_session *s = NULL;
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = UBATCH;
    c.n_ctx = n_ctx;
    gate_case_options(&c, true, &o);
    o.cache_bytes = 24 << 20;
    o.log = on_log;
    lines[0] = '\0';
    if (session_open_hooked(&s, &o, &hooks, &err) < 0)
        fail_msg("open: %s", err.text);
    return s;
}

static void answers_right(struct bmoe_session *s)
{
    struct gate_live live = {
        .prompt_bytes = right.prompt_bytes, .n_predict = right.n_predict, .keep_kv = true};
    bmoe_session_clear(s);
    gate_live_succeed(s, &live);
    gate_live_same(&right, &live);
    gate_live_fini(&live);
}

static int make_right(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there(false, N_CTX);
    gate_live_succeed(s, &right);
    answers_right(s);
    assert_true(state_save(s, &right_state));
    bmoe_session_close(s);
    return 0;
}

static int drop_right(void **state)
{
    (void)state;
    gate_live_fini(&right);
    state_fini(&right_state);
    return 0;
}

static void state_is_right(struct bmoe_session *s)
{
    struct kv_state k = {0};
    assert_true(state_save(s, &k));
    assert_int_equal(k.bytes, right_state.bytes);
    assert_memory_equal(k.data, right_state.data, k.bytes);
    state_fini(&k);
}

/* Answers, states saved and restored, and a context made anew, which is moved anew. */
static void used_as_ever(struct bmoe_session *s)
{
    struct kv_state k = {0};
    answers_right(s);
    state_is_right(s);
    assert_true(state_save(s, &k));
    bmoe_session_clear(s);
    answers_right(s);
    bmoe_session_clear(s);
    assert_true(state_restore(s, &k));
    state_is_right(s);
    state_fini(&k);
    struct bmoe_session *cpu = open_there(false, N_CTX);
    double here = gate_live_perplexity(cpu, 250, 0, 1);
    bmoe_session_close(cpu);
    lines[0] = '\0';
    double there = gate_live_perplexity(s, 250, 0, 1);
    assert_memory_equal(&here, &there, sizeof here);
    answers_right(s);
    state_is_right(s);
}

/* Pages of libllama's own buffers for the memory that are there. */
static size_t pages_in_place(const struct bmoe_session *s)
{
    static unsigned char there[1 << 16];
    size_t n = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < s->buffers.n_seen; i++) {
        struct ggml_backend_buffer *b = s->buffers.seen[i];
        if (ggml_backend_buffer_get_usage(b) != GGML_BACKEND_BUFFER_USAGE_ANY)
            continue;
        uintptr_t base = (uintptr_t)ggml_backend_buffer_get_base(b);
        uintptr_t end = (base + ggml_backend_buffer_get_size(b)) / page * page;
        base = (base + page - 1) / page * page;
        assert_true((end - base) / page <= sizeof there);
        assert_int_equal(mincore((void *)base, end - base, there), 0);
        for (size_t k = 0; k < (end - base) / page; k++)
            n += there[k] & 1;
    }
    return n;
}

static void moved_to_the_host_buffer_type(void **state)
{
    (void)state;
    fake_faults.host_buffer = true;
    struct bmoe_session *s = open_there(true, N_CTX);
    assert_non_null(strstr(lines, "was moved to FAKE_HOST"));
    assert_non_null(s->memory);
    assert_int_equal(pages_in_place(s), 0);
    answers_right(s);
    bmoe_session_clear(s);
    assert_int_equal(pages_in_place(s), 0);
    used_as_ever(s);
    assert_non_null(strstr(lines, "was moved to FAKE_HOST")); /* for more rows of logits */
    assert_true(fake_device_host_bytes() >= kv_memory_bytes(s->memory));
    bmoe_session_close(s);
}

static void looked_at_where_it_lies(void **state)
{
    (void)state;
    fake_faults.host_ptr = true;
    struct bmoe_session *s = open_there(true, N_CTX);
    assert_non_null(strstr(lines, "stays and is reached by the device too"));
    assert_non_null(s->memory);
    assert_true(pages_in_place(s) > 0);
    used_as_ever(s);
    bmoe_session_close(s);
}

/* A device that dies leaves the memory to the CPU, where libllama put it. */
static void a_device_that_dies(void **state)
{
    (void)state;
    for (int ptr = 0; ptr < 2; ptr++) {
        fake_faults.host_buffer = true;
        fake_faults.host_ptr = ptr;
        struct bmoe_session *s = open_there(true, N_CTX);
        answers_right(s);
        bmoe_session_clear(s);
        fake_faults.fail_after = 7;
        answers_right(s);
        assert_non_null(strstr(lines, "failed on FAKE0"));
        assert_null(s->memory);
        state_is_right(s);
        answers_right(s);
        fake_device_heal();
        bmoe_session_close(s);
    }
}

/* Rows of logits are capped: a text is scored in narrower pieces then. */
static void few_rows_of_logits(void **state)
{
    (void)state;
    enum { FEW = 40 };
    double ppl[2];
    for (int capped = 0; capped < 2; capped++) {
        struct session_hooks hooks = {.device = device, .logit_rows = capped ? FEW : 0};
        struct gate_case c;
        struct bmoe_options o;
        struct bmoe_error err;
        struct bmoe_session *s = NULL;
        gate_case_init(&c);
        c.model = model;
        c.n_ubatch = capped ? UBATCH : FEW;
        gate_case_options(&c, false, &o);
        if (session_open_hooked(&s, &o, &hooks, &err) < 0)
            fail_msg("open: %s", err.text);
        ppl[capped] = gate_live_perplexity(s, 250, 0, 1);
        assert_int_equal(s->n_outputs, FEW);
        bmoe_session_close(s);
    }
    assert_memory_equal(&ppl[0], &ppl[1], sizeof ppl[0]);
}

/* Measured when it is opened: a device that is slow is given no prompt, one that is quick prompts
 * of some width. */
static void the_least_width_is_measured(void **state)
{
    (void)state;
    for (int quick = 0; quick < 2; quick++) {
        struct session_hooks hooks = {.device = device};
        struct gate_case c;
        struct bmoe_options o;
        struct bmoe_error err;
        struct bmoe_session *s = NULL;
        gate_case_init(&c);
        c.model = model;
        c.n_ctx = N_CTX;
        c.n_ubatch = quick ? 256 : UBATCH; /* far apart, so that no busy machine turns it round */
        gate_case_options(&c, false, &o);
        o.prefill_min_tokens = BMOE_MIN_TOKENS_AUTO;
        o.log = on_log;
        lines[0] = '\0';
        fake_faults.hollow = quick;
        fake_faults.delay_us = quick ? 0 : 30000;
        if (session_open_hooked(&s, &o, &hooks, &err) < 0)
            fail_msg("open: %s", err.text);
        fake_device_heal();
        if ((strstr(lines, "was slower than the CPU") == NULL) != quick)
            fail_msg("%s device: %s", quick ? "quick" : "slow", lines);
        assert_int_equal(s->o.prefill_min_tokens <= 256, quick);
        int64_t measured = s->device_tokens;
        struct gate_live live = {.prompt_bytes = 600, .n_predict = 2};
        gate_live_succeed(s, &live);
        assert_int_equal(s->device_tokens > measured, quick);
        gate_live_fini(&live);
        bmoe_session_close(s);
    }
}

static double grown_mib(bool there)
{
    int64_t before = host_rss_bytes();
    struct bmoe_session *s = open_there(there, 65536);
    double kv = (double)s->buffers.kv / (1 << 20);
    answers_right(s);
    bmoe_session_clear(s);
    double mib = (double)(host_rss_bytes() - before) / (1 << 20);
    printf("  KV %.1f MiB, %s: the process grew by %.1f MiB\n", kv, there ? "moved" : "in place",
           mib);
    bmoe_session_close(s);
    return there ? mib - kv / 2 : mib;
}

static void pages_are_given_back(void **state)
{
    (void)state;
    fake_faults.host_buffer = true;
    struct bmoe_session *s = open_there(false, 65536);
    bool large = s->buffers.kv > (uint64_t)64 << 20;
    bmoe_session_close(s);
    if (!large)
        skip();       /* less than what else comes and goes */
    grown_mib(false); /* what the first sessions leave in the heap */
    double in_place = grown_mib(false);
    assert_true(grown_mib(true) < in_place);
}

#define TEST(name) cmocka_unit_test_setup(name, gate_fake_heal)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(moved_to_the_host_buffer_type),
        TEST(looked_at_where_it_lies),
        TEST(a_device_that_dies),
        TEST(few_rows_of_logits),
        TEST(the_least_width_is_measured),
        TEST(pages_are_given_back),
    };
    device = gate_fake_open(argc, argv, &model);
    return device ? cmocka_run_group_tests(tests, make_right, drop_right) : 2;
}
