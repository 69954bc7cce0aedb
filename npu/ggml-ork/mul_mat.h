/* One MUL_MAT or MUL_MAT_ID node on the NPU: code the rows, one batch, the outputs in place. */
#ifndef GGML_ORK_MUL_MAT_H
#define GGML_ORK_MUL_MAT_H

#include "packed_weight.h"

/* Memory that a stream keeps from node to node; it grows to what the widest needs. All zeros is
 * empty. Not for two threads at once. */
struct mul_mat_memory {
    int8_t *codes;        /* of the rows of x, in x's order */
    float *scales;        /* one per row */
    int8_t *sorted_codes; /* MUL_MAT_ID: the same rows, expert by expert */
    float *sorted_scales;
    float *sorted_out;
    uint32_t *places;    /* of row (slot, token) among the sorted ones */
    uint32_t *first_row; /* of each expert among the sorted ones, and the end */
    struct ork_matmul *batch;
    size_t n_codes, n_scales, n_sorted_codes, n_sorted_scales, n_sorted_out, n_places, n_first_row,
        n_batch;                     /* elements there is room for */
    const struct ggml_tensor *coded; /* whose rows are in codes and scales; NULL = nobody's */
};

void mul_mat_memory_fini(struct mul_mat_memory *memory);

/* dst = weight x src[1], by the node's own op. The node's shape must be op_support_shape. 0,
 * -ENOMEM, -EINVAL (an expert that does not exist), or what the NPU said. */
int mul_mat_run(struct ork_device *npu, struct mul_mat_memory *memory,
                const struct packed_weight *weight, const struct ggml_tensor *node,
                struct ork_error *error);

#endif
