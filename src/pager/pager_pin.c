/*
 * Pins, and what empties the pager: recovery after a failed or cancelled graph, dropping all,
 * changing the budget. These wait; nothing else outside the readers does.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"
#include "base/error.h"

static void pin_one(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (x->pins++ == 0)
        p->pin_bytes += extent_matrix(p, e)->stride;
    if (!x->order) /* not announced, so not counted yet */
        p->policy.ops->touch(&p->policy, e);
    extent_asked(p, e);
    extent_unguard(p, e);
    if (x->state == EXTENT_ABSENT)
        queue_push(p, e, QUEUE_DEMAND);
    else if (x->state == EXTENT_QUEUED)
        queue_promote(p, e, QUEUE_DEMAND);
}

static void unpin_one(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (x->pins == 0)
        return;
    if (--x->pins == 0)
        p->pin_bytes -= extent_matrix(p, e)->stride;
    extent_settle(p, e);
}

/* Bytes the pins would take together with those of `extents`; UINT64_MAX: no such extent. */
static uint64_t pin_bytes_with(const struct pager *p, const uint32_t *extents, size_t n)
{
    uint64_t bytes = p->pin_bytes;
    for (size_t i = 0; i < n; i++) {
        if (extents[i] >= p->extents.n || p->extents.at[extents[i]].pins == UINT16_MAX)
            return UINT64_MAX;
        if (p->extents.at[extents[i]].pins == 0)
            bytes += extent_matrix(p, extents[i])->stride;
    }
    return bytes;
}

static bool all_there(const struct pager *p, const uint32_t *extents, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p->extents.at[extents[i]].state != EXTENT_RESIDENT)
            return false;
    return true;
}

static bool has_failed(const struct pager *p)
{
    return atomic_load_explicit(&p->failed, memory_order_relaxed);
}

static int pin_wait(struct pager *p, const uint32_t *extents, size_t n, struct bmoe_error *err)
{
    int64_t start = clock_now_us();
    while (!has_failed(p) && !all_there(p, extents, n))
        wait_done(p);
    p->count.pin_wait_us += (uint64_t)(clock_now_us() - start);
    if (!has_failed(p))
        return 0;
    if (err)
        *err = p->error;
    return p->error.code;
}

int pager_pin(struct pager *p, const uint32_t *extents, size_t n, struct bmoe_error *err)
{
    pthread_mutex_lock(p->lock);
    uint64_t bytes = pin_bytes_with(p, extents, n);
    int rc;
    if (bytes == UINT64_MAX) {
        rc = error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST, "no such extent to pin");
    } else if (bytes > room_pin_limit(p)) {
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST,
                       "%llu bytes of experts cannot be pinned together: the budget leaves %llu",
                       (unsigned long long)bytes, (unsigned long long)room_pin_limit(p));
    } else {
        for (size_t i = 0; i < n; i++)
            pin_one(p, extents[i]);
        readers_wake(p);
        rc = pin_wait(p, extents, n, err);
        for (size_t i = 0; rc && i < n; i++)
            unpin_one(p, extents[i]);
    }
    pthread_mutex_unlock(p->lock);
    return rc;
}

bool pager_pin_resident(struct pager *p, const uint32_t *extents, size_t n)
{
    pthread_mutex_lock(p->lock);
    uint64_t bytes = pin_bytes_with(p, extents, n);
    bool can = bytes != UINT64_MAX && bytes <= room_pin_limit(p) / 2 && all_there(p, extents, n);
    for (size_t i = 0; can && i < n; i++)
        pin_one(p, extents[i]);
    pthread_mutex_unlock(p->lock);
    return can;
}

void pager_unpin(struct pager *p, const uint32_t *extents, size_t n)
{
    pthread_mutex_lock(p->lock);
    for (size_t i = 0; i < n; i++)
        if (extents[i] < p->extents.n)
            unpin_one(p, extents[i]);
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
}

bool pager_failed(const struct pager *p)
{
    return has_failed(p);
}

/* Nothing announced, nothing queued that nobody sleeps on, nothing under way. */
static void quiesce(struct pager *p)
{
    order_pass(p, p->order.next);
    queue_cancel_all(p, QUEUE_ROUTED);
    queue_cancel_all(p, QUEUE_AHEAD);
    while (p->queue[QUEUE_DEMAND].n || p->n_reading || p->n_evicting)
        wait_done(p);
}

/* Empties every resident, unpinned extent, or only those that hold zeros. */
static void empty_all(struct pager *p, bool only_zeroed)
{
    for (uint32_t e = 0; e < p->extents.n; e++) {
        const struct extent *x = &p->extents.at[e];
        if (x->state != EXTENT_RESIDENT || x->pins || (only_zeroed && !(x->flags & EXTENT_ZEROED)))
            continue;
        p->count.evictions++;
        room_empty(p, e, true);
    }
}

int pager_recover(struct pager *p, struct bmoe_error *err)
{
    pthread_mutex_lock(p->lock);
    quiesce(p);
    empty_all(p, true);
    int rc = p->error.code;
    if (rc && err)
        *err = p->error;
    p->error = (struct bmoe_error){0};
    atomic_store_explicit(&p->failed, false, memory_order_relaxed);
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
    return rc;
}

void pager_drop_all(struct pager *p)
{
    pthread_mutex_lock(p->lock);
    quiesce(p);
    empty_all(p, false);
    policy_forget(&p->policy);
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
}

int pager_budget_set(struct pager *p, uint64_t bytes, struct bmoe_error *err)
{
    int rc = 0;
    pthread_mutex_lock(p->lock);
    uint64_t floor = sizes_floor(p, p->place, p->pin_bytes);
    if (p->place != BMOE_PLACE_NONE)
        floor += p->pin_bytes;
    if (bytes < floor)
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST,
                       "a budget of %llu bytes is below the floor of %llu",
                       (unsigned long long)bytes, (unsigned long long)floor);
    if (rc == 0) {
        p->budget_bytes = bytes;
        sizes_update(p);
        if (p->started)
            room_shrink(p);
    }
    pthread_mutex_unlock(p->lock);
    return rc;
}
