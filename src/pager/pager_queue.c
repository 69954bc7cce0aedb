/*
 * What is to be read, in three classes, and the hints that fill them. Every operation on one extent
 * is O(1). Readers are woken here and nowhere else.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"

void queue_push(struct pager *p, uint32_t e, enum queue_class q)
{
    struct extent *x = &p->extents.at[e];
    extent_become(p, e, EXTENT_QUEUED);
    x->queue = (uint8_t)q;
    x->queued_us = (uint32_t)clock_now_us();
    list_push_tail(&p->extents, &p->queue[q], e);
}

void queue_promote(struct pager *p, uint32_t e, enum queue_class q)
{
    struct extent *x = &p->extents.at[e];
    if (x->queue <= q)
        return;
    list_remove(&p->extents, &p->queue[x->queue], e);
    x->queue = (uint8_t)q;
    list_push_tail(&p->extents, &p->queue[q], e);
}

void queue_cancel(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    list_remove(&p->extents, &p->queue[x->queue], e);
    extent_become(p, e, EXTENT_ABSENT);
    x->flags &= (uint8_t)~EXTENT_GUESSED;
}

void queue_cancel_all(struct pager *p, enum queue_class q)
{
    while (p->queue[q].head != EXTENT_NONE)
        queue_cancel(p, p->queue[q].head);
}

void readers_wake(struct pager *p)
{
    if (p->n_idle == 0 || !room_more(p))
        return;
    uint32_t n = p->queue[QUEUE_DEMAND].n + p->queue[QUEUE_ROUTED].n + p->queue[QUEUE_AHEAD].n;
    for (uint32_t i = 0; i < n && i < p->n_idle; i++)
        pthread_cond_signal(&p->work);
}

static void hint_routed(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (x->state == EXTENT_RESIDENT)
        p->count.hits++;
    else
        p->count.misses++;
    extent_asked(p, e);
    p->policy.ops->touch(&p->policy, e);
    extent_guard(p, e);
    if (x->state == EXTENT_ABSENT)
        queue_push(p, e, QUEUE_ROUTED);
    else if (x->state == EXTENT_QUEUED)
        queue_promote(p, e, QUEUE_ROUTED);
}

static void hint_ahead(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (x->pins || x->order)
        return;
    extent_guess(p, e);
    if (x->state == EXTENT_ABSENT)
        queue_push(p, e, QUEUE_AHEAD);
}

void pager_hint(struct pager *p, enum pager_class cls, const uint32_t *extents, size_t n,
                bool cancel_ahead)
{
    pthread_mutex_lock(p->lock);
    for (size_t i = 0; i < n; i++) {
        if (extents[i] >= p->extents.n)
            continue;
        if (cls == PAGER_ROUTED)
            hint_routed(p, extents[i]);
        else
            hint_ahead(p, extents[i]);
    }
    if (cls == PAGER_ROUTED && cancel_ahead) { /* those of this hint are no guesses any more */
        queue_cancel_all(p, QUEUE_AHEAD);
        guesses_expire(p);
    }
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
}

/* The graph is done with e: what is only queued for it needs no reading any more. */
static void use_up(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    extent_unguard(p, e);
    if (x->state == EXTENT_QUEUED && x->queue == QUEUE_ROUTED)
        queue_cancel(p, e);
}

void pager_used(struct pager *p, const uint32_t *extents, size_t n)
{
    pthread_mutex_lock(p->lock);
    for (size_t i = 0; i < n; i++)
        if (extents[i] < p->extents.n)
            use_up(p, extents[i]);
    if (n == 0) {
        order_pass(p, p->order.next);
        queue_cancel_all(p, QUEUE_ROUTED);
    }
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
}
