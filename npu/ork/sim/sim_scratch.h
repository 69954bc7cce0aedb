/* Working memory of one simulated core: dense panels of what a program fetched, and sums.
 *
 * Integer elements are widened to int16_t, fp16 to float, so that one inner loop serves each.
 *   a[row * k + i]  features;  b[kernel * k + i]  weights of one kernel group
 *   sums[row * group_kernels + kernel]
 * A panel grows and never shrinks; one core, one thread. */
#ifndef ORK_SIM_SCRATCH_H
#define ORK_SIM_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

union sim_panel {
    void *any;
    int16_t *i16;
    int32_t *i32;
    float *f32;
};

struct sim_scratch {
    union sim_panel a, b, sums;
    size_t a_bytes, b_bytes, sums_bytes;
};

/* -ENOMEM leaves the panel as it was. */
int sim_scratch_grow(union sim_panel *panel, size_t *have_bytes, size_t want_bytes);
void sim_scratch_fini(struct sim_scratch *scratch);

#endif
