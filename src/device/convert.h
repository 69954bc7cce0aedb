/*
 * A weight in another type, for a device that does not take its own.
 */
#ifndef BMOE_DEVICE_CONVERT_H
#define BMOE_DEVICE_CONVERT_H

#include <ggml.h>

/* The rows of `t`, whose bytes (as in the file) are at data, in type `to`; the caller frees it.
 * NULL when ggml cannot, or there is no memory. */
char *convert_weight(const struct ggml_tensor *t, const char *data, enum ggml_type to);

#endif
