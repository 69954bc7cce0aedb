/*
 * What one answer costs, token by token: the session's counters and the clock read around each
 * decode. The figures of a token are those of the decode that made it; the first token of an answer
 * comes from the prefill, so its are zero. Used by the thread that runs the request.
 */
#ifndef BMOE_CLI_METER_H
#define BMOE_CLI_METER_H

#include "bmoe.h"

/* Milliseconds, bytes and counts of one decode; -1 where it is not measured. */
struct token_costs {
    double wall_ms;
    double io_ms;       /* in read calls, summed over readers */
    double mgmt_ms;     /* carrying, placing and taking back, summed over readers */
    double stall_ms;    /* a compute thread's share of the waits for experts */
    double compute_ms;  /* wall without stall */
    double cpu_ms;      /* of the process, all threads */
    double overhead_ms; /* between two decodes: choosing and writing the token */
    double hit_pct;     /* of the session so far */
    int64_t read_bytes, majflt, budget_bytes, resident_bytes;
    int64_t hits, misses, faults, evictions, rereads;
    int64_t n_computed; /* tokens */
};

struct meter {
    struct bmoe_session *session;
    struct bmoe_info info;
    struct bmoe_stats before, prompt_done, after; /* around the request and its prefill */
    struct bmoe_stats from, to;                   /* around the last decode */
    int64_t from_us, to_us, told_us;
    bool decoded;           /* from..to is a decode whose token has not been told */
    uint32_t n_tokens;      /* told, or rows of meter_span */
    uint32_t n_decodes;     /* measured */
    struct token_costs sum; /* of them; hit_pct and budget_bytes are the last ones */
};

/* Before the request. */
void meter_begin(struct meter *m, struct bmoe_session *session);
/* From the request's on_logits. */
void meter_logits(struct meter *m, bool prompt);
/* From its on_token: the costs of that token. */
void meter_token(struct meter *m, struct token_costs *out);
/* Instead of these two, for work that is prompts only: the costs since the last call, or since the
 * begin. */
void meter_span(struct meter *m, struct token_costs *out);
/* After the request. */
void meter_end(struct meter *m);

/* What a time, a wait of threads, and a hit rate are between two readings; -1: not measured. */
double meter_io_ms(const struct bmoe_stats *from, const struct bmoe_stats *to);
double meter_mgmt_ms(const struct bmoe_stats *from, const struct bmoe_stats *to);
double meter_stall_ms(const struct bmoe_stats *from, const struct bmoe_stats *to,
                      uint32_t n_threads);
double meter_hit_pct(const struct bmoe_stats *stats);

#endif
