/*
 * The one line of figures at the end of a run, made of the same two lists as BMOE_DONE: of the
 * figures and counters (turn.h, bmoe_counters.h) those that have words for people. What was not
 * measured is left out, never guessed; so is a count of nothing.
 */
#ifndef BMOE_CLI_SUMMARY_H
#define BMOE_CLI_SUMMARY_H

#include "turn.h"

/* Writes "prompt 12 tokens at 30.10 tok/s, ..." of one request; n_predict is the limit that was
 * asked for, 0: none. The text is cut when it is longer than `bytes`. */
void summary_write(char *out, size_t bytes, const struct turn *turn, uint32_t n_predict);

#endif
