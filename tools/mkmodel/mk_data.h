/*
 * Makes and writes the data of one tensor in slabs of rows, so that memory is bounded by the slab
 * and not by the tensor. The threads of a slab share its rows; the bytes do not depend on their
 * number.
 */
#ifndef MK_DATA_H
#define MK_DATA_H

#include "mk_file.h"
#include "mk_plan.h"

/* What the data depends on, and by how many threads it is made. */
struct mk_data_options {
    uint64_t seed;
    float zipf;
    int threads; /* >= 1 */
};

int mk_data_write(const struct mk_tensor *tensor, const struct mk_data_options *options,
                  struct mk_file *file, struct bmoe_error *error);

/* Bytes of a tensor's data, without padding. */
size_t mk_data_bytes(const struct mk_tensor *tensor);

#endif
