/*
 * The parts of a stream: stream.c has its life and the events of a graph, stream_route.c what is
 * asked of the pager when a routing is known, stream_wait.c what is waited for where touches of
 * absent memory cannot be served. All of it runs on the graph's thread but stream_failed.
 */
#ifndef BMOE_STREAM_INTERNAL_H
#define BMOE_STREAM_INTERNAL_H

#include "stream/stream.h"

#include "stream/framed.h"
#include "stream/next_experts.h"

#include <stdatomic.h>

struct site {
    uint64_t *routed; /* of the present graph */
    uint64_t *before; /* of the last wide graph */
    uint32_t n_before;
    const struct ggml_tensor *ids; /* told in this graph, else NULL */
};

struct stream {
    struct stream_config config;
    struct site *sites;
    uint64_t *words;   /* all bit sets */
    uint32_t *extents; /* scratch: the extents of one site */
    struct framed framed;
    /* Of a dense model without faults: the paged matrix that is used after each, and the last used.
     */
    uint32_t *dense_next, dense_last;
    struct predictor predictor;
    struct guess_trial trial;
    int64_t from_us;  /* the graph began */
    bool routed;      /* a routing was told in it */
    uint32_t ordinal; /* of the next node asked for */
    bool wide;
    bool away;          /* in this graph layer weights are bound to a device */
    atomic_bool failed; /* set by the graph's thread, read by abort callbacks */
    struct bmoe_error error;
    struct stream_counters counters;
};

/* The present graph must not go on: s->error, or the pager, says why. */
static inline void stream_fail(struct stream *s)
{
    atomic_store(&s->failed, true);
}

/* stream_route.c */

/* Puts the extents of the set's experts in matrix `weight`, ascending, into out; their number. */
size_t stream_extents(const struct stream *s, uint32_t weight, const uint64_t *set, uint32_t *out);
/* The routing of a site is computed: asks for what it names and, as a guess, for the next site's.
 */
void stream_routed(struct stream *s, uint32_t site, struct ggml_tensor *ids);
/* Asks for all of a matrix, as for one of a dense model. */
void stream_hint_whole(struct stream *s, const struct weight *item, enum pager_class class);

/* stream_wait.c */

/* Without faults: everything the matmul will touch is pinned before it is computed. True: isolate
 * it. */
bool stream_wait_for(struct stream *s, struct ggml_tensor *node, uint32_t weight);

#endif
