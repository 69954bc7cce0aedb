/* What a program writes: sums through the output stage into cells at the programmed geometry.
 * The only writer of simulated device memory. */
#ifndef ORK_SIM_STORE_H
#define ORK_SIM_STORE_H

#include "sim_mem.h"
#include "sim_scratch.h"
#include "sim_task.h"

/* Where the task's output lives: host address of device address 0, in effect. Every cell must lie
 * in one buffer. */
struct sim_output {
    uint8_t *host;
    int64_t iova;
};

int sim_store_open(const struct sim_task *task, const struct sim_mem *mem, struct sim_output *out,
                   struct sim_fault *fault);

/* Converts and writes kernel group `group` from scratch->sums. Returns how many cells hold a bound
 * of a saturating type: a legal result equal to the bound counts too. */
uint64_t sim_store_group(const struct sim_task *task, const struct sim_output *out, uint32_t group,
                         const struct sim_scratch *scratch);

/* Round to nearest, ties to even; beyond the range to infinity. */
uint16_t sim_float_to_half(float value);

/* value / 2^shift, ties to even; shift <= 31. */
int64_t sim_shift_round(int64_t value, uint32_t shift);

#endif
