/*
 * Wide prompt graphs on a device. Between prefill_begin and prefill_end the layer weights are bound
 * to the device, and the nodes of the graph, told in order by the scheduler's callback, pace the
 * arena that fills them:
 *   - at the first node that reads a weight of a layer, the layer's dense weights are waited for;
 *     once that node is computed the layer before is through, and its slot is filled anew;
 *   - at the routing node the routed experts are waited for; at an expert matmul whose routing was
 *     not recognised, all of them.
 * Nothing of that is learned from another graph, so a graph of another shape is paced as well. The
 * one thing remembered, the name of the last node before a layer, only saves time.
 *
 * A graph that comes back to a layer whose slot is taken fails, as does one whose reads fail.
 *
 * Threads: the one that runs the graph.
 */
#ifndef BMOE_DEVICE_PREFILL_H
#define BMOE_DEVICE_PREFILL_H

#include "device/arena.h"

struct prefill;

struct prefill_config {
    ggml_backend_dev_t device;
    ggml_backend_t backend; /* a stream of it, used for trials */
    struct pager *pager;
    const struct graph_map *map;
    unsigned n_slots, n_loaders;
    bool routed;
    double whole_part;
    bool dense_resident;
    uint64_t convert_limit;
    uint32_t n_tokens_max; /* of one graph */
    uint32_t n_expert_max;
    struct arena_hooks hooks;
};

/* The sources are borrowed for the call. Fails with DEVICE and the reason when the device will not
 * do; the caller goes on without it. */
int prefill_create(struct prefill **out, const struct prefill_config *config,
                   const struct layer_source *sources, uint32_t n, struct bmoe_error *err);
void prefill_destroy(struct prefill *p);

void prefill_begin(struct prefill *p);
/* Puts the host's binding back, however the graph ended. 0, or why it was stopped. */
int prefill_end(struct prefill *p, struct bmoe_error *err);
/* Whether the running graph is to be stopped; prefill_node says so by its answers too. */
bool prefill_stopped(const struct prefill *p);
/* Whether the graph that just failed taught how to place another one: run it again. */
bool prefill_learned(struct prefill *p);
/* The scheduler's callback between the two. */
bool prefill_node(struct prefill *p, struct ggml_tensor *node, bool ask);

/* The experts that the last rows of the last graph were routed to at this site of the map, a bit
 * each; NULL: not known. Decode is likely to want them next. */
const uint64_t *prefill_recent(const struct prefill *p, uint32_t site);

struct prefill_counters {
    struct arena_counters arena;
    uint64_t nodes;       /* computed on the device */
    uint64_t splits;      /* changes between device and host */
    uint64_t cpu_matmuls; /* with layer weights, on the host all the same */
    uint64_t device_bytes, host_bytes;
    uint32_t n_slots, n_carried, n_kept;
    enum ggml_type wrong_type; /* see layers.h */
};
void prefill_counters(const struct prefill *p, struct prefill_counters *out);

#endif
