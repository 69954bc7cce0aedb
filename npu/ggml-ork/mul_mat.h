/* One MUL_MAT or MUL_MAT_ID node: its rows coded (or found coded), a decision who multiplies, and
 * one batch for the NPU or one for the workers. */
#ifndef GGML_ORK_MUL_MAT_H
#define GGML_ORK_MUL_MAT_H

#include "plugin.h"
#include "rows_in.h"

/* What a stream keeps from node to node; it grows to what the widest needs. All zeros is empty. Not
 * for two threads at once. */
struct mul_mat_memory {
    struct rows_in_cache rows;
    struct ork_matmul *batch;
    int8_t *rooms; /* of the workers */
    size_t n_batch, n_rooms;
};

void mul_mat_memory_fini(struct mul_mat_memory *memory);

/* How many rows a part of a product with this weight has at most. */
uint32_t mul_mat_part_rows(const struct packed_weight *weight);

/* dst = weight x src[1], by the node's own op. The node's shape must be op_support_shape. 0,
 * -ENOMEM, -EINVAL (an expert that does not exist), or what the NPU said. */
int mul_mat_run(struct plugin *p, struct mul_mat_memory *memory, const struct packed_weight *weight,
                const struct ggml_tensor *node, struct ork_error *error);

#endif
