/*
 * Filling the slots while the device computes. Loader threads take jobs (a dense weight, or an
 * expert with all its matrices) of the layers that have a slot at the moment; the graph's thread
 * says which layers those are and waits for what it is about to use. What an expert's bytes come
 * from: the host's memory where they are there in the file's layout (lent and pinned for the copy),
 * else a direct read.
 *
 * A layer is closed, or open: it has a slot. Layers open in graph order; layer i may be open only
 * when layer i - n_slots is closed and none of its jobs is under way. Per expert of an open layer:
 *   ready    in the slot            taken   a loader is at it, or it is ready
 *   urgent   the graph waits        want    to be read when nothing is more urgent
 *
 * Why nothing deadlocks: loaders wait for jobs only, never for the graph.
 *
 * Threads: one graph thread for everything below but arena_failed, which any may ask.
 */
#ifndef BMOE_DEVICE_ARENA_H
#define BMOE_DEVICE_ARENA_H

#include "device/layers.h"
#include "pager/pager.h"

struct arena;

/* For tests. */
struct arena_hooks {
    uint32_t delay_us;     /* before the first job of each layer */
    bool skip_demand;      /* experts that were not predicted are not read */
    bool skip_dense_wait;  /* the graph does not wait for dense weights */
    bool skip_expert_wait; /* nor for experts */
};

struct arena_config {
    struct pager *pager;
    struct layers *layers; /* borrowed */
    unsigned n_loaders;    /* 1..64 */
    bool routed;           /* else whole layers */
    double whole_part;     /* a site that routes to more than this has the next read whole */
    struct arena_hooks hooks;
};

int arena_create(struct arena **out, const struct arena_config *config, struct bmoe_error *err);
void arena_destroy(struct arena *a);

/* A graph begins: nothing is in the slots, the first layers open. */
void arena_begin(struct arena *a);
/* It has ended, however: closes all and waits for the loaders. 0, or the error of a read. */
int arena_end(struct arena *a, struct bmoe_error *err);

/* Waits until the dense weights of an open layer are there; false: a read has failed. */
bool arena_dense(struct arena *a, uint32_t layer);
/* The site (an index of layers->sites) routes to `set`, n_routed of its experts; NULL: not known,
 * so to any. Waits until they are there. */
bool arena_experts(struct arena *a, uint32_t site, const uint64_t *set);
/* The device is through with this layer and those before it. */
void arena_passed(struct arena *a, uint32_t layer);
/* Whether a layer has a slot. */
bool arena_is_open(const struct arena *a, uint32_t layer);

bool arena_failed(const struct arena *a);

struct arena_counters {
    uint64_t read_bytes, host_bytes, carried_bytes; /* uploads by where they came from */
    uint64_t stall_us;
    uint64_t routed, demand; /* experts; those not ahead when their routing was known */
    uint64_t unused_bytes;   /* read ahead and not routed to */
    uint64_t buffer_bytes;   /* of the loaders */
};
void arena_counters(const struct arena *a, struct arena_counters *out);

#endif
