/* What a program reads: features through its strides, weights block by block, both widened into
 * the core's panels. The only readers of simulated device memory besides the program fetch. */
#ifndef ORK_SIM_FETCH_H
#define ORK_SIM_FETCH_H

#include "sim_mem.h"
#include "sim_scratch.h"
#include "sim_task.h"

/* Fills scratch->a. Every cell must lie in one buffer. */
int sim_fetch_features(const struct sim_task *task, const struct sim_mem *mem,
                       struct sim_scratch *scratch, struct sim_fault *fault);

/* The task's weights in memory: a borrowed pointer to n * k * in_bits / 8 bytes. */
int sim_fetch_weights(const struct sim_task *task, const struct sim_mem *mem,
                      const uint8_t **weights, struct sim_fault *fault);

/* Widens kernel group `group` of weights into scratch->b, which is large enough. */
void sim_fetch_group(const struct sim_task *task, const uint8_t *weights, uint32_t group,
                     struct sim_scratch *scratch);

/* Exact value of a half; NaN payloads are kept. */
float sim_half_to_float(uint16_t half);

#endif
