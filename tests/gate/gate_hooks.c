/*
 * What the hooks make of a graph: gate_hooks MODEL. A weight that the capture missed is bound on
 * sight; a routing that is not recognised costs time where a fault serves, and the request where
 * none does; matmuls that need not be waited for are joined. Never zeros, never other bits.
 */
#include "gate_live.h"

#include "engine/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *model;

static void make_case(struct gate_case *c, enum bmoe_place place)
{
    gate_case_init(c);
    c->model = model;
    c->budget = GATE_BUDGET_EIGHTH;
    c->place = place;
}

/* One weight of each kind, in each mode: of an expert matrix, a dense matrix, a norm, a table. */
static void a_missed_weight_is_bound_late(void **state)
{
    static const char *const names[] = {"blk.1.ffn_up_exps.weight",  "blk.0.attn_q.weight",
                                        "blk.1.ffn_norm.weight",     "token_embd.weight",
                                        "blk.2.ffn_gate_inp.weight", "output.weight"};
    (void)state;
    struct gate_case c;
    struct gate_live right = {.prompt_bytes = 60, .n_predict = 6}, live = right;
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
            struct session_hooks hooks = {.hide_weight = names[i]};
            struct stream_counters seen;
            struct bmoe_stats stats = {.size = sizeof stats};
            make_case(&c, place);
            struct bmoe_session *s = gate_live_open(&c, true, &hooks);
            gate_live_succeed(s, &live);
            gate_live_same(&right, &live);
            stream_counters(s->stream, &seen);
            assert_int_equal(seen.late_weights, 1);
            bmoe_session_stats(s, &stats);
            assert_int_equal(stats.mapping_faults, 0);
            bmoe_session_close(s);
        }
    }
    gate_live_fini(&live);
    gate_live_fini(&right);
}

static void a_missed_routing_is_slow_with_faults(void **state)
{
    (void)state;
    struct gate_case c;
    struct gate_live right = {.prompt_bytes = 60, .n_predict = 6}, live = right;
    struct session_hooks hooks = {.hide_routing = true};
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct bmoe_stats stats = {.size = sizeof stats};
        make_case(&c, place);
        struct bmoe_session *s = gate_live_open(&c, true, &hooks);
        gate_live_succeed(s, &live);
        gate_live_same(&right, &live);
        bmoe_session_stats(s, &stats);
        assert_true(stats.faults > 0);
        assert_int_equal(stats.hits + stats.misses, 0);
        bmoe_session_close(s);
    }
    gate_live_fini(&live);
    gate_live_fini(&right);
}

static void a_missed_routing_fails_without_faults(void **state)
{
    (void)state;
    struct gate_case c;
    struct gate_live live = {.prompt_bytes = 60, .n_predict = 6};
    struct session_hooks hooks = {.hide_routing = true};
    make_case(&c, BMOE_PLACE_NONE);
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    for (int i = 0; i < 2; i++) {
        gate_live_fail(s, &live, BMOE_E_SEAM);
        assert_int_equal(live.rows.n_rows, 0);
        assert_non_null(strstr(live.err.text, "was not seen"));
        assert_non_null(strstr(live.err.text, "userfaultfd"));
    }
    bmoe_session_close(s);
    gate_live_fini(&live);
}

/* Where all of a site's experts are there, its matmuls are computed in one go. */
static void matmuls_that_need_no_wait_are_joined(void **state)
{
    static const enum gate_budget budgets[] = {GATE_BUDGET_FLOOR, GATE_BUDGET_HALF,
                                               GATE_BUDGET_ALL};
    (void)state;
    struct gate_case c;
    struct gate_live right = {.prompt_bytes = 60, .n_predict = 12}, live = right;
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    for (unsigned i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        struct stream_counters seen;
        make_case(&c, BMOE_PLACE_NONE);
        c.budget = budgets[i];
        struct bmoe_session *s = gate_live_open(&c, true, NULL);
        gate_live_succeed(s, &live);
        gate_live_same(&right, &live);
        stream_counters(s->stream, &seen);
        assert_true(seen.matmuls_waited > seen.matmuls_joined);
        if (c.budget == GATE_BUDGET_ALL)
            assert_true(seen.matmuls_joined > seen.matmuls_waited / 4);
        bmoe_session_close(s);
    }
    gate_live_fini(&live);
    gate_live_fini(&right);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missed_weight_is_bound_late),
        cmocka_unit_test(a_missed_routing_is_slow_with_faults),
        cmocka_unit_test(a_missed_routing_fails_without_faults),
        cmocka_unit_test(matmuls_that_need_no_wait_are_joined),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
