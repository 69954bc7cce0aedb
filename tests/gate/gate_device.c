/*
 * Prefill on a device with the CPU's own kernels: gate_device MODEL [quick|warm|widths|decisions].
 * Placement is the only difference to an all-CPU run under the same run key, so every logit row and
 * the perplexity must be the same bytes, whatever the arena does. Counters prove that the device
 * did the work, and the arena's waits are taken away one by one to see that they are what makes it
 * right.
 */
#include "gate_live.h"
#include "gate_text.h"
#include "loopback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { UBATCH = 64, MIN_TOKENS = 32, N_PROMPTS = 4, SLOW_US = 20000 };

static const char *model;
static ggml_backend_dev_t device;
static int n_prompts = N_PROMPTS;

static void make_case(struct gate_case *c, enum gate_budget budget)
{
    gate_case_init(c);
    c->model = model;
    c->budget = budget;
    c->n_ubatch = UBATCH;
    c->prefill_dense = BMOE_PREFILL_DENSE_SLOTS;
}

/* What an all-CPU session answers: prompts one after another, the first one again, perplexities. */
struct answers {
    struct gate_live live[N_PROMPTS];
    double ppl, ppl_chunk;
};

static struct answers right;

static void set_prompts(struct answers *r)
{
    static const uint32_t bytes[N_PROMPTS] = {180, 120, 180, 100};
    *r = (struct answers){0};
    for (int i = 0; i < N_PROMPTS; i++)
        r->live[i] =
            (struct gate_live){.from = i == 1 ? 1000 : 0, .prompt_bytes = bytes[i], .n_predict = 3};
}

static int make_right(void **state)
{
    struct gate_case c;
    (void)state;
    set_prompts(&right);
    make_case(&c, GATE_BUDGET_ALL);
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    for (int i = 0; i < n_prompts; i++)
        gate_live_succeed(s, &right.live[i]);
    right.ppl = gate_live_perplexity(s, 250, 0, 0);
    right.ppl_chunk = gate_live_perplexity(s, 250, 100, 0);
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

static void print_stats(const struct bmoe_stats *t)
{
    printf(
        "  device: %lld tokens, %lld nodes, %lld splits; read %lld, from memory %lld, dense %lld, "
        "unused %lld; routed %lld, demand %lld; waited %lld us; %lld bytes\n",
        (long long)t->dev_tokens, (long long)t->dev_nodes, (long long)t->dev_splits,
        (long long)t->dev_read_bytes, (long long)t->dev_host_bytes, (long long)t->dev_dense_bytes,
        (long long)t->dev_unused_bytes, (long long)t->dev_routed, (long long)t->dev_demand,
        (long long)t->dev_stall_us, (long long)t->dev_bytes);
}

/* The same requests with a device; answers what it did. */
static struct bmoe_stats run_there(const struct gate_case *c, bool streamed,
                                   struct session_hooks *hooks)
{
    struct answers r;
    set_prompts(&r);
    hooks->device = device;
    struct bmoe_session *s = gate_live_open(c, streamed, hooks);
    for (int i = 0; i < n_prompts; i++) {
        gate_live_succeed(s, &r.live[i]);
        gate_live_same(&right.live[i], &r.live[i]);
        gate_live_fini(&r.live[i]);
    }
    double ppl = gate_live_perplexity(s, 250, 0, 0),
           ppl_chunk = gate_live_perplexity(s, 250, 100, 0);
    assert_memory_equal(&ppl, &right.ppl, sizeof ppl);
    assert_memory_equal(&ppl_chunk, &right.ppl_chunk, sizeof ppl_chunk);
    struct bmoe_stats stats = gate_live_stats(s);
    bmoe_session_close(s);
    print_stats(&stats);
    assert_true(stats.dev_tokens > 0);
    assert_true(stats.dev_nodes > 0);
    assert_int_equal(stats.dev_cpu_matmuls, 0);
    assert_true(stats.dev_bytes > 0);
    return stats;
}

static void from_memory(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {0};
    make_case(&c, GATE_BUDGET_ALL);
    c.prefill_dense = BMOE_PREFILL_DENSE_RESIDENT;
    struct bmoe_stats stats = run_there(&c, false, &hooks);
    assert_int_equal(stats.dev_read_bytes, 0);
}

static void from_disk(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {0};
    make_case(&c, GATE_BUDGET_FLOOR);
    struct bmoe_stats stats = run_there(&c, true, &hooks);
    assert_true(stats.dev_read_bytes > 0);
}

/* Waits without userfaultfd, from three slots, with what is resident lent for copies. */
static void from_frames_in_three_slots(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.device_slots = 3};
    make_case(&c, GATE_BUDGET_HALF);
    c.place = BMOE_PLACE_NONE;
    struct bmoe_stats stats = run_there(&c, true, &hooks);
    assert_int_equal(stats.dev_slots, 3);
    if (stats.dev_routed > 0)
        assert_true(stats.dev_host_bytes > 0);
}

/* One loader that begins each layer late: only the waits keep it right. Routed reads bring less
 * than whole layers, though none is read whole for being routed to nearly all of. */
static void routed_and_whole_by_one_slow_loader(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.arena = {.delay_us = SLOW_US}};
    make_case(&c, GATE_BUDGET_FLOOR);
    c.n_loaders = 1;
    c.prefill_full = 1;
    struct bmoe_stats routed = run_there(&c, true, &hooks);
    c.prefill_whole = true;
    struct bmoe_stats whole = run_there(&c, true, &hooks);
    assert_true(routed.dev_stall_us > 0 && whole.dev_stall_us > 0);
    if (routed.dev_routed == 0)
        return; /* no experts */
    assert_true(routed.dev_demand > 0 && routed.dev_demand < routed.dev_routed);
    assert_true(routed.dev_read_bytes + routed.dev_host_bytes <
                whole.dev_read_bytes + whole.dev_host_bytes);
}

/* With a part of the arena's care taken away, something must differ. */
static void expect_wrong(struct arena_hooks arena)
{
    struct gate_case c;
    struct session_hooks hooks = {.device = device, .arena = arena};
    struct gate_live live = {.prompt_bytes = 180, .n_predict = 3};
    char said[256];
    make_case(&c, GATE_BUDGET_FLOOR);
    c.n_loaders = 1;
    c.prefill_full = 1;
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    bool same = gate_live_run(s, &live) == BMOE_OK &&
                gate_rows_equal(&right.live[0].rows, &live.rows, said, sizeof said);
    /* What is not finite is seen, and answered by the CPU from then on: as good as different. */
    int64_t there = gate_live_stats(s).dev_tokens;
    double ppl = same ? gate_live_perplexity(s, 250, 0, 0) : 0;
    same = same && gate_live_stats(s).dev_tokens > there;
    bmoe_session_close(s);
    gate_live_fini(&live);
    assert_false(same && memcmp(&ppl, &right.ppl, sizeof ppl) == 0);
}

static bool has_experts(void)
{
    struct gate_case c;
    struct bmoe_info info = {.size = sizeof info};
    make_case(&c, GATE_BUDGET_ALL);
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    bmoe_session_describe(s, &info);
    bmoe_session_close(s);
    return info.n_expert > 0;
}

static void the_waits_are_what_makes_it_right(void **state)
{
    (void)state;
    if (has_experts()) {
        expect_wrong((struct arena_hooks){.skip_demand = true});
        expect_wrong((struct arena_hooks){.skip_expert_wait = true, .delay_us = SLOW_US});
    }
    expect_wrong((struct arena_hooks){.skip_dense_wait = true, .delay_us = SLOW_US});
}

/* A prompt on the device alone leaves the host's cache as it was, but for what its last rows
 * wanted, which is read ahead for decode. */
static void one_prompt(struct bmoe_session *s, bool cold)
{
    struct gate_live live = {.prompt_bytes = 190, .n_predict = 1};
    struct bmoe_stats before = gate_live_stats(s);
    gate_live_succeed(s, &live);
    gate_live_fini(&live);
    struct bmoe_stats t = gate_live_stats(s);
    for (int i = 0; !cold && i < 60000 && t.resident_extents == 0; i++) {
        usleep(1000);
        t = gate_live_stats(s);
    }
    assert_int_equal(t.hits + t.misses, before.hits + before.misses);
    assert_int_equal(t.evictions, 0);
    assert_int_equal(t.resident_extents > 0, !cold);
    assert_int_equal(t.ahead_reads > 0, !cold);
}

/* The first tokens after that, warm and cold: the same bits. */
static void decode_starts_warm(void **state)
{
    (void)state;
    enum { N_DECODE = 32 };
    struct gate_case c;
    struct gate_live live[2];
    if (!has_experts())
        skip();
    make_case(&c, GATE_BUDGET_HALF);
    for (int cold = 0; cold < 2; cold++) {
        struct session_hooks hooks = {.device = device, .cold_start = cold};
        struct bmoe_session *s = gate_live_open(&c, true, &hooks);
        one_prompt(s, cold);
        live[cold] = (struct gate_live){.prompt_bytes = 190, .n_predict = N_DECODE + 1};
        gate_live_succeed(s, &live[cold]);
        struct bmoe_stats t = gate_live_stats(s);
        printf("  %s: %.1f %% hits in %d tokens\n", cold ? "cold" : "warm",
               100.0 * (double)t.hits / (double)(t.hits + t.misses + 1), N_DECODE);
        bmoe_session_close(s);
    }
    gate_live_same(&live[0], &live[1]);
    gate_live_fini(&live[0]);
    gate_live_fini(&live[1]);
}

/* Without a graph before it nothing is foreseen and nothing read in vain; the same prompt again has
 * all foreseen. */
static void the_first_graph_reads_what_it_must(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    struct bmoe_stats t[3] = {{0}};
    make_case(&c, GATE_BUDGET_FLOOR);
    c.prefill_full = 1;
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    for (int i = 1; i < 3; i++) {
        struct gate_live live = {.prompt_bytes = UBATCH / 2 + 8, .n_predict = 1};
        gate_live_succeed(s, &live);
        gate_live_fini(&live);
        t[i] = gate_live_stats(s);
        assert_int_equal(t[i].dev_tokens - t[i - 1].dev_tokens, live.result.n_prompt);
    }
    bmoe_session_close(s);
    assert_int_equal(t[1].dev_demand, t[1].dev_routed);
    assert_int_equal(t[2].dev_unused_bytes, 0);
    assert_int_equal(t[2].dev_routed, 2 * t[1].dev_routed);
}

/* The pager is emptied all the time while graphs run on the device and copies are made of what is
 * there. */
static void evictions_while_graphs_run(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    make_case(&c, GATE_BUDGET_HALF);
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    gate_live_evict_begin(s);
    for (int i = 0; i < 2 * N_PROMPTS; i++) {
        struct gate_live live = right.live[i % N_PROMPTS];
        live.rows = (struct gate_rows){.fd = -1};
        gate_live_succeed(s, &live);
        gate_live_same(&right.live[i % N_PROMPTS], &live);
        gate_live_fini(&live);
    }
    gate_live_evict_end();
    struct bmoe_stats stats = gate_live_stats(s);
    print_stats(&stats);
    assert_true(stats.dev_tokens > 0 && stats.dev_nodes > 0);
    assert_true(stats.dev_routed == 0 || stats.evictions > 0);
    bmoe_session_close(s);
}

static void a_missed_routing_is_slow_not_wrong(void **state)
{
    (void)state;
    struct gate_case c;
    struct session_hooks hooks = {.hide_routing = true, .device = device};
    struct gate_live live = {.prompt_bytes = 180, .n_predict = 3};
    make_case(&c, GATE_BUDGET_EIGHTH);
    c.place = BMOE_PLACE_COPY; /* where a fault serves decode */
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    gate_live_succeed(s, &live);
    gate_live_same(&right.live[0], &live);
    struct bmoe_stats stats = gate_live_stats(s);
    assert_true(stats.dev_tokens > 0);
    bmoe_session_close(s);
    gate_live_fini(&live);
}

/* Prompt tokens that the device should have computed of n. */
static int64_t there(uint32_t n, uint32_t ubatch)
{
    uint32_t tail = n % ubatch;
    return n - (tail < MIN_TOKENS ? tail : 0);
}

/* Each width twice, one after the other, on the device and then on the CPU. */
static void widths_of(uint32_t ubatch)
{
    const uint32_t widths[] = {31, 32, 33, ubatch - 1, ubatch, ubatch + 1, 2 * ubatch + 17};
    enum { N_WIDTHS = sizeof widths / sizeof widths[0] };
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    struct gate_live cpu[2 * N_WIDTHS] = {{0}};
    make_case(&c, GATE_BUDGET_EIGHTH);
    c.n_ubatch = ubatch;
    c.n_ctx = 2 * ubatch + 64;
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    for (int i = 0; i < 2 * N_WIDTHS; i++) {
        cpu[i] = (struct gate_live){.prompt_bytes = widths[i / 2], .n_predict = 2};
        gate_live_succeed(s, &cpu[i]);
    }
    bmoe_session_close(s);
    s = gate_live_open(&c, true, &hooks);
    for (int i = 0; i < 2 * N_WIDTHS; i++) {
        struct gate_live live = {.prompt_bytes = widths[i / 2], .n_predict = 2};
        int64_t before = gate_live_stats(s).dev_tokens;
        gate_live_succeed(s, &live);
        gate_live_same(&cpu[i], &live);
        assert_int_equal(gate_live_stats(s).dev_tokens - before,
                         there(live.result.n_prompt, ubatch));
        gate_live_fini(&live);
        gate_live_fini(&cpu[i]);
    }
    bmoe_session_close(s);
}

static void every_width(void **state)
{
    (void)state;
    widths_of(64);
}

static void every_width_of_512(void **state)
{
    (void)state;
    widths_of(512);
}

/* Decisions on prompts that change little from one to the next: the same log-probabilities on the
 * CPU, with routed reads and with whole layers. */
enum { N_DECISIONS = 35, N_CHOICES = 3 };

static void decide_all(const struct gate_case *c, bool there, double *logp)
{
    static const char *const choices[N_CHOICES] = {"yes", "no", "both"};
    struct session_hooks hooks = {.device = there ? device : NULL};
    struct bmoe_session *s = gate_live_open(c, true, &hooks);
    for (uint32_t i = 0; i < N_DECISIONS; i++) {
        struct bmoe_decide d;
        struct bmoe_decide_result r = {.size = sizeof r};
        struct bmoe_error err;
        uint32_t bytes = 55 + i * 425 / (N_DECISIONS - 1);
        bmoe_decide_init(&d);
        d.prefix = gate_text(bytes + i) + i % 3;
        d.prefix_bytes = bytes;
        d.suffix = "?";
        d.suffix_bytes = 1;
        d.choices = choices;
        d.n_choices = N_CHOICES;
        if (bmoe_session_decide(s, &d, &r, &err) < 0)
            fail_msg("decide: %s", err.text);
        memcpy(logp + i * N_CHOICES, r.choice_logp, N_CHOICES * sizeof *logp);
    }
    struct bmoe_stats t = gate_live_stats(s);
    if (there)
        print_stats(&t);
    assert_true(!there || t.dev_tokens > 0);
    bmoe_session_close(s);
}

static void decisions_are_the_same(void **state)
{
    (void)state;
    static double logp[3][N_DECISIONS * N_CHOICES];
    struct gate_case c;
    make_case(&c, GATE_BUDGET_EIGHTH);
    c.n_ubatch = 512;
    decide_all(&c, false, logp[0]);
    decide_all(&c, true, logp[1]);
    c.prefill_whole = true;
    decide_all(&c, true, logp[2]);
    assert_memory_equal(logp[0], logp[1], sizeof logp[0]);
    assert_memory_equal(logp[0], logp[2], sizeof logp[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(from_memory),
        cmocka_unit_test(from_disk),
        cmocka_unit_test(from_frames_in_three_slots),
        cmocka_unit_test(routed_and_whole_by_one_slow_loader),
        cmocka_unit_test(the_waits_are_what_makes_it_right),
        cmocka_unit_test(decode_starts_warm),
        cmocka_unit_test(the_first_graph_reads_what_it_must),
        cmocka_unit_test(a_missed_routing_is_slow_not_wrong),
        cmocka_unit_test(evictions_while_graphs_run),
        cmocka_unit_test(every_width),
    };
    const struct CMUnitTest quick[] = {cmocka_unit_test(from_disk)};
    const struct CMUnitTest wide[] = {cmocka_unit_test(every_width_of_512)};
    const struct CMUnitTest warm[] = {cmocka_unit_test(decode_starts_warm)};
    const struct CMUnitTest decisions[] = {cmocka_unit_test(decisions_are_the_same)};
    if (argc < 2)
        return 2;
    model = argv[1];
    device = loopback_device(2);
    if (!device)
        return 77;
    if (argc > 2 && strcmp(argv[2], "widths") == 0)
        return cmocka_run_group_tests(wide, NULL, NULL);
    if (argc > 2 && strcmp(argv[2], "warm") == 0)
        return cmocka_run_group_tests(warm, NULL, NULL);
    if (argc > 2 && strcmp(argv[2], "decisions") == 0)
        return cmocka_run_group_tests(decisions, NULL, NULL);
    if (argc > 2)
        n_prompts = 2;
    return argc > 2 ? cmocka_run_group_tests(quick, make_right, drop_right)
                    : cmocka_run_group_tests(all, make_right, drop_right);
}
