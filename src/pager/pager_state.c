/*
 * The states of extents, and every sum that follows from them (the equations in
 * pager_internal.h): the only file that sets extent.state. All with the lock held.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"

#include <assert.h>

static uint64_t bytes_of(const struct pager *p, uint32_t e)
{
    return extent_matrix(p, e)->stride;
}

static bool counted(enum extent_state s)
{
    return s == EXTENT_READING || s == EXTENT_RESIDENT || s == EXTENT_EVICTING;
}

static bool allowed(enum extent_state from, enum extent_state to)
{
    static const uint8_t next[] = {
        [EXTENT_ABSENT] = 1 << EXTENT_QUEUED,
        [EXTENT_QUEUED] = 1 << EXTENT_READING | 1 << EXTENT_ABSENT,
        [EXTENT_READING] = 1 << EXTENT_RESIDENT | 1 << EXTENT_ABSENT,
        [EXTENT_RESIDENT] = 1 << EXTENT_EVICTING,
        [EXTENT_EVICTING] = 1 << EXTENT_ABSENT,
    };
    return next[from] >> to & 1;
}

static void peak_note(struct pager *p)
{
    uint64_t now = p->used_bytes - p->covered_bytes + p->staging_bytes;
    if (now > p->count.peak_budget_bytes)
        p->count.peak_budget_bytes = now;
}

void extent_become(struct pager *p, uint32_t e, enum extent_state to)
{
    struct extent *x = &p->extents.at[e];
    enum extent_state from = x->state;
    bool fine = allowed(from, to);
    assert(fine);
    (void)fine;
    if (counted(to) && !counted(from))
        p->used_bytes += bytes_of(p, e);
    if (counted(from) && !counted(to)) {
        p->used_bytes -= bytes_of(p, e);
        frame_give_back(p, e);
    }
    p->n_reading += (to == EXTENT_READING) - (from == EXTENT_READING);
    p->n_evicting += (to == EXTENT_EVICTING) - (from == EXTENT_EVICTING);
    if (to == EXTENT_RESIDENT)
        p->count.resident_extents++;
    if (from == EXTENT_RESIDENT)
        p->count.resident_extents--;
    x->state = (uint8_t)to;
    extent_settle(p, e);
    peak_note(p);
}

static void policy_put(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    p->policy.ops->insert(&p->policy, e);
    x->flags |= EXTENT_IN_POLICY;
    p->evictable_bytes += bytes_of(p, e);
    if (x->flags & EXTENT_GUESSED)
        p->ahead_bytes += bytes_of(p, e);
}

static void policy_drop(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    p->policy.ops->remove(&p->policy, e);
    x->flags &= (uint8_t)~EXTENT_IN_POLICY;
    p->evictable_bytes -= bytes_of(p, e);
    if (x->flags & EXTENT_GUESSED)
        p->ahead_bytes -= bytes_of(p, e);
}

void extent_settle(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    bool loose = x->state == EXTENT_RESIDENT && x->pins == 0;
    bool guard = loose && x->order, evictable = loose && !x->order;
    if (!guard && (x->flags & EXTENT_IN_GUARD)) {
        x->flags &= (uint8_t)~EXTENT_IN_GUARD;
        p->guarded_bytes -= bytes_of(p, e);
    }
    if (!evictable && (x->flags & EXTENT_IN_POLICY))
        policy_drop(p, e);
    if (guard && !(x->flags & EXTENT_IN_GUARD)) {
        x->flags |= EXTENT_IN_GUARD;
        p->guarded_bytes += bytes_of(p, e);
    }
    if (evictable && !(x->flags & EXTENT_IN_POLICY))
        policy_put(p, e);
}

/* The policy holds what is guessed apart. */
static void guess_set(struct pager *p, uint32_t e, bool on)
{
    struct extent *x = &p->extents.at[e];
    bool held = x->flags & EXTENT_IN_POLICY;
    if (on == !!(x->flags & EXTENT_GUESSED))
        return;
    if (held)
        policy_drop(p, e);
    x->flags ^= EXTENT_GUESSED;
    if (held)
        policy_put(p, e);
}

void extent_asked(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (x->flags & EXTENT_READ_AHEAD) {
        x->flags &= (uint8_t)~EXTENT_READ_AHEAD;
        p->count.ahead_used++;
    }
    guess_set(p, e, false);
}

void extent_guess(struct pager *p, uint32_t e)
{
    guess_set(p, e, true);
}

void guesses_expire(struct pager *p)
{
    while (p->policy.guessed.head != EXTENT_NONE)
        guess_set(p, p->policy.guessed.head, false);
}

void extent_guard(struct pager *p, uint32_t e)
{
    struct order_ring *r = &p->order;
    if (r->next - r->passed >= r->cap)
        order_pass(p, r->next - r->cap + 1);
    p->extents.at[e].order = r->next;
    r->at[r->next % r->cap] = e;
    r->next++;
    extent_settle(p, e);
}

void extent_unguard(struct pager *p, uint32_t e)
{
    p->extents.at[e].order = 0;
    extent_settle(p, e);
}

void order_pass(struct pager *p, uint64_t before)
{
    struct order_ring *r = &p->order;
    for (; r->passed < before; r->passed++) {
        uint32_t e = r->at[r->passed % r->cap];
        if (p->extents.at[e].order == r->passed)
            extent_unguard(p, e);
    }
}

uint32_t order_last_resident(const struct pager *p)
{
    const struct order_ring *r = &p->order;
    for (uint64_t i = r->next; i > r->passed; i--) {
        uint32_t e = r->at[(i - 1) % r->cap];
        const struct extent *x = &p->extents.at[e];
        if (x->order == i - 1 && (x->flags & EXTENT_IN_GUARD))
            return e;
    }
    return EXTENT_NONE;
}

void extent_evicted(struct pager *p, uint32_t e, bool covered)
{
    struct extent *x = &p->extents.at[e];
    if (covered)
        p->covered_bytes -= bytes_of(p, e);
    extent_become(p, e, EXTENT_ABSENT);
    x->flags &= (uint8_t) ~(EXTENT_ZEROED | EXTENT_GUESSED | EXTENT_READ_AHEAD);
    /* Wanted again in the meantime, or taken from what is still to be used. */
    if ((x->flags & EXTENT_FAULTED) || x->pins)
        queue_push(p, e, QUEUE_DEMAND);
    else if (x->order)
        queue_push(p, e, QUEUE_ROUTED);
}

void extent_placed(struct pager *p, uint32_t e, bool zeroed)
{
    struct extent *x = &p->extents.at[e];
    x->flags |= EXTENT_READ_ONCE;
    if (zeroed)
        x->flags |= EXTENT_ZEROED;
    if (x->flags & EXTENT_FAULTED) {
        x->flags &= (uint8_t)~EXTENT_FAULTED;
        x->order = 0; /* the graph has got to it */
        p->count.fault_wait_us += (uint32_t)clock_now_us() - x->fault_us;
    }
    extent_become(p, e, EXTENT_RESIDENT);
}

void failure_keep(struct pager *p, const struct bmoe_error *err)
{
    if (!p->error.code)
        p->error = *err;
    atomic_store_explicit(&p->failed, true, memory_order_relaxed);
    pthread_cond_broadcast(&p->done);
}

void wait_done(struct pager *p)
{
    p->n_waiting++;
    pthread_cond_wait(&p->done, p->lock);
    p->n_waiting--;
}
