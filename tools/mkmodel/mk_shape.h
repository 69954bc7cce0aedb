/*
 * The numbers a model is made of, and the presets they come from. A preset names an architecture
 * and gives every number; the command line then overrides some. Tiny presets (T1..T7) have one for
 * each architecture and take a second to run; real-shape presets (B1..B4, bench) have the layers of
 * models people run, fewer of them.
 */
#ifndef MK_SHAPE_H
#define MK_SHAPE_H

#include "base/error.h"

#include <stdint.h>

/* Architecture numbers; what an architecture has no use for is 0. Lengths are in elements. */
struct mk_shape {
    const char *preset;
    const char *arch;
    const char *type; /* default of --type */
    int64_t layers;
    int64_t min_layers; /* fewer lack a kind of layer libllama expects */
    int64_t embd;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;
    int64_t experts;
    int64_t used; /* routed experts of a token */
    int64_t ff;   /* of one routed expert */
    int64_t shared_ff;
    int64_t dense_ff;
    int64_t dense_layers; /* leading layers without experts */
    int64_t vocab;
    int64_t period;          /* every period-th layer has full attention */
    int64_t window;          /* of the sliding attention, in tokens */
    int64_t global_head_dim; /* of the layers with full attention, where it differs */
    int64_t global_kv_heads;
    int64_t ssm_heads; /* value heads of the recurrent layers */
    int64_t ssm_groups;
    int64_t ssm_state;
    int64_t ssm_inner;
    int64_t conv; /* taps of the convolution of the recurrent layers */
    int64_t q_lora;
    int64_t kv_lora;
    int64_t rope_dim; /* rotated elements of a head */
    const char *mimics;
};

/* The preset called name (T1, B2, bench; case matters not), or NULL. */
const struct mk_shape *mk_shape_find(const char *name);

/* The tiny preset of an architecture, or NULL. */
const struct mk_shape *mk_shape_of_arch(const char *arch);

/* The i-th preset, or NULL behind the last. */
const struct mk_shape *mk_shape_at(int i);

/*
 * Derives the numbers an architecture derives from others, and refuses with BMOE_E_MISUSE those
 * that would make a file libllama does not load or aborts on.
 */
int mk_shape_settle(struct mk_shape *shape, struct bmoe_error *error);

#endif
