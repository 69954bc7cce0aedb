/* What the gates on the fake device begin with. */
#ifndef BMOE_TESTS_GATE_FAKE_H
#define BMOE_TESTS_GATE_FAKE_H

#include "fake_device.h"

/* The fake device on the CPU's kernels with 2 threads, and argv[1], the model; NULL when there is
 * not one argument or no CPU backend. */
ggml_backend_dev_t gate_fake_open(int argc, char **argv, const char **model);
/* A test's setup: no fault is left of the one before. */
int gate_fake_heal(void **state);

#endif
