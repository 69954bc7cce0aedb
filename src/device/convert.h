/*
 * A weight in another type, for a device that does not take its own.
 */
#ifndef BMOE_DEVICE_CONVERT_H
#define BMOE_DEVICE_CONVERT_H

#include "device/layers.h"

/* All rows of a dense weight in type `to`; the caller frees them. NULL when ggml cannot, a read
 * fails, or there is no memory: the weight is then done without. */
char *convert_weight(const struct layer_source *s, struct pager *pager, enum ggml_type to);

#endif
