/*
 * Mode NONE: frames. Without userfaultfd an extent is touched only while it is pinned, so it need
 * not have an address of its own for good: it is read into whatever frame is free. Nothing is
 * mapped, moved or zeroed on the way, which is what a read costs least; the price is that whoever
 * uses an extent asks where it lies. Extents of one stride share a pool, so that gate and up of all
 * layers lend each other their room.
 *
 * The memory behind frames stays within the budget: a frame is taken only for an extent that is
 * counted, and one that was given back with its memory is taken first. A victim's frame keeps its
 * memory only when the reader that empties it fills one of the same pool (victim.kept).
 */
#include "pager/pager_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct pool *pool_create(struct pager *p, uint64_t stride)
{
    uint64_t cap = p->config.reserve_bytes / stride;
    struct pool *k = calloc(1, sizeof *k);
    if (!k || cap == 0 || cap >= EXTENT_NONE) {
        free(k);
        return NULL;
    }
    k->stride = stride;
    k->cap = (uint32_t)cap;
    k->free = malloc(cap * sizeof *k->free);
    k->base = k->free ? memory_reserve(cap * stride, PROT_READ | PROT_WRITE) : NULL;
    if (!k->base) {
        free(k->free);
        free(k);
        return NULL;
    }
    return k;
}

struct pool *pool_for(struct pager *p, uint64_t stride)
{
    if (p->place != BMOE_PLACE_NONE)
        return NULL;
    for (unsigned i = 0; i < p->n_pools; i++)
        if (p->pools[i]->stride == stride)
            return p->pools[i];
    struct pool *k = p->n_pools < PAGER_MAX_POOLS ? pool_create(p, stride) : NULL;
    if (k)
        p->pools[p->n_pools++] = k;
    return k;
}

void pools_destroy(struct pager *p)
{
    for (unsigned i = 0; i < p->n_pools; i++) {
        munmap(p->pools[i]->base, p->pools[i]->cap * p->pools[i]->stride);
        free(p->pools[i]->free);
        free(p->pools[i]);
    }
    p->n_pools = 0;
}

bool frames_stay(const struct pager *p)
{
    return p->n_pools == 1;
}

/* A pool's last page may be mostly unused, so each may go beyond the budget by one. */
void frames_huge(struct pager *p)
{
    if ((uint64_t)p->n_pools * MEMORY_HUGE_BYTES > p->budget_bytes / 32)
        return;
    for (unsigned i = 0; i < p->n_pools; i++)
        memory_huge(p->pools[i]->base, p->pools[i]->base + p->pools[i]->cap * p->pools[i]->stride);
    p->frames_huge = true;
}

void frames_small(struct pager *p)
{
    for (unsigned i = 0; p->frames_huge && i < p->n_pools; i++)
        (void)madvise(p->pools[i]->base, p->pools[i]->cap * p->pools[i]->stride, MADV_NOHUGEPAGE);
    p->frames_huge = false;
}

void frames_take(struct pager *p, const struct group *g)
{
    struct pool *k = g->m->pool;
    if (!k)
        return;
    for (uint32_t e = g->first; e < g->first + g->n; e++) {
        assert(k->n_free > 0 || k->n_used < k->cap); /* a frame for every extent of the stride */
        p->extents.at[e].frame = k->n_free ? k->free[--k->n_free] : k->n_used++;
    }
}

void frame_give_back(struct pager *p, uint32_t e)
{
    struct pool *k = extent_matrix(p, e)->pool;
    if (k)
        k->free[k->n_free++] = p->extents.at[e].frame;
}

uint32_t pager_frame(const struct pager *p, uint32_t extent)
{
    pthread_mutex_lock(p->lock);
    const struct matrix *m = extent_matrix(p, extent);
    uint32_t frame = m->pool ? p->extents.at[extent].frame : extent - m->first_extent;
    pthread_mutex_unlock(p->lock);
    return frame;
}
