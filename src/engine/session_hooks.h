/*
 * Opening a session with faults for tests, or with somebody who times its graphs. Not part of the
 * public API and not exported from the shared library.
 */
#ifndef BMOE_ENGINE_SESSION_HOOKS_H
#define BMOE_ENGINE_SESSION_HOOKS_H

#include "device/arena.h"
#include "pager/pager.h"
#include "stream/guess_trial.h"

/* What the graph's thread passes, in order: a graph begins; its nodes are asked for and each is
 * skipped or wanted; after a wanted one the nodes so far are computed, and it is told and settled;
 * the graph ends. */
enum session_moment {
    MOMENT_GRAPH_BEGINS,
    MOMENT_NODE_ASKED,
    MOMENT_NODE_SKIPPED,
    MOMENT_NODE_WANTED,
    MOMENT_NODE_TOLD,
    MOMENT_NODE_SETTLED,
    MOMENT_GRAPH_ENDS
};

struct session_hooks {
    const char *hide_weight;   /* the capture leaves this weight out */
    const struct pager_io *io; /* the reads of expert and dense weights */
    bool hide_routing;         /* no routing node is recognised */
    enum guess_mode guesses;   /* of the next layer's experts in decode */
    ggml_backend_dev_t device; /* the prefill device, whatever its name; NULL: by its name */
    unsigned device_slots;     /* layers it holds at a time; 0: 2 */
    bool tell_at_once;         /* progress within a graph at every chance, not now and then */
    uint32_t logit_rows;       /* perplexity has no more at a time; 0: by their bytes */
    bool cold_start;           /* decode after a device's prompt finds nothing read ahead */
    struct arena_hooks arena;
    /* Called at each moment; true at NODE_ASKED: the node is to be computed alone. node is NULL
     * where a graph begins or ends. */
    bool (*on_moment)(void *user, enum session_moment moment, const struct ggml_tensor *node);
    void *moment_user;
};

int session_open_hooked(struct bmoe_session **out, const struct bmoe_options *o,
                        const struct session_hooks *hooks, struct bmoe_error *err);

/* The last device graph's fields are in here. */
struct prefill *session_prefill(struct bmoe_session *s);

/* The pager of a session, for its counters and its trace. */
struct pager *session_pager(struct bmoe_session *s);

#endif
