/*
 * Prefill on a device of weights that the CPU keeps in its own layout: gate_device_repacked MODEL.
 * What is resident comes to the device from memory, back in the file's layout, and a dense type it
 * refuses is converted from there.
 */
#include "gate_fake.h"
#include "gate_live.h"

#include "engine/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { UBATCH = 64 };

static const char *model;
static ggml_backend_dev_t device;

static struct bmoe_session *open_there(bool repack, bool streamed)
{
    struct gate_case c;
    struct session_hooks hooks = {.device = device};
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = UBATCH;
    c.repack = repack;
    c.budget = GATE_BUDGET_ALL;
    c.prefill_dense = BMOE_PREFILL_DENSE_SLOTS;
    return gate_live_open(&c, streamed, &hooks);
}

/* Whether some layer weight is in a layout of the CPU's, and the output head is not. */
static bool layers_are_repacked(const struct bmoe_session *s)
{
    bool layers = false, head = false;
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++) {
        const struct weight *w = weights_get(s->weights, i);
        bool repacked = w && w->traits;
        if (strncmp(graph_map_weight(s->map, i)->tensor->name, "blk.", 4) == 0)
            layers |= repacked;
        else
            head |= repacked;
    }
    return layers && !head;
}

/* The same row as from the file's own layout: of a prompt that reads all, and of one after it that
 * finds much in memory. All of it when the session is resident. */
static void memory_is_the_file(void **state)
{
    (void)state;
    struct gate_live plain = {.prompt_bytes = 180, .n_predict = 1};
    struct bmoe_session *s = open_there(false, true);
    gate_live_succeed(s, &plain);
    bmoe_session_close(s);
    for (int streamed = 0; streamed < 2; streamed++) {
        s = open_there(true, streamed);
        if (graph_map_n_sites(s->map) == 0 || !layers_are_repacked(s)) {
            bmoe_session_close(s);
            gate_live_fini(&plain);
            skip();
        }
        int64_t read[2], host[2];
        for (int i = 0; i < 2; i++) {
            struct gate_live live = {.prompt_bytes = 180, .n_predict = 1},
                             answer = {.prompt_bytes = 180, .n_predict = 24};
            struct bmoe_stats before = gate_live_stats(s);
            gate_live_succeed(s, &live);
            gate_live_same(&plain, &live);
            gate_live_fini(&live);
            read[i] = gate_live_stats(s).dev_read_bytes - before.dev_read_bytes;
            host[i] = gate_live_stats(s).dev_host_bytes - before.dev_host_bytes;
            gate_live_succeed(s, &answer); /* decode brings experts to memory */
            gate_live_fini(&answer);
        }
        printf("  %s: %lld bytes read, then %lld and %lld from memory\n",
               streamed ? "streamed" : "resident", (long long)read[0], (long long)read[1],
               (long long)host[1]);
        assert_true(gate_live_stats(s).dev_dense_bytes > 0);
        assert_int_equal(gate_live_stats(s).dev_cpu_matmuls, 0);
        assert_true(host[1] > 0 && (streamed ? read[1] < read[0] : read[0] + read[1] == 0));
        bmoe_session_close(s);
    }
    gate_live_fini(&plain);
}

/* A type of dense layer matrices that no expert matrix has; GGML_TYPE_COUNT: none. */
static enum ggml_type dense_type_only(const struct bmoe_session *s)
{
    bool of_experts[GGML_TYPE_COUNT] = {false};
    enum ggml_type found = GGML_TYPE_COUNT;
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++)
        if (graph_map_weight(s->map, i)->site != GRAPH_NONE)
            of_experts[graph_map_weight(s->map, i)->tensor->type] = true;
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++) {
        const struct graph_weight *g = graph_map_weight(s->map, i);
        if (g->uses == GRAPH_USE_MATRIX && !of_experts[g->tensor->type] &&
            ggml_is_quantized(g->tensor->type) && strncmp(g->tensor->name, "blk.", 4) == 0)
            found = g->tensor->type;
    }
    return found;
}

/* Of pieces that are too narrow for the device. */
static double narrow_perplexity(struct bmoe_session *s)
{
    int64_t before = gate_live_stats(s).dev_tokens;
    double ppl = gate_live_perplexity(s, 100, 24, 0);
    assert_int_equal(gate_live_stats(s).dev_tokens, before);
    return ppl;
}

/* Converted from whatever memory has, or from the disk: the blocks of a model without experts are
 * in no place for good. What the CPU computes is as without. */
static void a_refused_type_is_carried(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there(true, true);
    enum ggml_type type = dense_type_only(s);
    double here = narrow_perplexity(s);
    bmoe_session_close(s);
    if (type == GGML_TYPE_COUNT)
        skip();
    fake_faults.refuse_type = type;
    s = open_there(true, true);
    struct prefill_counters c;
    prefill_counters(session_prefill(s), &c);
    printf("  refused %s: %u carried, %u kept\n", ggml_type_name(type), c.n_carried, c.n_kept);
    assert_true(c.n_carried > 0);
    assert_int_equal(c.n_kept, 0);
    assert_true(c.host_bytes <= s->plan.device);
    struct gate_live live = {.prompt_bytes = 180, .n_predict = 4};
    gate_live_succeed(s, &live);
    assert_true(gate_live_stats(s).dev_tokens > 0);
    assert_int_equal(gate_live_stats(s).dev_cpu_matmuls, 0);
    gate_live_fini(&live);
    double there = narrow_perplexity(s);
    fake_device_heal();
    bmoe_session_close(s);
    assert_memory_equal(&there, &here, sizeof there);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(memory_is_the_file, gate_fake_heal),
        cmocka_unit_test_setup(a_refused_type_is_carried, gate_fake_heal),
    };
    device = gate_fake_open(argc, argv, &model);
    return device ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
