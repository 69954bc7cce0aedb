/* See domain_budget.h. Three quarters of an address space are for weights: 3071 MiB of 4095, where
 * 3000 are what has been filled in practice [fork]. */
#include "domain_budget.h"

#include <errno.h>

void domain_budget_init(struct domain_budget *b, uint32_t n_domains, uint64_t iova_bytes)
{
    pthread_mutex_init(&b->lock, NULL);
    b->n = n_domains < DOMAIN_BUDGET_MOST ? n_domains : DOMAIN_BUDGET_MOST;
    b->limit = iova_bytes / 4 * 3;
}

int domain_budget_take(struct domain_budget *b, uint64_t bytes)
{
    int rc = -ENOMEM;

    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; rc < 0 && i < b->n; i++)
        if (bytes <= b->limit && b->used[i] <= b->limit - bytes) {
            b->used[i] += bytes;
            rc = (int)i;
        }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void domain_budget_give(struct domain_budget *b, uint32_t domain, uint64_t bytes)
{
    pthread_mutex_lock(&b->lock);
    b->used[domain] -= bytes;
    pthread_mutex_unlock(&b->lock);
}

uint64_t domain_budget_left(struct domain_budget *b)
{
    uint64_t left = 0;

    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < b->n; i++)
        left += b->limit - b->used[i];
    pthread_mutex_unlock(&b->lock);
    return left;
}
