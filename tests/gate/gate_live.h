/*
 * Requests on sessions of this process, for gates that do more with a session than run one case.
 * Rows go to the anonymous files of gate_rows.h. Every helper asserts what must hold by cmocka, so
 * a test reads as the story of its session.
 */
#ifndef GATE_LIVE_H
#define GATE_LIVE_H

#include "engine/session_hooks.h"
#include "gate_case.h"
#include "gate_rows.h"

/* What a request asks for and what came of it. */
struct gate_live {
    uint32_t from, prompt_bytes; /* of gate_text; from > 0: another text */
    uint32_t n_predict;
    bool keep_kv;
    bool quiet; /* the session is not asked for its progress */
    /* Called after each prompt piece and now and then within one, and after each row; NULL: not. */
    void (*on_prefill)(struct gate_live *live, uint32_t done);
    void (*on_row)(struct gate_live *live, uint32_t n_rows);
    void *user;

    struct gate_rows rows;
    struct bmoe_result result;
    struct bmoe_error err;
};

/* A session of the case, streamed with the budget that its words mean, or resident. */
struct bmoe_session *gate_live_open(const struct gate_case *c, bool streamed,
                                    const struct session_hooks *hooks);

/* Runs the request; answers its code. The rows of the last run are dropped first. */
int gate_live_run(struct bmoe_session *s, struct gate_live *live);
/* The same, which must succeed. */
void gate_live_succeed(struct bmoe_session *s, struct gate_live *live);
/* The same, which must fail with this code and leave the session usable. */
void gate_live_fail(struct bmoe_session *s, struct gate_live *live, int code);
/* Both must hold the same rows. */
void gate_live_same(const struct gate_live *a, const struct gate_live *b);
void gate_live_fini(struct gate_live *live);

struct bmoe_stats gate_live_stats(struct bmoe_session *s);
/* Of so many bytes of gate_text; chunk, skip: as in struct bmoe_perplexity. */
double gate_live_perplexity(struct bmoe_session *s, uint32_t bytes, uint32_t chunk, uint32_t skip);

/* In between a thread empties the session's pager again and again. Pairs; one session at a time. */
void gate_live_evict_begin(struct bmoe_session *s);
void gate_live_evict_end(void);

/* A request that must succeed, on a session of its own: the rows that are right. */
void gate_live_reference(const struct gate_case *c, struct gate_live *live);

#endif
