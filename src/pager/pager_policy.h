/*
 * Retention: which evictable extent goes first. A policy sees every extent that may be evicted now
 * (resident, not pinned, not announced) and every time one is asked for; it knows nothing of bytes,
 * files or threads, so recorded traces can be replayed through it. The pager calls it with its lock
 * held. A policy has its state in struct policy and may use the links of the extents it holds.
 */
#ifndef BMOE_PAGER_PAGER_POLICY_H
#define BMOE_PAGER_PAGER_POLICY_H

#include "pager/pager_table.h"

struct policy;

struct policy_ops {
    const char *name;
    void (*insert)(struct policy *p, uint32_t e); /* e may be evicted from now on */
    void (*touch)(struct policy *p, uint32_t e);  /* e, held by the policy or not, was asked for */
    void (*remove)(struct policy *p, uint32_t e); /* e may not be evicted any more */
    uint32_t (*victim)(const struct policy *p);   /* who goes first, EXTENT_NONE when it is empty */
};

struct policy {
    const struct policy_ops *ops;
    struct extent_table *table; /* borrowed */
    struct list recent;         /* oldest first */
    uint32_t n;                 /* extents held */
};

/* Least recently used. */
extern const struct policy_ops policy_lru;

void policy_init(struct policy *p, const struct policy_ops *ops, struct extent_table *table);

#endif
