/*
 * The limit that no program can pass on this machine: computing with everything resident, while the
 * run's reads are made again beside it by as many readers, neither waiting for the other. Reading
 * costs CPU too (a virtual disk's work is done by the host's side of the same CPUs), so both at
 * once take longer than the slower of the two alone.
 */
#ifndef BMOE_BENCH_BOTH_H
#define BMOE_BENCH_BOTH_H

#include "pager/pager.h"

#include <stdbool.h>

struct bmoe_session;

/* What a phase read. */
struct bench_reads {
    struct pager_read_record *records; /* owned */
    size_t n;
};

/* What was recorded since the last time; what *reads held is freed. */
void bench_reads_take(struct bench_reads *reads, struct pager *pager);
void bench_reads_free(struct bench_reads *reads);
double bench_reads_bytes(const struct bench_reads *reads);
/* Seconds of the same reads alone, by the pager's own readers; negative: a code, with *err. */
double bench_reads_alone(const struct bench_reads *reads, struct pager *pager,
                         struct bmoe_error *err);

/* Of a request: its prompt, then its answer. */
struct both {
    struct pager *pager; /* that read, and whose readers read again */
    const struct bench_reads *reads[2];
    double wall[2]; /* out, seconds: until computing and reading are both done */
};

/* The request's tokens by `resident`, whose experts all are in memory. 0 or a code with *err. */
int both_run(struct both *b, struct bmoe_session *resident, unsigned n_prompt, unsigned n_decode,
             struct bmoe_error *err);

#endif
