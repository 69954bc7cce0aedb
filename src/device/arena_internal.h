/*
 * What arena.c and arena_load.c share. The lock guards every member of struct fill, struct
 * open_layer and the counters; config and layers never change after creation.
 */
#ifndef BMOE_DEVICE_ARENA_INTERNAL_H
#define BMOE_DEVICE_ARENA_INTERNAL_H

#include "device/arena.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ARENA_MAX_LOADERS = 64 };

/* Bit sets over the experts of a site; ready is part of taken. */
struct fill {
    uint64_t *want, *urgent, *taken, *ready, *before;
    bool any_before; /* `before` holds the routing of an earlier graph */
    bool told;       /* in this graph */
    uint32_t n_words;
};

struct open_layer {
    bool open, delayed;
    uint32_t dense_next, dense_done; /* entries from first_dense; done == n_dense: all there */
    uint32_t n_busy;                 /* jobs under way */
    bool resident_there;             /* its resident weights were written once */
};

struct arena_job {
    uint32_t layer;
    uint32_t site;  /* of layers->sites, or LAYERS_NONE: dense */
    uint32_t index; /* entry, or expert */
};

struct loader {
    struct arena *arena;
    pthread_t thread;
    char *buffer;                                   /* of arena.buffers */
    uint64_t read_bytes, host_bytes, carried_bytes; /* of the present job */
};

struct arena {
    struct arena_config config;
    pthread_mutex_t lock;
    pthread_cond_t work; /* loaders: a job may be there, or stop */
    pthread_cond_t done; /* the graph: a job has ended */
    struct fill *fills;  /* by site */
    struct open_layer *open;
    uint64_t *words;
    uint32_t next_open; /* layers below it were opened in this graph */
    bool stop;
    atomic_bool failed; /* relaxed; error is read under the lock */
    struct bmoe_error error;
    struct arena_counters count;
    struct pager_buffers buffers;
    struct loader loaders[ARENA_MAX_LOADERS];
    unsigned n_loaders;
};

static inline bool bit_get(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}
static inline void bit_set(uint64_t *set, uint32_t i)
{
    set[i / 64] |= (uint64_t)1 << (i % 64);
}

/* arena_load.c: does the job, without the lock; 0 or the error of a read. */
int arena_load(struct loader *r, const struct arena_job *job, struct bmoe_error *err);
/* Bytes of buffer a loader needs. */
uint64_t arena_load_buffer_bytes(const struct layers *l);

#endif
