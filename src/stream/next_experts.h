/*
 * Which experts the next layer will want while this one is computed: its router applied to the
 * activations that this layer was routed by. The residual stream changes little from one layer to
 * the next, so most of the choice is the same. A hint: what is wrong costs a read, never a bit.
 *
 * Threads: the one that runs the graph.
 */
#ifndef BMOE_STREAM_NEXT_EXPERTS_H
#define BMOE_STREAM_NEXT_EXPERTS_H

#include "stream/weights.h"

#define NEXT_EXPERTS_ROWS 64

typedef float dot_fn(const float *a, const float *b, int64_t n);

struct predictor {
    const struct graph_map *map;
    dot_fn *dot;   /* what this CPU does quickest */
    float *scores; /* n_expert of them, the most of any site */
};

/* False: no memory. */
bool predictor_init(struct predictor *p, const struct graph_map *map);
void predictor_fini(struct predictor *p);

/* Sets in `set` (cleared first) the experts that site `next` will probably want, given the routing
 * tensor `ids` of the site before it, just computed. Of more than NEXT_EXPERTS_ROWS tokens so many
 * are asked, evenly spaced: a row costs n_embd times n_expert products on one core. False when that
 * cannot be told: a router that was not found, of another type or shape, or activations that are
 * not in host memory. */
bool predict_next(struct predictor *p, uint32_t next, struct ggml_tensor *ids, uint32_t n_expert,
                  uint64_t *set);

#endif
