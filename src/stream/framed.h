/*
 * Matmuls' weights where no fault serves: pinned before they are computed, released after. The
 * experts of a pinned matmul lie in whatever frames the pager had free (pager.h), so for its time
 * the node reads ids that name frames instead of experts: src[2] is a tensor of ours, and the
 * weight's ne[2] covers the frames. The graph's own ids are not written to; nobody else sees a
 * change. Several may be pinned and redirected at a time, each of a weight of its own.
 *
 * Threads: the one that runs the graph.
 */
#ifndef BMOE_STREAM_FRAMED_H
#define BMOE_STREAM_FRAMED_H

#include "stream/weights.h"

#define FRAMED_MATMULS 8 /* as many as a site has matrices */

struct framed_matmul {
    const struct weight *item; /* NULL: free */
    uint32_t *extents;         /* n of them */
    size_t n;
    bool asked;                  /* its node was; else it is pinned ahead */
    int32_t *ids;                /* the frames, [n_used, n_tokens] */
    struct ggml_tensor *node;    /* redirected, or NULL */
    struct ggml_tensor *own_ids; /* the node's src[2], put back on release */
    struct ggml_tensor frames;
    int64_t n_expert; /* the weight's ne[2], put back on release */
};

struct framed {
    struct pager *pager;
    size_t extents_cap, ids_cap;
    uint32_t *extents;  /* FRAMED_MATMULS times extents_cap */
    int32_t *ids;       /* FRAMED_MATMULS times ids_cap */
    uint32_t *frame_of; /* scratch, by slice */
    struct framed_matmul at[FRAMED_MATMULS];
};

/* extents_cap: slices of the largest weight; ids_cap: ids of the widest graph. */
int framed_init(struct framed *p, struct pager *pager, size_t extents_cap, size_t ids_cap,
                struct bmoe_error *err);
void framed_fini(struct framed *p);

/* Its node is asked for: pins the slices of a weight whose bits are in set (NULL: all) and waits
 * for them; 0 or the error of a read. What was pinned ahead needs no wait. */
int framed_wait(struct framed *p, const struct weight *item, const uint64_t *set,
                struct bmoe_error *err);
/* Pins them ahead of that, without waiting: false when some are not there, or too much would be
 * pinned. */
bool framed_ahead(struct framed *p, const struct weight *item, const uint64_t *set);
/* Lets a MUL_MAT_ID over the pinned weight read the frames. False when an id names nothing that is
 * pinned. */
bool framed_redirect(struct framed *p, struct ggml_tensor *node, const struct weight *item,
                     const uint64_t *set);
/* What was asked for so far is computed: puts the ids back and releases the weights. */
void framed_computed(struct framed *p);
/* All of it, also what was pinned ahead. */
void framed_release(struct framed *p);

#endif
