/*
 * What a device may refuse or do wrong: gate_device_faults MODEL. Whatever it is, the answer is the
 * CPU's bits (the fake device has the CPU's kernels) or, where a weight is carried in another type,
 * a finite one; exactly one line says what fell back; decode after it is untouched.
 */
#include "gate_fake.h"
#include "gate_live.h"

#include "engine/session.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;
static ggml_backend_dev_t device;

static struct bmoe_session *open_with(struct session_hooks hooks, bool streamed,
                                      enum bmoe_place place)
{
    struct gate_case c;
    struct bmoe_options o;
    struct bmoe_error err;
    struct bmoe_session *s = NULL;
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = GATE_FAKE_UBATCH;
    gate_case_options(&c, streamed, &o);
    if (streamed)
        o.cache_bytes = 24 << 20;
    o.place = place;
    o.log = gate_fake_log;
    hooks.device = device;
    gate_fake_hush();
    if (session_open_hooked(&s, &o, &hooks, &err) < 0)
        fail_msg("open: %s", err.text);
    return s;
}

static struct bmoe_session *open_there(bool streamed)
{
    return open_with((struct session_hooks){0}, streamed, BMOE_PLACE_AUTO);
}

static struct bmoe_session *open_placed(enum bmoe_place place)
{
    return open_with((struct session_hooks){0}, true, place);
}

static void heal_and_close(struct bmoe_session *s)
{
    fake_device_heal();
    bmoe_session_close(s);
}

static void without_a_fault_it_is_right(void **state)
{
    (void)state;
    for (int streamed = 0; streamed < 2; streamed++) {
        unsigned graphs = fake_counts.graphs;
        struct bmoe_session *s = open_there(streamed);
        int64_t nodes = fake_counts.nodes; /* after trial products */
        gate_fake_answers_right(s);
        gate_fake_answers_right(s);
        assert_int_equal(gate_fake_said.n_warnings, 0);
        assert_true(gate_live_stats(s).dev_tokens > 0);
        assert_int_equal(gate_live_stats(s).dev_nodes, fake_counts.nodes - nodes);
        assert_true(fake_counts.graphs > graphs);
        assert_int_equal(gate_live_stats(s).dev_cpu_matmuls, 0);
        bmoe_session_close(s);
    }
}

/* All on the CPU from the start, with one line that has this in it. */
static void stays_on_the_cpu(const char *line)
{
    struct bmoe_session *s = open_there(true);
    assert_int_equal(gate_fake_said.n_warnings, 1);
    assert_non_null(strstr(gate_fake_said.last, line));
    assert_non_null(strstr(gate_fake_said.last, "all is computed on the CPU"));
    gate_fake_answers_right(s);
    struct bmoe_stats stats = gate_live_stats(s);
    assert_int_equal(stats.dev_tokens, 0);
    assert_int_equal(stats.dev_nodes, 0);
    heal_and_close(s);
}

static void one_that_does_not_open(void **state)
{
    (void)state;
    fake_faults.no_open = true;
    stays_on_the_cpu("does not open");
}

static enum ggml_type expert_type(void)
{
    struct bmoe_session *s = open_there(true);
    const struct graph_site *site = graph_map_site(s->map, 0);
    enum ggml_type type = graph_map_weight(s->map, site->matrices[0])->tensor->type;
    bmoe_session_close(s);
    return type;
}

static void one_that_refuses_the_experts(void **state)
{
    (void)state;
    fake_faults.refuse_type = expert_type();
    stays_on_the_cpu("does not multiply experts of type");
}

static void one_that_multiplies_experts_wrong(void **state)
{
    (void)state;
    fake_faults.wrong_type = expert_type();
    stays_on_the_cpu("multiplies wrong experts of type");
}

static void one_that_pads_experts_unevenly(void **state)
{
    (void)state;
    fake_faults.padding = FAKE_UNEVEN;
    stays_on_the_cpu("_exps.weight in ");
}

/* What a matrix takes more than its experts lies behind the last. */
static void one_that_pads_behind_the_experts(void **state)
{
    (void)state;
    fake_faults.padding = FAKE_PADDED_END;
    struct bmoe_session *s = open_there(true);
    assert_int_equal(gate_fake_said.n_warnings, 0);
    gate_fake_answers_right(s);
    gate_fake_answers_right(s);
    assert_int_equal(gate_fake_said.n_warnings, 0);
    assert_true(gate_live_stats(s).dev_tokens > 0);
    heal_and_close(s);
}

static void one_with_little_memory(void **state)
{
    (void)state;
    fake_faults.memory_bytes = 1 << 20;
    stays_on_the_cpu("MiB free");
}

/* A request that meets the fault is answered by the CPU, and so are later ones. */
static void gives_up_in_the_middle(struct bmoe_session *s, const char *line)
{
    gate_fake_answers_right(s);
    assert_int_equal(gate_fake_said.n_warnings, 1);
    assert_non_null(strstr(gate_fake_said.last, line));
    assert_non_null(strstr(gate_fake_said.last, "again on the CPU"));
    fake_device_heal();
    int64_t tokens = gate_live_stats(s).dev_tokens, graphs = fake_counts.graphs;
    gate_fake_answers_right(s);
    assert_int_equal(gate_live_stats(s).dev_tokens, tokens);
    assert_int_equal(fake_counts.graphs, graphs);
    bmoe_session_close(s);
}

static void one_that_computes_infinities(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there(true);
    gate_fake_answers_right(s);
    fake_faults.poison = true;
    gives_up_in_the_middle(s, "not finite");
}

/* The graphs the device computes for a request, as many parts as the model has on it; the first
 * request of a session may take more, for what is learned from it. */
static int graphs_of_a_request(struct bmoe_session *s, uint32_t prompt_bytes)
{
    unsigned before = 0;
    for (int i = 0; i < 2; i++) {
        struct gate_live live = {.prompt_bytes = prompt_bytes, .n_predict = 4};
        before = fake_counts.graphs;
        gate_live_succeed(s, &live);
        gate_live_fini(&live);
    }
    assert_true(fake_counts.graphs > before);
    return (int)(fake_counts.graphs - before);
}

static void one_that_fails_at_some_graph(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct bmoe_session *s = open_there(true);
        int n = graphs_of_a_request(s, GATE_FAKE_PROMPT_BYTES);
        const int after[] = {0, 1, n / 2, n - 1};
        fake_faults.fail_after = after[i];
        gives_up_in_the_middle(s, "failed on FAKE0");
    }
}

/* An op the device refuses is computed on the CPU, with its weight never on the device. */
static void one_that_refuses_an_op(void **state)
{
    (void)state;
    static const enum ggml_op ops[] = {GGML_OP_MUL,  GGML_OP_ADD,      GGML_OP_REPEAT,
                                       GGML_OP_ROPE, GGML_OP_RMS_NORM, GGML_OP_ARGSORT};
    for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        fake_faults.refuse_op = ops[i];
        struct bmoe_session *s = open_there(true);
        gate_fake_answers_right(s);
        gate_fake_answers_right(s);
        assert_int_equal(gate_fake_said.n_warnings, 0);
        assert_true(gate_live_stats(s).dev_tokens > 0);
        heal_and_close(s);
    }
}

/* Refused in some graph though not when asked before: the scheduler copies the weight from its slot
 * for the CPU, before it is there. Dense ones stay with the CPU from then on; for experts the
 * device is given up. */
static void one_that_refuses_dense_matmuls_in_narrow_graphs(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there(true);
    fake_faults.narrow_op = GGML_OP_MUL_MAT;
    fake_faults.narrow = GATE_FAKE_UBATCH;
    gate_fake_answers_right(s);
    gate_fake_answers_right(s);
    assert_int_equal(gate_fake_said.n_warnings, 0);
    assert_true(gate_live_stats(s).dev_cpu_matmuls > 0);
    heal_and_close(s);
}

static void one_that_refuses_experts_in_narrow_graphs(void **state)
{
    (void)state;
    static const enum bmoe_place places[] = {BMOE_PLACE_AUTO, BMOE_PLACE_NONE};
    for (int i = 0; i < 2; i++) {
        struct bmoe_session *s = open_placed(places[i]);
        fake_faults.narrow_op = GGML_OP_MUL_MAT_ID;
        fake_faults.narrow = GATE_FAKE_UBATCH;
        gives_up_in_the_middle(s, "the scheduler copies blk.");
    }
}

/* A type of dense matrices of layers that no expert matrix has; GGML_TYPE_COUNT: none. */
static enum ggml_type dense_type_only(const struct bmoe_session *s)
{
    enum ggml_type found = GGML_TYPE_COUNT;
    bool of_experts[GGML_TYPE_COUNT] = {false};
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++)
        if (graph_map_weight(s->map, i)->site != GRAPH_NONE)
            of_experts[graph_map_weight(s->map, i)->tensor->type] = true;
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++) {
        const struct graph_weight *w = graph_map_weight(s->map, i);
        if (w->uses == GRAPH_USE_MATRIX && !of_experts[w->tensor->type] &&
            strncmp(w->tensor->name, "blk.", 4) == 0)
            found = w->tensor->type;
    }
    return found;
}

/* A dense type it refuses, or multiplies wrong, is carried in another: not the same bits, but an
 * answer. */
static void carries_a_dense_type(bool wrong)
{
    struct bmoe_session *s = open_there(true);
    enum ggml_type type = dense_type_only(s);
    bmoe_session_close(s);
    if (type == GGML_TYPE_COUNT)
        skip();
    *(wrong ? &fake_faults.wrong_type : &fake_faults.refuse_type) = type;
    s = open_there(true);
    assert_int_equal(gate_fake_said.n_warnings, wrong);
    assert_true(!wrong ||
                strstr(gate_fake_said.last, "multiplies wrong from dense weights of type"));
    struct prefill_counters c;
    prefill_counters(session_prefill(s), &c);
    printf("  refused %s: %u carried, %u kept\n", ggml_type_name(type), c.n_carried, c.n_kept);
    assert_true(c.n_carried > 0);
    struct gate_live live = {.prompt_bytes = 180, .n_predict = 4};
    gate_live_succeed(s, &live);
    assert_int_equal(gate_fake_said.n_warnings, wrong);
    assert_int_equal(gate_live_stats(s).dev_cpu_matmuls, 0);
    gate_live_fini(&live);
    heal_and_close(s);
}

static void one_that_refuses_a_dense_type(void **state)
{
    (void)state;
    carries_a_dense_type(false);
}

static void one_that_multiplies_a_dense_type_wrong(void **state)
{
    (void)state;
    carries_a_dense_type(true);
}

/* A read that fails costs the graph and its request; the next one is right and on the device. */
static struct {
    int left; /* reads until all fail; negative: none does */
} io;

static ssize_t failing_pread(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    (void)ctx;
    int left = __atomic_load_n(&io.left, __ATOMIC_RELAXED);
    if (left == 0) {
        errno = EIO;
        return -1;
    }
    if (left > 0)
        __atomic_fetch_sub(&io.left, 1, __ATOMIC_RELAXED);
    return pread(fd, buf, bytes, offset);
}

static void a_failed_read_costs_one_request(void **state)
{
    (void)state;
    const struct pager_io calls = {.pread = failing_pread};
    __atomic_store_n(&io.left, -1, __ATOMIC_RELAXED);
    struct bmoe_session *s = open_with((struct session_hooks){.io = &calls}, true, BMOE_PLACE_AUTO);
    for (int i = 0; i < 3; i++) {
        struct gate_live live = {.prompt_bytes = 180, .n_predict = 4};
        pager_drop_all(session_pager(s));
        __atomic_store_n(&io.left, i * 5, __ATOMIC_RELAXED);
        gate_live_fail(s, &live, BMOE_E_IO);
        gate_live_fini(&live);
        __atomic_store_n(&io.left, -1, __ATOMIC_RELAXED);
        int64_t tokens = gate_live_stats(s).dev_tokens;
        gate_fake_answers_right(s);
        assert_true(gate_live_stats(s).dev_tokens > tokens);
    }
    bmoe_session_close(s);
}

/* Cancelled in the middle of device graphs, at many moments. */
static void cancel_now(struct gate_live *live, uint32_t done)
{
    if (done >= GATE_FAKE_UBATCH)
        bmoe_session_cancel(live->user);
}

static void a_cancel_costs_one_request(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there(true);
    struct gate_live live = {
        .prompt_bytes = 180, .n_predict = 4, .on_prefill = cancel_now, .user = s};
    gate_live_fail(s, &live, BMOE_E_CANCELLED);
    gate_live_fini(&live);
    assert_int_equal(gate_live_stats(s).dev_tokens, GATE_FAKE_UBATCH);
    gate_fake_answers_right(s);
    bmoe_session_close(s);
}

/* Cancelled after some part of a graph, with an op on the CPU whose indices come from the device:
 * what the scheduler computes of later parts must not trip over indices that were never computed.
 */
static struct {
    struct bmoe_session *s;
    int left;
} canceller;

static void cancel_after(void *user)
{
    (void)user;
    if (canceller.left-- == 0)
        bmoe_session_cancel(canceller.s);
}

static void a_cancel_in_the_middle_of_a_graph(void **state)
{
    (void)state;
    static const enum ggml_op ops[] = {GGML_OP_NONE, GGML_OP_GET_ROWS, GGML_OP_ARGSORT};
    for (unsigned op = 0; op < sizeof ops / sizeof ops[0]; op++) {
        fake_faults.refuse_op = ops[op];
        struct bmoe_session *s = open_there(true);
        int n = graphs_of_a_request(s, 180);
        for (int after = 0; after < n; after += 1 + after / 2) {
            struct gate_live live = {.prompt_bytes = 180, .n_predict = 4};
            canceller.s = s;
            canceller.left = after;
            fake_faults.on_graph = cancel_after;
            gate_live_fail(s, &live, BMOE_E_CANCELLED);
            gate_live_fini(&live);
            fake_faults.on_graph = NULL;
        }
        gate_fake_answers_right(s);
        assert_int_equal(gate_fake_said.n_warnings, 0);
        heal_and_close(s);
    }
}

/* The pager is emptied all the time while experts are lent for copies. */
static void evictions_while_the_arena_loads(void **state)
{
    (void)state;
    static const enum bmoe_place places[] = {BMOE_PLACE_AUTO, BMOE_PLACE_COPY, BMOE_PLACE_NONE};
    for (int i = 0; i < 3; i++) {
        struct bmoe_session *s = open_placed(places[i]);
        gate_fake_answers_right(s);
        int64_t evictions = gate_live_stats(s).evictions, lent = gate_live_stats(s).dev_host_bytes;
        gate_live_evict_begin(s);
        for (int k = 0; k < 3 || (k < 50 && gate_live_stats(s).dev_host_bytes == lent); k++)
            gate_fake_answers_right(s);
        gate_live_evict_end();
        struct bmoe_stats t = gate_live_stats(s);
        printf("  %lld evictions, %lld bytes copied from residents, %lld read\n",
               (long long)(t.evictions - evictions), (long long)t.dev_host_bytes,
               (long long)t.dev_read_bytes);
        assert_true(t.evictions > evictions);
        assert_true(t.dev_host_bytes > lent && t.dev_read_bytes > 0);
        assert_int_equal(gate_fake_said.n_warnings, 0);
        bmoe_session_close(s);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, gate_fake_heal)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_fault_it_is_right),
        TEST(one_that_does_not_open),
        TEST(one_that_refuses_the_experts),
        TEST(one_that_pads_experts_unevenly),
        TEST(one_that_pads_behind_the_experts),
        TEST(one_with_little_memory),
        TEST(one_that_computes_infinities),
        TEST(one_that_fails_at_some_graph),
        TEST(one_that_refuses_an_op),
        TEST(one_that_refuses_a_dense_type),
        TEST(a_failed_read_costs_one_request),
        TEST(a_cancel_costs_one_request),
        TEST(one_that_refuses_dense_matmuls_in_narrow_graphs),
        TEST(one_that_refuses_experts_in_narrow_graphs),
        TEST(one_that_multiplies_experts_wrong),
        TEST(one_that_multiplies_a_dense_type_wrong),
        TEST(a_cancel_in_the_middle_of_a_graph),
        TEST(evictions_while_the_arena_loads),
    };
    device = gate_fake_open(argc, argv, &model);
    return device ? cmocka_run_group_tests(tests, gate_fake_learn, gate_fake_forget) : 2;
}
