/*
 * The one line of figures at the end of a run. What was not measured is left out, never guessed.
 */
#ifndef BMOE_CLI_SUMMARY_H
#define BMOE_CLI_SUMMARY_H

#include "bmoe.h"

/* Writes "prompt 12 tokens at 30.1 tok/s, ...": n_prompt tokens of which n_reused were not
 * computed. The figures are those of one request, reads and peak memory those since the session
 * opened. The text is cut when it is longer than `bytes`. */
void summary_write(char *out, size_t bytes, const struct bmoe_info *info,
                   const struct bmoe_stats *stats, const struct bmoe_result *result);

/* The part of it that does not need an answer: reads, hit rate, stall, peak memory. */
void summary_write_reads(char *out, size_t bytes, const struct bmoe_stats *stats);

#endif
