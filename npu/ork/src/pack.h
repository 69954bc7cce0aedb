/* Host rows <-> device layouts, for every type and mode, by the offsets of a plan. Pure: memory
 * is the caller's, sized by ork_plan.h; threads may work on different rows at once.
 *
 * Host rows are row-major elements of the type (int8_t, int4 codes one per int8_t, fp16 bits).
 * Elements past K up to the padded K are written as zero on both operands, so that padding adds
 * nothing; padding rows and columns are left as they are and never read back. */
#ifndef ORK_PACK_H
#define ORK_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "ork_plan.h"

/* Rows n0 .. n0 + n_rows - 1 of B into a weight of ork_slicing_weight_bytes(slicing, n) bytes.
 * A row's bytes lie in its own 32-element runs; two rows never share a byte. */
void ork_pack_weight(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                     uint32_t n, uint8_t *weight, uint32_t n0, uint32_t n_rows, const void *rows);
void ork_unpack_weight(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                       uint32_t n, const uint8_t *weight, uint32_t n0, uint32_t n_rows, void *rows);

/* Row m of A into an input of rows->bytes bytes. */
void ork_pack_row(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                  const struct ork_rows *rows, uint8_t *input, uint32_t m, const void *row);
/* The reverse, k_pad host elements. Integer types. */
void ork_unpack_row(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                    const struct ork_rows *rows, const uint8_t *input, uint32_t m, int8_t *row);
/* Rows 0 .. rows->m - 1. */
void ork_pack_rows(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                   const struct ork_rows *rows, uint8_t *input, const void *all);

/* Where outputs go and how integers become floats (b_scale NULL: they stay integers). */
struct ork_readback {
    void *c;              /* m x stride elements of the type's host output, float with b_scale */
    size_t stride;        /* elements between rows */
    const uint32_t *rows; /* row i goes to row rows[i]; NULL = i */
    const float *b_scale; /* n, or n_slices x n with per_slice */
    const float *a_scale; /* m, or n_slices x m with per_slice */
    bool per_slice;
};

/* Adds up the K slices of tiles [first, first + n_slices) of the plan, which share (core, n0,
 * m0), and writes their part of C. output is the core's. Returns int16 cells at a bound. */
uint64_t ork_unpack_tiles(const struct ork_kernels *kernels, const struct ork_plan *plan,
                          uint32_t first, const uint8_t *output, const struct ork_readback *to);

#endif
