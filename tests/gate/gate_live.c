/* The last session opened by gate_live_reference is closed before it answers, so at most those that
 * a test itself holds are open. */
#include "gate_live.h"

#include "gate_text.h"

#include "pager/pager.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void on_log(void *user, enum bmoe_log_level level, const char *line)
{
    (void)user;
    if (level == BMOE_LOG_WARN)
        fprintf(stderr, "bmoe: %s\n", line);
}

static struct bmoe_session *open_with(const struct bmoe_options *o,
                                      const struct session_hooks *hooks)
{
    struct bmoe_session *s = NULL;
    struct bmoe_error err = {0};
    if (session_open_hooked(&s, o, hooks, &err) < 0)
        fail_msg("open: %d %s", err.code, err.text);
    return s;
}

struct bmoe_session *gate_live_open(const struct gate_case *c, bool streamed,
                                    const struct session_hooks *hooks)
{
    struct bmoe_options o;
    struct bmoe_info info = {.size = sizeof info};
    gate_case_options(c, streamed, &o);
    if (streamed && c->budget != GATE_BUDGET_ALL && !c->budget_bytes) {
        struct bmoe_session *probe = open_with(&o, NULL);
        bmoe_session_describe(probe, &info);
        o.cache_bytes = gate_case_budget(c, info.expert_bytes, info.floor_bytes);
        bmoe_session_close(probe);
    }
    o.log = on_log;
    return open_with(&o, hooks);
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct gate_live *live = user;
    (void)prompt;
    assert_true(gate_rows_add(&live->rows, logits, n_vocab));
    if (live->on_row)
        live->on_row(live, live->rows.n_rows);
}

static void on_prefill(void *user, uint32_t done, uint32_t total)
{
    struct gate_live *live = user;
    (void)total;
    if (live->on_prefill)
        live->on_prefill(live, done);
}

int gate_live_run(struct bmoe_session *s, struct gate_live *live)
{
    struct bmoe_generate g;
    gate_live_fini(live);
    assert_true(gate_rows_open(&live->rows));
    bmoe_generate_init(&g);
    g.prompt = gate_text(live->from + live->prompt_bytes) + live->from;
    g.prompt_bytes = live->prompt_bytes;
    g.n_predict = live->n_predict;
    g.ignore_eos = true;
    g.keep_kv = live->keep_kv;
    g.sampling =
        (struct bmoe_sampling){.temp = 1, .top_p = 1, .repeat_penalty = 1, .seed = GATE_SEED};
    g.on_logits = on_logits;
    g.on_prefill = live->quiet ? NULL : on_prefill;
    g.user = live;
    live->result = (struct bmoe_result){.size = sizeof live->result};
    live->err = (struct bmoe_error){0};
    int rc = bmoe_session_generate(s, &g, &live->result, &live->err);
    assert_int_equal(rc, live->err.code);
    return rc;
}

void gate_live_succeed(struct bmoe_session *s, struct gate_live *live)
{
    if (gate_live_run(s, live) != BMOE_OK)
        fail_msg("a request that must succeed: %d %s", live->err.code, live->err.text);
    assert_int_equal(live->rows.n_rows, live->n_predict);
    assert_int_equal(live->result.n_predicted, live->n_predict);
}

void gate_live_fail(struct bmoe_session *s, struct gate_live *live, int code)
{
    int rc = gate_live_run(s, live);
    if (rc != code)
        fail_msg("a request that must fail with %d: %d %s", code, rc, live->err.text);
    assert_int_equal(live->err.scope, BMOE_SCOPE_REQUEST);
    assert_true(live->err.text[0] != '\0');
    assert_null(strchr(live->err.text, '\n'));
}

void gate_live_same(const struct gate_live *a, const struct gate_live *b)
{
    char said[256];
    if (!gate_rows_equal(&a->rows, &b->rows, said, sizeof said))
        fail_msg("%s", said);
}

void gate_live_fini(struct gate_live *live)
{
    if (live->rows.fd > 0)
        gate_rows_close(&live->rows);
    live->rows = (struct gate_rows){.fd = -1};
}

struct bmoe_stats gate_live_stats(struct bmoe_session *s)
{
    struct bmoe_stats stats = {.size = sizeof stats};
    bmoe_session_stats(s, &stats);
    return stats;
}

double gate_live_perplexity(struct bmoe_session *s, uint32_t bytes, uint32_t chunk, uint32_t skip)
{
    struct bmoe_perplexity p = {.size = sizeof p,
                                .text = gate_text(bytes),
                                .text_bytes = bytes,
                                .chunk = chunk,
                                .skip = skip};
    struct bmoe_perplexity_result r = {.size = sizeof r};
    struct bmoe_error err;
    if (bmoe_session_perplexity(s, &p, &r, &err) < 0)
        fail_msg("perplexity: %s", err.text);
    return r.ppl;
}

void gate_live_reference(const struct gate_case *c, struct gate_live *live)
{
    struct bmoe_session *s = gate_live_open(c, false, NULL);
    gate_live_succeed(s, live);
    bmoe_session_close(s);
}

static struct {
    struct pager *pager;
    pthread_t thread;
    atomic_bool stop;
} evictor;

static void *evict_on_and_on(void *arg)
{
    (void)arg;
    /* 1 to 64 ms apart: within a graph, and seldom enough that some experts are lent. */
    for (unsigned i = 0; !atomic_load_explicit(&evictor.stop, memory_order_relaxed); i++) {
        pager_drop_all(evictor.pager);
        usleep(1000u << i % 7);
    }
    return NULL;
}

void gate_live_evict_begin(struct bmoe_session *s)
{
    evictor.pager = session_pager(s);
    atomic_store(&evictor.stop, false);
    assert_int_equal(pthread_create(&evictor.thread, NULL, evict_on_and_on, NULL), 0);
}

void gate_live_evict_end(void)
{
    atomic_store(&evictor.stop, true);
    pthread_join(evictor.thread, NULL);
}
