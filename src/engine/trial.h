/*
 * A load in a child process first. libllama asserts thousands of things of a model's numbers that
 * differ per architecture, and reads through pointers to tensors that a file may lack; any of that
 * would end this process. So a child loads the header (without vocabulary and data), makes a small
 * context and builds a decode's graph; only if it comes through, the real load is tried. It costs
 * some milliseconds.
 *
 * It is a guard, not a condition: without a verdict (no fork, no memory) the load goes on. So it
 * does when the child gets stuck: where other threads use libllama meanwhile, it may begin with a
 * lock that one of them held; it is ended after half a minute.
 */
#ifndef BMOE_ENGINE_TRIAL_H
#define BMOE_ENGINE_TRIAL_H

#include "model/gguf_index.h"

/* Wants the CPU backend loaded. MODEL when the child crashed, aborted or computed without end; 0
 * when it ended by itself, however, or when there is no verdict. */
int trial_load(const struct gguf_index *index, struct bmoe_error *err);

#endif
