/*
 * A load in a child process first. libllama asserts thousands of things of a model's numbers that
 * differ per architecture, and reads through pointers to tensors that a file may lack; any of that
 * would end this process. So a child loads the header (without vocabulary and data), makes a small
 * context and builds a decode's graph; only if it comes through, the real load is tried. It costs
 * some milliseconds.
 *
 * It is a guard, not a condition: without a verdict (no fork, no memory, a process of more than one
 * thread, in whose child another thread's lock might be held for ever) the load goes on.
 */
#ifndef BMOE_ENGINE_TRIAL_H
#define BMOE_ENGINE_TRIAL_H

#include "model/gguf_index.h"

/* Wants the CPU backend loaded. MODEL when the child was killed by a signal or did not end in time;
 * 0 when it ended by itself, however, or when there is no verdict. */
int trial_load(const struct gguf_index *index, struct bmoe_error *err);

#endif
