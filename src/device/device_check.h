/*
 * Whether a device multiplies right: a small product of random numbers from a matrix that is filled
 * as a slot is, against one made here. A probe for what is broken, not for precision: what an
 * eight-bit unit rounds passes, a wrong layout, row or column does not.
 */
#ifndef BMOE_DEVICE_DEVICE_CHECK_H
#define BMOE_DEVICE_DEVICE_CHECK_H

#include <ggml-backend.h>
#include <stdbool.h>

/* A matrix of this type, with up to this many columns and rows, in this buffer type; experts: as
 * one of several by ids. True also when it cannot be told: no such shape is taken, or there is no
 * way to make such a matrix. */
bool device_check_matrix(ggml_backend_t backend, ggml_backend_buffer_type_t buft,
                         enum ggml_type type, const int64_t *ne, bool experts);

/* Bytes from one expert to the next where a device keeps such a matrix: what one more takes, since
 * what it adds for all of them lies behind the last. 0: they do not lie evenly, or closer than in
 * the file. */
size_t device_expert_stride(ggml_backend_buffer_type_t buft, const struct ggml_tensor *matrix);

/* A view of one expert, as which a matrix of experts is filled: `stride` bytes from one to the next
 * where the device keeps them. */
struct ggml_tensor device_expert_view(struct ggml_tensor *matrix, size_t stride, uint32_t expert);

/* Writes zeros as the whole of a tensor: some devices decide then in which form they keep it.
 * False: no memory. */
bool device_write_zeros(struct ggml_tensor *tensor);

#endif
