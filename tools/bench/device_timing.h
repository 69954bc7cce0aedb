/*
 * A device that takes as long as one of some speed would and computes nothing: it sleeps, and
 * routes as a right run was seen to route, so that what is read is what would be. What it answers
 * is not to be compared.
 */
#ifndef BENCH_DEVICE_TIMING_H
#define BENCH_DEVICE_TIMING_H

#include <ggml-backend.h>
#include <stdint.h>

/* The experts of each token of a prompt in each layer: at[(layer * n_tokens + token) * n_used]. */
struct timing_routes {
    int32_t *at;
    uint32_t n_layers, n_tokens, n_used;
};

/* NULL: there is no CPU backend yet, whose kernels it has for trial products. */
ggml_backend_dev_t timing_device(double tops);
/* Before each prompt, of one graph. */
void timing_prompt(const struct timing_routes *routes, double tops);
/* Seconds that its products of the present prompt took. */
double timing_seconds(void);

#endif
