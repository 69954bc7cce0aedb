/*
 * --decide-probe: a JSON line per decision that says what it was routed to: per layer and expert
 * how many tokens, and the sum of their weights; and what the choices would have scored after each
 * layer. It only listens to what a session tells.
 */
#ifndef BMOE_CLI_DECIDE_PROBE_H
#define BMOE_CLI_DECIDE_PROBE_H

#include "request.h"
#include "terminal.h"

#include <stdio.h>

/* What one layer was routed to. */
struct probe_layer {
    uint32_t n_expert;
    uint64_t *counts; /* heap, n_expert of them */
    double *weights;
    uint64_t expert_bytes;
};

struct decide_probe {
    FILE *file;       /* NULL: not wanted */
    const char *path; /* borrowed */
    struct terminal *terminal;
    struct probe_layer *layers;
    uint32_t n_layers;
    json_t *lens; /* a list of logits per layer, NULL: none came */
    unsigned n_decisions;
    bool active; /* a decision runs */
    bool failed; /* a write has failed, or memory was short, and that was said */
};

int decide_probe_open(struct decide_probe *p, const char *path, struct terminal *terminal,
                      struct bmoe_error *err);
void decide_probe_close(struct decide_probe *p);

void decide_probe_begin(struct decide_probe *p);
void decide_probe_route(struct decide_probe *p, const struct bmoe_route *r);
void decide_probe_lens(struct decide_probe *p, const struct bmoe_lens *l);
/* Writes the line; result NULL: the decision failed, and there is none. */
void decide_probe_end(struct decide_probe *p, const struct request *r,
                      const struct bmoe_decide_result *result);

#endif
