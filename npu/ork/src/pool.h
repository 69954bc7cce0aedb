/* Device memory of one device: the guard page, accounting, and buffers that are used again.
 *
 * A buffer is either kept by its owner (weights, inputs) or borrowed for one batch and returned.
 * Returned buffers keep their address and are handed out again, because destroying and creating
 * costs up to milliseconds and reusing an address at once is a hazard of its own. Outputs have a
 * kind of their own: the host never writes them, so none of its cache lines can fall on a result.
 *
 * Threads: any. The mutex guards every field below it. */
#ifndef ORK_POOL_H
#define ORK_POOL_H

#include <pthread.h>
#include <stdint.h>

#include "transport/transport.h"

#define ORK_POOL_DOMAINS 16
#define ORK_POOL_KEEP    (UINT64_C(256) << 20) /* most bytes kept for reuse */

enum ork_bo_kind {
    ORK_KIND_COMMANDS, /* write-combined */
    ORK_KIND_INPUT,    /* host writes, device reads */
    ORK_KIND_OUTPUT,   /* device writes, host reads */
    ORK_N_KINDS,
};

struct ork_pooled;

/* Invariants: kept_bytes = sum over the free lists; held_bytes counts every buffer that exists,
 * guards apart. */
struct ork_pool {
    struct ork_transport *transport;
    pthread_mutex_t lock;
    struct ork_pooled *free[ORK_N_KINDS];
    uint64_t kept_bytes;
    uint64_t held_bytes;
    uint64_t peak_bytes;
    struct ork_bo guards[ORK_POOL_DOMAINS];
    uint16_t guarded; /* domains that were asked for a guard page */
};

int ork_pool_init(struct ork_pool *pool, struct ork_transport *transport);
/* Destroys what was returned and the guards. */
void ork_pool_fini(struct ork_pool *pool);

/* A new buffer of exactly so many bytes (page granularity), its owner's until ork_pool_destroy.
 * Its address is never 0 and its end never above 4 GiB. */
int ork_pool_create(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind, uint32_t domain,
                    struct ork_bo *out);
void ork_pool_destroy(struct ork_pool *pool, struct ork_bo *bo);

/* One that fits, used before or new; contents undefined. Takes bytes = 0: a zeroed struct. */
int ork_pool_get(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind, uint32_t domain,
                 struct ork_bo *out);
/* Nothing may use it any more. Takes a zeroed struct; zeroes *bo. */
void ork_pool_put(struct ork_pool *pool, struct ork_bo *bo, enum ork_bo_kind kind);

#endif
