/*
 * Retention: which evictable extent goes first. A policy sees every extent that may be evicted now
 * (resident, not pinned, not announced) and every time one is asked for; it knows nothing of bytes,
 * files or threads, so recorded traces can be replayed through it. The pager calls it with its lock
 * held. A policy has its state in struct policy and may use the links of the extents it holds, and
 * their scores.
 *
 * policy_popular, the pager's: an extent's score is how often it was asked for, every request
 * counting half as much after some further graphs, the fewer the more can be kept; the lowest goes
 * first. Held apart are those guessed for the next layer, which go after everything scored, and the
 * `keep` most recent arrivals, which a thread may just be about to use and which go last: were they
 * to go for a guess, two threads at the smallest budget would take each other's extent in turn.
 */
#ifndef BMOE_PAGER_PAGER_POLICY_H
#define BMOE_PAGER_PAGER_POLICY_H

#include "pager/pager_table.h"

struct policy;

struct policy_ops {
    const char *name;
    void (*insert)(struct policy *p, uint32_t e); /* e may be evicted from now on */
    void (*touch)(struct policy *p, uint32_t e);  /* e, held by the policy or not, was asked for */
    void (*age)(struct policy *p);                /* another graph begins */
    void (*remove)(struct policy *p, uint32_t e); /* e may not be evicted any more */
    uint32_t (*victim)(const struct policy *p);   /* who goes first, EXTENT_NONE when it is empty */
};

struct policy {
    const struct policy_ops *ops;
    struct extent_table *table; /* borrowed */
    struct list recent;         /* oldest first */
    struct list guessed;        /* oldest first */
    uint32_t *heap;             /* lowest score first; table->cap entries */
    uint32_t n_heap, heap_cap;
    uint32_t keep;    /* see above */
    double increment; /* what a request counts now */
    double growth;    /* of that, each graph */
    uint32_t n;       /* extents held */
};

/* Least recently used; for comparison. */
extern const struct policy_ops policy_lru;
/* Least often used, lately. */
extern const struct policy_ops policy_popular;

void policy_init(struct policy *p, const struct policy_ops *ops, struct extent_table *table,
                 uint32_t keep);
/* The part of all extents that the budget holds: how fast requests fade follows from it. */
void policy_pace(struct policy *p, double part);
/* Who goes first among the least used that `fits` takes: the lowest of the heap's first
 * POLICY_LOOK, in which order does not count for much, or the first one beyond; else who goes first
 * of all. */
enum { POLICY_LOOK = 127 };
uint32_t policy_victim_that(const struct policy *p, bool (*fits)(const void *ctx, uint32_t e),
                            const void *ctx);
/* After the table has grown; false when there is no memory. */
bool policy_reserve(struct policy *p);
/* Forgets what was asked for. */
void policy_forget(struct policy *p);
void policy_fini(struct policy *p);

#endif
