/* How weights and activations are coded: int8 or int4, how many elements share a scale, rotated or
 * not. One per process, from the options; what it means for a given K is decided here, so that a
 * weight and the rows that meet it always agree. */
#ifndef GGML_ORK_WEIGHT_FORMAT_H
#define GGML_ORK_WEIGHT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "ork.h"

struct weight_format {
    enum ork_type type; /* ORK_I8_I32 or ORK_I4_I16 */
    uint32_t group;     /* elements of K that share a scale; 0 = all of a row */
    bool rotate;        /* Walsh-Hadamard, in blocks of the largest power of two dividing K */
};

/* The largest code of either side. */
uint32_t weight_format_code_max(const struct weight_format *format);
/* The same format with the group that divides K: at most format->group, at least 32; 0 where rows
 * would have more scales than WEIGHT_FORMAT_SCALES. */
struct weight_format weight_format_for(const struct weight_format *format, uint32_t k);
/* Scales of one row; format as weight_format_for gives it. */
uint32_t weight_format_n_scales(const struct weight_format *format, uint32_t k);
#define WEIGHT_FORMAT_SCALES 1024u

struct ork_weight_options weight_format_options(const struct weight_format *format);
struct ork_quantise weight_format_quantise(const struct weight_format *format);

#endif
