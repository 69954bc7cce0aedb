/*
 * A session driven by another program, from within: what run_session.c (the loop), live_answer.c
 * (generate), live_decide.c (decide) and live_lines.c (their lines) share. One thread; the reader
 * thread only calls live_error.
 */
#ifndef BMOE_CLI_LIVE_H
#define BMOE_CLI_LIVE_H

#include "dialogue.h"
#include "line_writer.h"
#include "run.h"
#include "session_reader.h"
#include "turn.h"

/* Version of the lines; grows when something that was there changes its meaning. */
enum { LIVE_PROTOCOL = 1 };

struct live {
    struct run *run;
    struct line_writer out;
    struct session_reader in;
    struct bmoe_info info;
    struct dialogue said; /* the conversation that clear_kv = false goes on with */
    struct chat chat;     /* where can_chat */
    bool can_chat;
    const char *think_ctl;
};

/* ---- live_lines.c: each writes one line; false when it is not out ---- */
bool live_ready(struct live *l);
bool live_begin(struct live *l, const struct request *r);
bool live_error(struct live *l, int64_t id, const char *code, enum bmoe_scope scope,
                const char *text);
/* An error of the library or of ours, as it lies in *err. */
bool live_failed(struct live *l, const struct request *r, const struct bmoe_error *err);
bool live_stats(struct live *l, const struct request *r);
bool live_prefill(struct live *l, const struct request *r, uint32_t tokens_done,
                  uint32_t tokens_total, double wall_ms);

/* One token of an answer. Texts are what is new since the last such line. */
struct live_token {
    uint32_t step;
    const struct token_costs *costs;
    const char *reasoning, *text;
    size_t reasoning_bytes, text_bytes;
};
bool live_progress(struct live *l, const struct request *r, const struct live_token *token);

/* A finished answer. */
struct live_done {
    bool cancelled;
    uint32_t n_dropped; /* messages that fit_ctx left out */
    const char *reasoning, *text;
    size_t reasoning_bytes, text_bytes;
};
bool live_write_done(struct live *l, const struct request *r, const struct turn *turn,
                     const struct live_done *done);

/* A finished decision. */
bool live_write_decide(struct live *l, const struct request *r,
                       const struct bmoe_decide_result *result, const struct bmoe_stats *before,
                       const struct bmoe_stats *after);

/* True when the request is to end: cancelled, a signal, or nobody reads. Makes sure that the
 * library knows. For the request's callbacks. */
bool live_interrupted(struct live *l, const struct request *r);

/* Requests. Each answers 0 when the session goes on, else a negative code with *err set. */
int live_generate(struct live *l, const struct request *r, struct bmoe_error *err);
int live_decide(struct live *l, const struct request *r, struct bmoe_error *err);

#endif
