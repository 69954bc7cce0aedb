/*
 * The numbers of a tensor: any range of its rows, made from the seed, the tensor's name and the
 * element's place alone, so that threads, slices and shards do not change a bit.
 */
#ifndef MK_WEIGHTS_H
#define MK_WEIGHTS_H

#include "mk_plan.h"

/* How to fill one tensor. Read by several threads at once. */
struct mk_weights {
    const struct mk_tensor *tensor; /* borrowed */
    uint64_t key;
    float *preferences; /* of the experts, for a router only */
};

/* zipf: the exponent of the experts' preferences, 0 for none. */
int mk_weights_init(struct mk_weights *weights, const struct mk_tensor *tensor, uint64_t seed,
                    float zipf, struct bmoe_error *error);
void mk_weights_fini(struct mk_weights *weights);

/* Writes rows [row, row + n_rows) as F32 into out, which holds n_rows * ne[0] floats. */
void mk_weights_rows(const struct mk_weights *weights, int64_t row, int64_t n_rows, float *out);

#endif
