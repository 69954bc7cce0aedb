/* A weight tensor as the NPU reads it: codes in device memory, one scale or one per group of K for
 * every output channel.
 *
 * A tensor of [K, N, E] holds E matrices (experts) of N rows of K; each is one ork_weight. Rows are
 * coded one by one, so any range of whole rows can be set at any time and in any order: a tensor at
 * once, or expert by expert. Different experts may be set by different threads.
 *
 * Invariant: torn, or every row's codes and scale come from the last bytes set for that row. */
#ifndef GGML_ORK_PACKED_WEIGHT_H
#define GGML_ORK_PACKED_WEIGHT_H

#include <stdatomic.h>

#include "domain_budget.h"
#include "ggml_backend_abi.h"
#include "ork.h"
#include "pack_cache.h"
#include "weight_format.h"
#include "workers.h"

struct packed_weight {
    enum ggml_type type; /* of the bytes that are set and got */
    uint32_t n;
    uint32_t k;
    uint32_t n_matrices;
    size_t row_bytes;
    struct weight_format format;
    uint32_t n_scales;            /* of one row */
    uint32_t domain;              /* IOMMU domain of all matrices */
    struct domain_budget *budget; /* borrowed; device_bytes are taken from it */
    uint64_t device_bytes;
    struct workers *workers;      /* borrowed; they pack */
    struct pack_cache *cache;     /* borrowed, or NULL */
    struct ork_weight **matrices; /* n_matrices, owned */
    float *scales;                /* n_matrices x n_scales x n */
    atomic_bool torn;             /* part of a row was set alone, which cannot be coded */
};

/* Whether a tensor of this type and shape can be packed (its strides must be those of a new one).
 */
bool packed_weight_fits(const struct ggml_tensor *tensor);
/* Device memory and scales that it takes, and no less than what it has in its own type; 0 = cannot
 * be packed. */
size_t packed_weight_bytes(const struct weight_format *format, const struct ggml_tensor *tensor);

/* Where a weight is made. */
struct packed_place {
    struct ork_device *npu;
    struct weight_format format; /* as the options say; adapted to the tensor's K */
    struct domain_budget *budget;
    struct workers *workers;
    struct pack_cache *cache; /* whole matrices are looked up and kept there; NULL = none */
};

/* All zeros until set. The tensor gives type and shape only. */
int packed_weight_create(const struct packed_place *place, const struct ggml_tensor *tensor,
                         struct packed_weight **out, struct ork_error *error);
void packed_weight_destroy(struct packed_weight *weight);

/* Codes bytes [offset, offset + bytes) of the tensor. -EINVAL and torn when they are not whole
 * rows; -ENOMEM and torn when there was no memory to do it. */
int packed_weight_set(struct packed_weight *weight, const void *data, size_t offset, size_t bytes);
/* The same with every byte `value`. */
int packed_weight_fill(struct packed_weight *weight, uint8_t value, size_t offset, size_t bytes);
/* Scales of one matrix: n_scales x n. */
const float *packed_weight_scales(const struct packed_weight *weight, uint32_t matrix);

/* What the NPU computes with, written in the tensor's type again: close to what was set, not equal.
 * Any range of bytes. */
int packed_weight_get(const struct packed_weight *weight, void *data, size_t offset, size_t bytes);

#endif
