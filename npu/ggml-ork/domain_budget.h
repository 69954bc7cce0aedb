/* Device addresses are 32 bits wide and there may be several spaces (IOMMU domains) of them: one
 * after the other is filled with weights, each up to a limit that leaves room for activations,
 * outputs and commands. A weight lies in one domain as a whole. Any thread. */
#ifndef GGML_ORK_DOMAIN_BUDGET_H
#define GGML_ORK_DOMAIN_BUDGET_H

#include <pthread.h>
#include <stdint.h>

#define DOMAIN_BUDGET_MOST 16

struct domain_budget {
    pthread_mutex_t lock; /* guards used */
    uint32_t n;
    uint64_t limit; /* of one domain */
    uint64_t used[DOMAIN_BUDGET_MOST];
};

void domain_budget_init(struct domain_budget *budget, uint32_t n_domains, uint64_t iova_bytes);
/* A domain with room for bytes, taken from it; -ENOMEM. */
int domain_budget_take(struct domain_budget *budget, uint64_t bytes);
void domain_budget_give(struct domain_budget *budget, uint32_t domain, uint64_t bytes);
uint64_t domain_budget_left(struct domain_budget *budget);

#endif
