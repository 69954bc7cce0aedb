/*
 * Several requests on one session: gate_requests MODEL ANY_SHARD LEAST_REUSED. Streamed at the
 * floor in every mode of placing, each request must give the rows that a resident session gives,
 * whatever happened before it: another answer, a kept prefix, a cancel from another thread, a
 * perplexity.
 */
#include "gate_live.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *model, *any_shard;
static unsigned least_reused; /* tokens; a recurrent memory cannot be cut, so nothing of it is */

static const enum bmoe_place places[] = {BMOE_PLACE_MOVE, BMOE_PLACE_COPY, BMOE_PLACE_NONE};

enum { N_PLACES = sizeof places / sizeof places[0] };

static void make_case(struct gate_case *c, enum bmoe_place place)
{
    gate_case_init(c);
    c->model = model;
    c->repack = true;
    c->budget = GATE_BUDGET_FLOOR;
    c->n_ubatch = 64;
    c->place = place;
}

/* Two prompts, the first one again, and one that begins with it and keeps its memory. */
static void requests_follow_each_other(void **state)
{
    (void)state;
    struct gate_live right[4] = {{.prompt_bytes = 150, .n_predict = 12},
                                 {.from = 1000, .prompt_bytes = 100, .n_predict = 12},
                                 {.prompt_bytes = 150, .n_predict = 12},
                                 {.prompt_bytes = 170, .n_predict = 12, .keep_kv = true}};
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    for (int i = 0; i < 4; i++)
        gate_live_succeed(s, &right[i]);
    bmoe_session_close(s);
    gate_live_same(&right[0], &right[2]);
    assert_true(right[3].result.n_reused >= least_reused);
    for (int p = 0; p < N_PLACES; p++) {
        make_case(&c, places[p]);
        s = gate_live_open(&c, true, NULL);
        for (int i = 0; i < 4; i++) {
            struct gate_live live = right[i];
            live.rows = (struct gate_rows){.fd = -1};
            gate_live_succeed(s, &live);
            gate_live_same(&right[i], &live);
            assert_int_equal(live.result.n_reused, right[i].result.n_reused);
            gate_live_fini(&live);
        }
        bmoe_session_close(s);
    }
    for (int i = 0; i < 4; i++)
        gate_live_fini(&right[i]);
}

/* A thread that cancels when told. */
struct canceller {
    struct bmoe_session *s;
    pthread_t thread;
    sem_t go, done;
    uint32_t at; /* prompt tokens, or rows, after which to cancel */
    bool told;
};

static void *cancel(void *arg)
{
    struct canceller *c = arg;
    sem_wait(&c->go);
    bmoe_session_cancel(c->s);
    sem_post(&c->done);
    return NULL;
}

static void canceller_begin(struct canceller *c, struct bmoe_session *s, uint32_t at)
{
    *c = (struct canceller){.s = s, .at = at};
    sem_init(&c->go, 0, 0);
    sem_init(&c->done, 0, 0);
    assert_int_equal(pthread_create(&c->thread, NULL, cancel, c), 0);
}

static void canceller_end(struct canceller *c)
{
    assert_true(c->told);
    pthread_join(c->thread, NULL);
    sem_destroy(&c->go);
    sem_destroy(&c->done);
}

static void tell(struct gate_live *live, uint32_t n)
{
    struct canceller *c = live->user;
    if (c->told || n < c->at)
        return;
    c->told = true;
    sem_post(&c->go);
    sem_wait(&c->done);
}

static void cancel_and_go_on(struct bmoe_session *s, const struct gate_live *right, bool prefill)
{
    struct canceller c;
    struct gate_live cut = {.prompt_bytes = 300, .n_predict = 12, .user = &c};
    canceller_begin(&c, s, prefill ? 128 : 5);
    cut.on_prefill = prefill ? tell : NULL;
    cut.on_row = prefill ? NULL : tell;
    gate_live_fail(s, &cut, BMOE_E_CANCELLED);
    canceller_end(&c);
    assert_true(cut.result.cancelled);
    assert_int_equal(cut.rows.n_rows, prefill ? 0 : 5);
    gate_live_fini(&cut);
    struct gate_live live = *right;
    live.rows = (struct gate_rows){.fd = -1};
    gate_live_succeed(s, &live);
    gate_live_same(right, &live);
    gate_live_fini(&live);
}

static void cancel_costs_one_request(void **state)
{
    (void)state;
    struct gate_live right = {.prompt_bytes = 150, .n_predict = 12};
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    for (int p = 0; p < N_PLACES; p++) {
        make_case(&c, places[p]);
        struct bmoe_session *s = gate_live_open(&c, true, NULL);
        cancel_and_go_on(s, &right, true);
        cancel_and_go_on(s, &right, false);
        bmoe_session_close(s);
    }
    gate_live_fini(&right);
}

/* A cancel at any moment, also in the middle of a graph. */
static void *cancel_now(void *arg)
{
    struct canceller *c = arg;
    for (uint32_t i = 0; i < c->at; i++)
        sched_yield();
    bmoe_session_cancel(c->s);
    return NULL;
}

static void cancel_at_any_moment(void **state)
{
    (void)state;
    struct gate_live right = {.prompt_bytes = 100, .n_predict = 6};
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    struct bmoe_session *s = gate_live_open(&c, true, NULL);
    for (uint32_t i = 0; i < 12; i++) {
        struct canceller canceller = {.s = s, .at = i * i * 20};
        struct gate_live cut = {.prompt_bytes = 100, .n_predict = 6};
        assert_int_equal(pthread_create(&canceller.thread, NULL, cancel_now, &canceller), 0);
        int rc = gate_live_run(s, &cut);
        pthread_join(canceller.thread, NULL);
        assert_true(rc == BMOE_OK || rc == BMOE_E_CANCELLED);
        if (rc == BMOE_OK)
            gate_live_same(&right, &cut);
        gate_live_fini(&cut);
    }
    struct gate_live live = {.prompt_bytes = 100, .n_predict = 6};
    gate_live_succeed(s, &live);
    gate_live_same(&right, &live);
    gate_live_fini(&live);
    gate_live_fini(&right);
    bmoe_session_close(s);
}

/* What one long graph tells of itself. */
struct told {
    uint32_t n, last;
};

static void count(struct gate_live *live, uint32_t done)
{
    struct told *t = live->user;
    assert_true(done >= t->last);
    t->last = done;
    t->n++;
}

static void a_long_graph_tells_how_far_it_is(void **state)
{
    (void)state;
    struct session_hooks hooks = {.tell_at_once = true};
    struct gate_live quiet = {.prompt_bytes = 150, .n_predict = 4, .quiet = true};
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    c.n_ubatch = 512; /* the prompt is one graph */
    gate_live_reference(&c, &quiet);
    for (int streamed = 0; streamed < 2; streamed++) {
        struct told told = {0};
        struct gate_live loud = {
            .prompt_bytes = 150, .n_predict = 4, .on_prefill = count, .user = &told};
        struct bmoe_session *s = gate_live_open(&c, streamed, &hooks);
        gate_live_succeed(s, &loud);
        gate_live_same(&quiet, &loud);
        assert_int_equal(told.last, loud.result.n_prompt);
        assert_true(told.n > 3); /* 2: before and after */
        gate_live_fini(&loud);
        bmoe_session_close(s);
    }
    gate_live_fini(&quiet);
}

static void any_shard_names_the_set(void **state)
{
    (void)state;
    struct gate_live right = {.prompt_bytes = 100, .n_predict = 4}, live = right;
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    c.model = any_shard;
    gate_live_reference(&c, &live);
    gate_live_same(&right, &live);
    gate_live_fini(&right);
    gate_live_fini(&live);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_follow_each_other),
        cmocka_unit_test(cancel_costs_one_request),
        cmocka_unit_test(cancel_at_any_moment),
        cmocka_unit_test(a_long_graph_tells_how_far_it_is),
        cmocka_unit_test(any_shard_names_the_set),
    };
    if (argc != 4)
        return 2;
    model = argv[1];
    any_shard = argv[2];
    least_reused = (unsigned)strtoul(argv[3], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
