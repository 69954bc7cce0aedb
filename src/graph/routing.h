/*
 * Reading a routing decision: the ids tensor of a MUL_MAT_ID, I32 [n_used, n_tokens], rows nb[1]
 * bytes apart (a view of an argsort, so not contiguous), wherever its buffer lies.
 */
#ifndef BMOE_GRAPH_ROUTING_H
#define BMOE_GRAPH_ROUTING_H

#include <ggml.h>
#include <stdbool.h>
#include <stdint.h>

/* Words of a bit set over n_expert experts. */
#define ROUTING_WORDS(n_expert) (((n_expert) + 63) / 64)

struct routing {
    uint32_t n_tokens, n_used;
    uint32_t n_routed; /* distinct experts */
};

/* Sets in `set` (ROUTING_WORDS(n_expert) words, cleared first) the experts that ids names, and
 * answers how many there are. scratch of scratch_bytes serves for device memory; false when ids are
 * on a device and do not fit it. Ids out of range are ignored: they are hints. */
bool routing_read(struct routing *out, uint64_t *set, uint32_t n_expert,
                  const struct ggml_tensor *ids, void *scratch, size_t scratch_bytes);

/* The same for the last n_rows rows alone, of ids that routing_read has just read with this
 * scratch.
 */
void routing_last(uint64_t *set, uint32_t n_expert, const struct ggml_tensor *ids, int64_t n_rows,
                  const void *scratch);

#endif
