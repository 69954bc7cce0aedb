/*
 * A matmul's weights where no fault serves: pinned before it is computed, released after. The
 * experts of a pinned matmul lie in whatever frames the pager had free (pager.h), so for its time
 * the node reads ids that name frames instead of experts: src[2] is a tensor of ours, and the
 * weight's ne[2] covers the frames. The graph's own ids are not written to; nobody else sees a
 * change.
 *
 * Threads: the one that runs the graph. At most one matmul at a time.
 */
#ifndef BMOE_STREAM_PINNED_H
#define BMOE_STREAM_PINNED_H

#include "stream/weights.h"

struct pinned_matmul {
    struct pager *pager;
    uint32_t *extents;  /* room for cap of them; the first n are pinned */
    uint32_t *frame_of; /* by slice of the weight; valid for the pinned ones */
    size_t n, cap;
    int32_t *ids; /* the frames, [n_used, n_tokens], room for ids_cap */
    size_t ids_cap;
    struct ggml_tensor *node;    /* redirected; NULL: none */
    struct ggml_tensor *own_ids; /* the node's src[2], put back on release */
    struct ggml_tensor frames;
    int64_t n_expert; /* the weight's ne[2], put back on release */
};

/* extents_cap: slices of the largest weight; ids_cap: ids of the widest graph. */
int pinned_matmul_init(struct pinned_matmul *m, struct pager *pager, size_t extents_cap,
                       size_t ids_cap, struct bmoe_error *err);
void pinned_matmul_fini(struct pinned_matmul *m);

/* Pins the slices whose bits are in set (NULL: all) and waits for them; 0 or the error of a read.
 */
int pinned_matmul_pin(struct pinned_matmul *m, const struct weight *item, const uint64_t *set,
                      struct bmoe_error *err);
/* Lets a MUL_MAT_ID over the pinned weight read the frames. False when an id names nothing that is
 * pinned. */
bool pinned_matmul_redirect(struct pinned_matmul *m, struct ggml_tensor *node,
                            const struct weight *item, const uint64_t *set);
/* After the node is computed, or instead: puts everything back. Nothing pinned is fine. */
void pinned_matmul_release(struct pinned_matmul *m);

#endif
