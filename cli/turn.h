/*
 * The figures of one finished answer: a list of keys with their formulas, and after them every
 * counter of the list (counter_table.h) with the part that the answer had in it. BMOE_DONE, the
 * trailer of a CSV file, the summary line and the tables of docs/protocol.md are made of these two
 * lists.
 *
 * In a formula t is a const struct turn *, m its meter and r its result. A negative value means:
 * not measured.
 */
#ifndef BMOE_CLI_TURN_H
#define BMOE_CLI_TURN_H

#include "counter_table.h"
#include "meter.h"

#include <jansson.h>

struct turn {
    const struct meter *meter;
    const struct bmoe_result *result;
};

enum figure_type { FIGURE_INT, FIGURE_REAL };

/* clang-format off */
/* X(key, type, unit, formula, meaning, brief); brief as in bmoe_counters.h */
#define TURN_FIGURES(X)                                                                            \
    X(n_prompt, INT, "count", turn_prompt(t),                                                      \
      "prompt tokens computed for this answer", "prompt % tokens")                                 \
    X(prefill_tps, REAL, "1/s", turn_rate((double)turn_prompt(t), r->prefill_s),                   \
      "prompt tokens computed per second", " at % tok/s")                                          \
    X(n_reused, INT, "count", r->n_reused,                                                         \
      "prompt tokens that were there from before", "% reused")                                     \
    X(tokens, INT, "count", r->n_predicted, "tokens of the answer", "decode % tokens")             \
    X(tok_s, REAL, "1/s", turn_rate(m->n_decodes, m->sum.wall_ms / 1e3),                           \
      "decoded tokens per second of decoding, without prefill, choosing and writing", " at % tok/s")\
    X(load_s, REAL, "s", m->info.load_s, "opening the model", "load % s")                          \
    X(first_token_s, REAL, "s", r->first_token_s > 0 ? r->first_token_s : -1,                      \
      "from the request to its first token", "first token % s")                                    \
    X(cache_hit_pct, REAL, "%", meter_hit_pct(&m->after),                                          \
      "experts that were there when they were wanted, since the session opened", "hits % %")       \
    X(n_past, INT, "count", r->n_past, "tokens the context holds afterwards", NULL)                \
    X(compute_s_tok, REAL, "s", turn_per_decode(t, m->sum.compute_ms),                             \
      "per decoded token: wall time without stall", NULL)                                          \
    X(io_s_tok, REAL, "s", turn_per_decode(t, m->sum.io_ms),                                       \
      "per decoded token: time in read calls, summed over readers", NULL)                          \
    X(stall_s_tok, REAL, "s", turn_per_decode(t, m->sum.stall_ms),                                 \
      "per decoded token: a compute thread's share of the waits for experts", NULL)                \
    X(mgmt_s_tok, REAL, "s", turn_per_decode(t, m->sum.mgmt_ms),                                   \
      "per decoded token: carrying, placing and taking back, summed over readers", NULL)           \
    X(majflt_tok, REAL, "count", turn_per_decode(t, (double)m->sum.majflt * 1e3),                  \
      "per decoded token: major page faults of the process", NULL)                                 \
    X(cpu_s_tok, REAL, "s", turn_per_decode(t, m->sum.cpu_ms),                                     \
      "per decoded token: CPU time of the process", NULL)                                          \
    X(loop_overhead_s_tok, REAL, "s", turn_per_decode(t, m->sum.overhead_ms),                      \
      "per decoded token: choosing and writing it", NULL)                                          \
    X(prefill_stall_s, REAL, "s", turn_prefill_s(t, TURN_STALL),                                   \
      "prefill: a compute thread's share of the waits for experts", NULL)                          \
    X(prefill_mgmt_s, REAL, "s", turn_prefill_s(t, TURN_MGMT),                                     \
      "prefill: carrying, placing and taking back, summed over readers", NULL)                     \
    X(token_demand_mib, REAL, "MiB", turn_token_demand_mib(t),                                     \
      "experts that one token is routed to", NULL)                                                 \
    X(mtp_drafted, INT, "count", -1, "speculation is not offered: always -1", NULL)                \
    X(mtp_accepted, INT, "count", -1, "the same", NULL)                                            \
    X(mtp_decodes, INT, "count", -1, "the same", NULL)                                             \
    X(mtp_draft_s_tok, REAL, "s", -1, "the same", NULL)                                            \
    X(drafted_steps, INT, "count", -1, "the same", NULL)
/* clang-format on */

enum turn_phase_time { TURN_STALL, TURN_MGMT };
double turn_rate(double n, double seconds);
double turn_per_decode(const struct turn *t, double sum_ms);
double turn_prefill_s(const struct turn *t, enum turn_phase_time what);
double turn_token_demand_mib(const struct turn *t);
int64_t turn_prompt(const struct turn *t);

struct figure {
    const char *key, *unit, *meaning, *brief;
    enum figure_type type;
};
#define TURN_FIGURE_ROW(key_, type_, unit_, formula, meaning_, brief_)                             \
    {.key = #key_, .unit = unit_, .meaning = meaning_, .brief = brief_, .type = FIGURE_##type_},
extern const struct figure turn_figures[]; /* made of TURN_FIGURES by TURN_FIGURE_ROW */
extern const size_t turn_figures_n;
/* The value of turn_figures[i]. */
double turn_value(const struct turn *t, size_t i);

/* Sets every figure and counter in a line's body. Answers 0, -1 without memory. */
int turn_put(json_t *body, const struct turn *t);

/* Sets the counters that are also given for a prefill, and those whose own key says that they are
 * about one, for a request that was all prefill. */
int turn_put_prefill(json_t *body, const struct bmoe_stats *before, const struct bmoe_stats *after);

/* Sets every counter as it is since the session opened. */
int turn_put_counters(json_t *body, const struct bmoe_stats *stats);

#endif
