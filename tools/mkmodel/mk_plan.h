/*
 * The plan of a file: its metadata, and every tensor with shape, type and the rule that fills it.
 * The architectures add to it, the writer reads it. A failure while adding is kept in the plan
 * (`error`) and makes later additions do nothing, so that an architecture reads as a list.
 *
 * How random weights keep activations of order one: a matrix has elements of deviation
 * gain/sqrt(inputs); what a layer adds to the residual stream is divided by sqrt(2 * layers).
 * Channel 0 of the stream is the carrier: every embedding holds the same number there and no layer
 * writes to it (row 0 of the writing matrices is zero), so that a router can give each expert a
 * constant preference through its column 0.
 */
#ifndef MK_PLAN_H
#define MK_PLAN_H

#include "base/error.h"
#include "mk_shape.h"

#include "ggml.h"

#include <stdbool.h>
#include <stddef.h>

struct gguf_context;

/* The number every embedding holds in the carrier channel, in units of an embedding's deviation. */
#define MK_CARRIER 2.0f

/* Brings the carrier to about 1 behind a norm: the stream's deviation grows from 1 to sqrt(2). */
#define MK_CARRIER_GAIN (1.2f / MK_CARRIER)

enum mk_fill_kind {
    MK_FILL_NOISE,  /* mean + std * noise */
    MK_FILL_ROUTER, /* noise, and in column 0 the preference of the row's expert */
    MK_FILL_ROPE,   /* 1 in the first quarter, 1e30 behind it: rotate a quarter of a head */
};

/* How a tensor is filled. */
struct mk_fill {
    enum mk_fill_kind kind;
    float mean;
    float std;
    float column0;    /* the element of column 0, if has_column0 */
    bool has_column0; /* of every row */
    bool mute_row0;   /* row 0 of every matrix is zero */
    bool signs;       /* every element gets a random sign */
};

enum mk_role {
    MK_KEEP,   /* always F32: norms, biases, routers */
    MK_MATRIX, /* takes the chosen type */
    MK_EXPERT, /* the same, one matrix for each expert */
};

struct mk_tensor {
    char name[64];
    int64_t layer; /* negative: of no layer */
    int n_dims;
    int64_t ne[4];
    enum mk_role role;
    enum ggml_type type;
    struct mk_fill fill;
};

struct mk_plan {
    struct mk_shape shape; /* overrides applied */
    bool tied;             /* the head is the embedding */
    bool fused;            /* gate and up of the experts are one tensor */
    bool mtp;              /* a block that predicts a second token follows the layers */
    struct gguf_context *keys;
    struct mk_tensor *tensors;
    size_t n_tensors;
    size_t capacity;
    struct bmoe_error error; /* of the first addition that failed */
};

/* Begins a plan in *plan (caller's storage): the keys all architectures share. */
int mk_plan_init(struct mk_plan *plan, const struct mk_shape *shape);
void mk_plan_fini(struct mk_plan *plan);

/* Makes "out of memory" the plan's error, for an architecture that needs memory of its own. */
void mk_plan_no_memory(struct mk_plan *plan);

/* Metadata `ARCH.key`; a later value replaces an earlier one. */
void mk_plan_u32(struct mk_plan *plan, const char *key, int64_t value);
void mk_plan_f32(struct mk_plan *plan, const char *key, float value);
void mk_plan_bool(struct mk_plan *plan, const char *key, bool value);
void mk_plan_u32s(struct mk_plan *plan, const char *key, const uint32_t *values, size_t n);
void mk_plan_bools(struct mk_plan *plan, const char *key, const bool *values, size_t n);

/* Adds a tensor `blk.LAYER.NAME`, or NAME if layer is negative. ne[] ends at the first 0. */
void mk_plan_add(struct mk_plan *plan, int64_t layer, const char *name, enum mk_role role,
                 const int64_t ne[4], struct mk_fill fill);

/* The usual tensors. in and out are the lengths of a row and of a column. */
void mk_plan_matrix(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, int64_t out,
                    float gain);
/* A matrix whose product is added to the residual stream. */
void mk_plan_output(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, float gain);
void mk_plan_experts(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, int64_t out,
                     float gain);
void mk_plan_experts_output(struct mk_plan *plan, int64_t layer, const char *name, float gain);
/* A vector of F32 around mean. */
void mk_plan_vector(struct mk_plan *plan, int64_t layer, const char *name, int64_t n, float mean,
                    float std);
/* The weight of a norm of the residual stream; what follows sees the carrier only if keep_carrier.
 */
void mk_plan_norm(struct mk_plan *plan, int64_t layer, const char *name, bool keep_carrier);
void mk_plan_router(struct mk_plan *plan, int64_t layer);

/* token_embd (of deviation std), the final norm called norm_name, and unless tied, output. */
void mk_plan_ends(struct mk_plan *plan, const char *norm_name, float std);

#endif
