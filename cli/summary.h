/*
 * The one line of figures at the end of a run. What was not measured is left out, never guessed.
 */
#ifndef BMOE_CLI_SUMMARY_H
#define BMOE_CLI_SUMMARY_H

#include "bmoe.h"

/* One request and the session's counters around it. */
struct summary {
    const struct bmoe_info *info;
    const struct bmoe_result *result;
    const struct bmoe_stats *before, *after;
    uint32_t n_predict; /* the limit that was asked for, 0: none */
};

/* Writes "prompt 12 tokens at 30.1 tok/s, ...". Tokens and times are those of the request, reads
 * and peak memory those since the session opened. The text is cut when it is longer than `bytes`.
 */
void summary_write(char *out, size_t bytes, const struct summary *s);

/* The part of it that does not need an answer: reads, hit rate, stall, peak memory. */
void summary_write_reads(char *out, size_t bytes, const struct bmoe_stats *stats);

#endif
