/*
 * Prefill on a device with the CPU's own kernels: gate_device MODEL [REQUESTS]. Placement is the
 * only difference to an all-CPU run under the same run key, so every logit row, the perplexity and
 * what is generated must be the same bytes. Counters prove that the device did the work.
 */
#include "gate_live.h"
#include "gate_text.h"
#include "loopback.h"

#include "device/prefill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { UBATCH = 64, N_PROMPTS = 4 };

static const char *model;
static ggml_backend_dev_t device;

static void make_case(struct gate_case *c, enum gate_budget budget)
{
    gate_case_init(c);
    c->model = model;
    c->budget = budget;
    c->n_ubatch = UBATCH;
}

static struct bmoe_stats stats_of(struct bmoe_session *s)
{
    struct bmoe_stats stats = {.size = sizeof stats};
    bmoe_session_stats(s, &stats);
    return stats;
}

static double perplexity(struct bmoe_session *s, uint32_t chunk)
{
    struct bmoe_perplexity p = {
        .size = sizeof p, .text = gate_text(400), .text_bytes = 400, .chunk = chunk};
    struct bmoe_perplexity_result r = {.size = sizeof r};
    struct bmoe_error err;
    if (bmoe_session_perplexity(s, &p, &r, &err) < 0)
        fail_msg("perplexity: %s", err.text);
    return r.ppl;
}

/* What an all-CPU session answers: prompts of several lengths one after another, then perplexity.
 */
struct right {
    struct gate_live live[N_PROMPTS];
    double ppl, ppl_chunk;
};

static struct right right;

static void set_prompts(struct right *r)
{
    static const uint32_t bytes[N_PROMPTS] = {260, 180, 260, 100};
    *r = (struct right){0};
    for (int i = 0; i < N_PROMPTS; i++)
        r->live[i] =
            (struct gate_live){.from = i == 1 ? 1000 : 0, .prompt_bytes = bytes[i], .n_predict = 5};
}

static int make_right(void **state)
{
    struct gate_case c;
    (void)state;
    set_prompts(&right);
    make_case(&c, GATE_BUDGET_ALL);
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    for (int i = 0; i < N_PROMPTS; i++)
        gate_live_succeed(s, &right.live[i]);
    right.ppl = perplexity(s, 0);
    right.ppl_chunk = perplexity(s, 100);
    bmoe_session_close(s);
    return 0;
}

static int drop_right(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROMPTS; i++)
        gate_live_fini(&right.live[i]);
    return 0;
}

/* The same requests with a device; answers what it did. */
static struct bmoe_stats run_there(const struct gate_case *c, bool streamed,
                                   const struct session_hooks *hooks)
{
    struct right r;
    set_prompts(&r);
    struct bmoe_session *s = gate_live_open(c, streamed, hooks);
    for (int i = 0; i < N_PROMPTS; i++) {
        gate_live_succeed(s, &r.live[i]);
        gate_live_same(&right.live[i], &r.live[i]);
        gate_live_fini(&r.live[i]);
    }
    double ppl = perplexity(s, 0), ppl_chunk = perplexity(s, 100);
    assert_memory_equal(&ppl, &right.ppl, sizeof ppl);
    assert_memory_equal(&ppl_chunk, &right.ppl_chunk, sizeof ppl_chunk);
    struct bmoe_stats stats = stats_of(s);
    bmoe_session_close(s);
    printf(
        "  device tokens %lld nodes %lld splits %lld cpu matmuls %lld, read %lld host %lld dense "
        "%lld unused %lld, routed %lld demand %lld, stall %lld us, %lld bytes\n",
        (long long)stats.dev_tokens, (long long)stats.dev_nodes, (long long)stats.dev_splits,
        (long long)stats.dev_cpu_matmuls, (long long)stats.dev_read_bytes,
        (long long)stats.dev_host_bytes, (long long)stats.dev_dense_bytes,
        (long long)stats.dev_unused_bytes, (long long)stats.dev_routed, (long long)stats.dev_demand,
        (long long)stats.dev_stall_us, (long long)stats.dev_bytes);
    assert_true(stats.dev_tokens > 0);
    assert_true(stats.dev_nodes > 0);
    assert_int_equal(stats.dev_cpu_matmuls, 0);
    return stats;
}

static void resident_model_on_the_device(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    make_case(&c, GATE_BUDGET_ALL);
    struct bmoe_stats stats = run_there(&c, false, &hooks);
    assert_int_equal(stats.dev_read_bytes, 0);
}

static void streamed_model_on_the_device(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    make_case(&c, GATE_BUDGET_EIGHTH);
    struct bmoe_stats stats = run_there(&c, true, &hooks);
    assert_true(stats.dev_read_bytes > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resident_model_on_the_device),
        cmocka_unit_test(streamed_model_on_the_device),
    };
    if (argc < 2)
        return 2;
    model = argv[1];
    device = loopback_device(2);
    if (!device)
        return 77;
    return cmocka_run_group_tests(tests, make_right, drop_right);
}
