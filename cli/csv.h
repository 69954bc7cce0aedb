/*
 * --csv: a table of what each token cost, for programs that read columns by name. A preamble says
 * what was run, a row follows per token (per decision, per window of a scored text), and after each
 * answer (decision, text) a trailer with its figures and counters. Writing never ends a run: a disk
 * that is full is said once, and the rest of the table is left out.
 */
#ifndef BMOE_CLI_CSV_H
#define BMOE_CLI_CSV_H

#include "options.h"
#include "terminal.h"
#include "turn.h"

#include <stdio.h>

/* clang-format off */
/* X(name, format, value, meaning). c is the const struct token_costs *, p the const struct
 * proc_memory *, m the const struct meter *. Columns are only ever added, at the end. */
#define CSV_COLUMNS(X)                                                                             \
    X(step, "%.0f", (double)m->n_tokens, "number of the token or the window, from 1")              \
    X(steps, "%.0f", (double)steps, "tokens at most, 0: until the context is full; all windows")   \
    X(wall_ms, "%.3f", c->wall_ms,                                                                 \
      "of the decode that made the token, 0 for the first; of a whole decision or window")         \
    X(io_ms, "%.3f", c->io_ms, "in read calls, summed over readers")                               \
    X(compute_ms, "%.3f", c->compute_ms, "wall_ms without stall_ms")                               \
    X(read_bytes, "%.0f", (double)c->read_bytes, "useful bytes of expert reads")                   \
    X(cache_hit_pct, "%.3f", c->hit_pct, "since the session opened")                               \
    X(stall_ms, "%.3f", c->stall_ms, "a compute thread's share of the waits for experts")          \
    X(mgmt_ms, "%.3f", c->mgmt_ms, "carrying, placing and taking back, summed over readers")       \
    X(majflt, "%.0f", (double)c->majflt, "major page faults of the process")                       \
    X(cpu_ms, "%.3f", c->cpu_ms, "CPU time of the process, all threads")                           \
    X(dense_resident_frac, "%.0f", -1.0, "not measured")                                           \
    X(turn, "%.0f", (double)turn, "number of the answer, decision or text, from 1")                \
    X(majflt_mib, "%.3f", csv_mib(c->majflt < 0 ? -1 : (int64_t)c->majflt * p->page_bytes),        \
      "the same in memory")                                                                        \
    X(cache_budget_mib, "%.3f", csv_mib(c->budget_bytes), "the most experts may take")             \
    X(rss_mib, "%.3f", csv_mib(p->rss), "resident memory of the process")                          \
    X(rss_anon_mib, "%.3f", csv_mib(p->rss_anon), "its anonymous part")                            \
    X(rss_file_mib, "%.3f", csv_mib(p->rss_file), "its part of mapped files")                      \
    X(swap_mib, "%.3f", csv_mib(p->swap), "swapped out of the process")                            \
    X(mem_available_mib, "%.3f", csv_mib(p->available), "the machine's available memory")          \
    X(mem_free_mib, "%.3f", csv_mib(p->free), "the machine's free memory")                         \
    X(swap_free_mib, "%.3f", csv_mib(p->swap_free), "the machine's free swap")                     \
    X(loop_overhead_ms, "%.3f", c->overhead_ms, "between two decodes")                             \
    X(mtp_batch, "%.0f", -1.0, "speculation is not offered")                                       \
    X(mtp_draft_ms, "%.0f", -1.0, "the same")                                                      \
    X(drain_ms, "%.0f", -1.0, "the same")                                                          \
    X(adopt_ms, "%.0f", -1.0, "the same")                                                          \
    X(ra_issue_ms, "%.0f", -1.0, "routing ahead is not offered")                                   \
    X(ra_wd_ms, "%.0f", -1.0, "the same")                                                          \
    X(cache_resident_mib, "%.3f", csv_mib(c->resident_bytes), "experts in memory")                 \
    X(hits, "%.0f", (double)c->hits, "experts that were there")                                    \
    X(misses, "%.0f", (double)c->misses, "experts that were not")                                  \
    X(faults, "%.0f", (double)c->faults, "touches of absent experts")                              \
    X(evictions, "%.0f", (double)c->evictions, "experts dropped")                                  \
    X(rereads, "%.0f", (double)c->rereads, "experts read again")                                   \
    X(kind, "%d", (int)kind, "0: a token of an answer, 1: a decision, 2: a window of a scored text")\
    X(n_computed, "%.0f", (double)c->n_computed, "tokens computed for the row")
/* clang-format on */

enum csv_kind { CSV_TOKEN = 0, CSV_DECISION = 1, CSV_WINDOW = 2 };

/* What the kernel says of memory, in bytes; -1: unknown. */
struct proc_memory {
    int64_t page_bytes;
    int64_t rss, rss_anon, rss_file, swap, available, free, swap_free;
};

/* NULL members of struct run mean: no table. */
struct csv {
    FILE *file;
    const char *path;          /* borrowed */
    struct terminal *terminal; /* borrowed */
    unsigned turn;             /* answers begun */
    bool failed;               /* a write has failed, and that was said */
};

/* Makes the file. Before the model is opened, as a wrong path should cost no load. */
int csv_open(struct csv *csv, const char *path, struct terminal *terminal, struct bmoe_error *err);
/* The preamble and the names of the columns. */
void csv_begin(struct csv *csv, const struct cli_options *o, const struct bmoe_info *info);
/* An answer, a decision or a text begins; rows and a trailer follow. NULL is fine in all of these.
 */
void csv_turn(struct csv *csv);
void csv_row(struct csv *csv, enum csv_kind kind, const struct meter *m,
             const struct token_costs *c, uint32_t steps);
/* One row for all since the last one, or since meter_begin. */
void csv_span(struct csv *csv, enum csv_kind kind, struct meter *m, uint32_t steps);
void csv_trailer(struct csv *csv, const struct turn *turn);
/* False: something of it could not be written, and that was said. */
bool csv_close(struct csv *csv);

double csv_mib(int64_t bytes);

#endif
