/*
 * What a device can, asked of it by ops that are never computed: no list of types or makers.
 */
#ifndef BMOE_DEVICE_DEVICE_PROBE_H
#define BMOE_DEVICE_DEVICE_PROBE_H

#include <ggml-backend.h>
#include <stdbool.h>

/* The buffer type from which the device multiplies a matrix of this type and shape (by ids, with
 * n_used rows a token, when n_used > 0) with n_tokens columns; NULL: it does not. The device's
 * extra types come before its own. */
ggml_backend_buffer_type_t device_probe_matrix(ggml_backend_dev_t device, enum ggml_type type,
                                               const int64_t *ne, uint32_t n_used,
                                               uint32_t n_tokens);

/* Whether the device does this op when the weight that is source `src` of it lies in the device's
 * own type, wherever it lies now. */
bool device_probe_op(ggml_backend_dev_t device, struct ggml_tensor *node, int src);

/* The types a refused dense matrix may be carried in, best first: Q8_0 for a quantised grid, F16
 * and then F32 for a float one. Ends with GGML_TYPE_COUNT. */
const enum ggml_type *device_probe_carried(enum ggml_type type);

#endif
