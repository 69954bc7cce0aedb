/* What the gates on the fake device begin with. */
#ifndef BMOE_TESTS_GATE_FAKE_H
#define BMOE_TESTS_GATE_FAKE_H

#include "fake_device.h"
#include "gate_live.h"

/* Pieces of a prompt in these gates, and their prompt. */
enum { GATE_FAKE_UBATCH = 64, GATE_FAKE_PROMPT_BYTES = 180 };

/* The fake device on the CPU's kernels with 2 threads, and argv[1], the model; NULL when there is
 * not one argument or no CPU backend. */
ggml_backend_dev_t gate_fake_open(int argc, char **argv, const char **model);
/* A test's setup: no fault is left of the one before. */
int gate_fake_heal(void **state);

/* A group's setup and teardown: what the model answers on the CPU. answers_right: and s the same.
 */
int gate_fake_learn(void **state);
int gate_fake_forget(void **state);
void gate_fake_answers_right(struct bmoe_session *s);

/* A session's log function, and what it was told since gate_fake_hush: how many warnings, the last.
 */
struct gate_fake_said {
    unsigned n_warnings;
    char last[512];
};
extern struct gate_fake_said gate_fake_said;
void gate_fake_log(void *user, enum bmoe_log_level level, const char *line);
void gate_fake_hush(void);

#endif
