/* Which nodes of a graph are computed here. */
#ifndef GGML_ORK_OP_SUPPORT_H
#define GGML_ORK_OP_SUPPORT_H

#include "plugin.h"

/* A product whose types, shapes and strides we compute, wherever its weight lies. */
bool op_support_shape(const struct ggml_tensor *op);
/* Whether this weight lies in packed memory, and what it is there: NULL where it was not set as
 * whole rows, so that nothing can be computed with it. */
bool op_support_is_packed(const struct plugin *p, const struct ggml_tensor *weight);
const struct packed_weight *op_support_weight(const struct plugin *p,
                                              const struct ggml_tensor *weight);
/* Only says how bytes are to be read; there is nothing to do. */
bool op_support_is_nothing(const struct ggml_tensor *op);

#endif
