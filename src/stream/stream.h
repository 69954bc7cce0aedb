/*
 * Experts on the host while a graph runs. Consumes the nodes of every graph, in order, as the
 * scheduler's callback tells them, and turns them into hints to the pager:
 *   - a routing node is isolated; its ids become ROUTED hints for the site's matrices, in graph
 * order;
 *   - in wide graphs the next site is read AHEAD, whole or as routed by the previous wide graph;
 *   - where no fault serves (BMOE_PLACE_NONE) the routed experts of each matmul are pinned before
 *     it and released after (framed.h); in narrow graphs matmuls that need not be waited for are
 *     computed together; a matmul whose routing was not seen fails the graph;
 *   - a weight that is not bound to our memory is bound on sight.
 * Nothing here changes what a graph computes.
 *
 * Threads: the thread that runs the graph. stream_failed may be asked from any.
 */
#ifndef BMOE_STREAM_STREAM_H
#define BMOE_STREAM_STREAM_H

#include "stream/guess_trial.h"
#include "stream/weights.h"

struct stream;

struct stream_config {
    struct pager *pager;
    const struct graph_map *map;
    struct weights *weights;
    bool paged;              /* else only unbound weights are looked for */
    bool wait;               /* pin before each matmul: no userfaultfd */
    uint64_t ahead_bytes;    /* wait: what is read ahead at a time of a dense model */
    size_t n_ids;            /* ids that one graph routes at most: ubatch times experts used */
    bool load_all;           /* hint every expert of a site */
    bool blind;              /* test hook: no routing node is recognised */
    enum guess_mode guesses; /* in narrow graphs; AUTO but for measurements */
};

int stream_create(struct stream **out, const struct stream_config *config, struct bmoe_error *err);
void stream_destroy(struct stream *s);

/* Before each graph (each llama_decode of at most one ubatch). away: its experts are somebody
 * else's (bound to a device); only weights that are bound to nothing are looked for. */
void stream_graph_begin(struct stream *s, bool away);
/* After it, however it ended: releases what is still pinned. Answers 0 or the error of a failed
 * read, a missed routing or an unbound weight; the pager is clean again afterwards. */
int stream_graph_end(struct stream *s, struct bmoe_error *err);

/* Between graphs: the experts of `set` at this site are likely to be wanted; they are read when
 * nothing else is. */
void stream_expect(struct stream *s, uint32_t site, const uint64_t *set);

/* The scheduler's callback: ask first (true: compute up to this node and call again), then the
 * computed node (false: stop). */
bool stream_node(struct stream *s, struct ggml_tensor *node, bool ask);

/* True when the running graph must stop. For abort callbacks. */
bool stream_failed(const struct stream *s);

/* Since creation. Of the matmuls that were pinned before they were computed (waited), joined are
 * those that were computed together with what follows. */
struct stream_counters {
    uint64_t graphs, routings, matmuls_waited, matmuls_joined, late_weights;
};
void stream_counters(const struct stream *s, struct stream_counters *out);

#endif
