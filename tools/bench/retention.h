/*
 * bmoe-bench retention: routings of real runs, recorded and replayed through the policies at every
 * budget.
 */
#ifndef BENCH_RETENTION_H
#define BENCH_RETENTION_H

#include "replay.h"

#include "bmoe.h"

enum { RETENTION_TRACES = 4, RETENTION_BUDGETS = 10 };

struct retention_trace {
    const char *name, *told; /* a word; what it is */
    struct replay_trace trace;
    struct replay_hits hits[REPLAY_POLICIES][RETENTION_BUDGETS];
};

/* retention_record.c: runs a model and records what it routes to. `zipf` is any model with experts
 * (its prompts are random tokens), `trained` the one in the tree. Negative with *err. */
int retention_record(struct retention_trace traces[RETENTION_TRACES], const char *zipf,
                     const char *trained, struct bmoe_error *err);

/* retention_files.c: DIR/retention.csv, .md, .svg; negative when one cannot be written. */
int retention_write(const struct retention_trace *traces, const char *dir, const char *command);

/* The subcommand, argv[0] being "retention"; answers the exit status. */
int retention_main(int argc, char **argv);

#endif
