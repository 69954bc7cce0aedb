/*
 * A load in a child process first. libllama asserts thousands of things of a model's numbers that
 * differ per architecture, and reads through pointers to tensors that a file may lack; any of that
 * would end this process. So a child loads the header (without vocabulary and data), makes a small
 * context and builds a decode's graph; only if it comes through, the real load is tried. It runs
 * beside what this process does meanwhile, and the load waits for it stage by stage.
 *
 * It is a guard, not a condition: without a verdict (no fork, no memory) the load goes on. So it
 * does when the child gets stuck: where other threads use libllama meanwhile, it may begin with a
 * lock that one of them held; it is ended after half a minute.
 */
#ifndef BMOE_ENGINE_TRIAL_H
#define BMOE_ENGINE_TRIAL_H

#include "model/gguf_index.h"

struct trial;

enum trial_stage {
    TRIAL_LOADED = 1, /* libllama has loaded the model */
    TRIAL_ENDED       /* and made a context and a graph */
};

/* Starts it, with n_expert_used experts a token (0: as many as the file says). The child loads the
 * CPU backend out of backends_dir where none is loaded. NULL: there will be no verdict. The index
 * must outlive it. */
struct trial *trial_begin(const struct gguf_index *index, uint32_t n_expert_used,
                          const char *backends_dir);
/* Waits until the child has come through the stage, or is gone. MODEL when it crashed, aborted or
 * computed without end, MISUSE when that was with more experts than the file says; 0 otherwise,
 * also for NULL. */
int trial_wait(struct trial *t, enum trial_stage stage, struct bmoe_error *err);
/* Ends the child, if it still runs, and waits for it; takes NULL. */
void trial_end(struct trial *t);

/* All of it at once, with the CPU backend loaded. */
int trial_load(const struct gguf_index *index, struct bmoe_error *err);

#endif
