/*
 * The context's memory (KV cache, recurrent states) where a prefill device reaches it too. Where a
 * device makes a buffer of memory that is there (buffer_from_host_ptr) the memory stays; else it is
 * moved once to the device's host buffer type, and the pages it leaves are given back to the
 * kernel. For the time of a graph on the device the tensors say that they lie in its buffer, else
 * in one of the CPU's over the same bytes: so the host's graphs are placed as ever.
 *
 * libllama saves and restores states through views that no graph shows; they lie right behind their
 * tensors (docs/seam.md: state_views_lie_behind_their_tensors) and move along. Whoever moves
 * memory has to see by a state that they did.
 *
 * Threads: the one that runs the graphs.
 */
#ifndef BMOE_DEVICE_KV_MEMORY_H
#define BMOE_DEVICE_KV_MEMORY_H

#include <ggml-backend.h>
#include <stdbool.h>
#include <stddef.h>

struct kv_memory;

/* The tensors of the context's memory, which must be clear; they are borrowed, and a moved context
 * must be gone, or moved back, before kv_memory_destroy. NULL: the device has no such memory, or
 * libllama's views are not where they were. */
struct kv_memory *kv_memory_create(ggml_backend_dev_t device, struct ggml_tensor *const *tensors,
                                   size_t n);
void kv_memory_destroy(struct kv_memory *m);
/* Puts the tensors back where they were before; what they held is gone. */
void kv_memory_move_back(struct kv_memory *m);

/* To the device's graphs, or back to the host's. */
void kv_memory_bind(struct kv_memory *m, bool to_device);
/* After libllama has cleared its memory, which is no longer in use: clears what is. */
void kv_memory_cleared(struct kv_memory *m);

size_t kv_memory_bytes(const struct kv_memory *m);
/* Whether the bytes lie elsewhere than libllama put them. */
bool kv_memory_moved(const struct kv_memory *m);
/* The bytes in use, all set to one value: for seeing who reads them. */
void kv_memory_fill(struct kv_memory *m, int value);
/* The buffer type's name. */
const char *kv_memory_name(const struct kv_memory *m);

#endif
