/*
 * Events of a running session, for traces: bmoe_options has the functions they are given to. None
 * changes a bit of an answer. `request` counts the session's requests from 1, `position` is that of
 * the graph's first token (of a route: of its token) in the context.
 */
#ifndef BMOE_TRACE_H
#define BMOE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An expert that a token is routed to. */
struct bmoe_route {
    size_t size;
    uint32_t request, position;
    uint32_t layer; /* number of the routing in the graph, from 0 */
    bool prefill;
    uint32_t n_expert, slot, expert;
    float weight;          /* NaN: unknown */
    bool resident;         /* it was in memory before this routing's reads */
    bool first;            /* no earlier token of the graph was routed to it in this layer */
    uint64_t expert_bytes; /* in the file */
};

/* Why something was read: the load, a touch or a wait, a known routing, a guess. */
enum bmoe_read_cause { BMOE_READ_LOAD, BMOE_READ_FAULT, BMOE_READ_ROUTED, BMOE_READ_AHEAD };

/* A read call of a reader. */
struct bmoe_read {
    size_t size;
    uint32_t request, position;
    uint32_t file; /* number of the shard */
    uint32_t reader;
    uint64_t offset, bytes, latency_us;
    enum bmoe_read_cause cause;
};

/* A node of a graph, computed alone; or, after the last node of a split (op "SPLIT"), the split:
 * the nodes that one device computes in a row. Its time is its nodes', with the copies that bring
 * its inputs, which count for the first. */
struct bmoe_node {
    size_t size;
    uint32_t request, position;
    bool prefill;
    uint32_t ordinal; /* in its graph; of a split: of its last node */
    const char *op, *name;
    int64_t wall_us;
    uint32_t split;     /* its number in the graph */
    const char *device; /* the ggml device that computed it */
};

/* What a decision's choices would score if the answer were read off after a layer: logits of their
 * first tokens, of the last token's row through output norm and head. After the decision. */
struct bmoe_lens {
    size_t size;
    uint32_t request, layer;
    uint32_t n_choices;
    const float *logits; /* during the call */
};

#endif
