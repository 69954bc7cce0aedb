/*
 * Making room in the budget: which extents a reader takes next, and which it empties for them.
 *
 * Who may evict what. AHEAD and ROUTED reads take the policy's victims but leave it as many extents
 * as there are touching threads (the most recent ones are likely under their hands), and AHEAD
 * never evicts for a guess what an unused guess has brought. Neither takes what a ROUTED hint
 * guards; when only such is left, readers sleep until the graph moves on (a fault, pager_used).
 * A DEMAND read takes victims beyond the touching threads' share first, then what is guarded and
 * needed last, then anything the policy has.
 *
 * Why nothing deadlocks. (1) A reader waits for room only between reads, holding none: READING
 * and EVICTING extents always come to an end by system calls alone. (2) So when a DEMAND read finds
 * no room, either something is READING or EVICTING and will wake it, or all room is free,
 * evictable, guarded or pinned. room_pin_limit keeps pins below capacity minus (touchers + active
 * readers) largest extents with userfaultfd (where a thread may fault while it holds pins), so that
 * room for the largest extent remains; in mode NONE nothing but pager_pin waits, and only for sets
 * that fit. (3) A thread sleeping in a fault needs one extent for one instruction. The floor has
 * room for n_touchers extents beside those the readers are READING, and the policy keeps that many
 * of the latest arrivals out of what it scores, so n_touchers later demands can be served before a
 * demanded extent is evicted: threads do not take each other's extent away in turn.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"

#include <sys/mman.h>

int64_t room_free(const struct pager *p)
{
    return (int64_t)p->budget_bytes - (int64_t)p->staging_bytes -
           (int64_t)(p->used_bytes - p->covered_bytes);
}

/* With the staging that is due: what readers hold beyond it (after the pinned ranges, or a smaller
 * budget) they give back without anybody's help, so pins wait for it and are not refused. */
uint64_t room_pin_limit(const struct pager *p)
{
    uint64_t keep = 0, staging = p->n_active * (p->slot_bytes + p->bounce_bytes);
    if (p->place != BMOE_PLACE_NONE)
        keep = (p->config.n_touchers + (uint64_t)p->n_active) * p->largest_bytes;
    uint64_t taken = staging + keep;
    return p->budget_bytes > taken ? p->budget_bytes - taken : 0;
}

uint32_t room_in_hand(const struct pager *p)
{
    return p->place == BMOE_PLACE_NONE ? 0 : p->config.n_touchers;
}

static bool room_possible(const struct pager *p, enum queue_class q, int64_t need)
{
    int64_t evictable = (int64_t)p->evictable_bytes;
    if (q == QUEUE_DEMAND)
        return room_free(p) + evictable + (int64_t)p->guarded_bytes >= need;
    evictable -= (int64_t)(room_in_hand(p) * p->largest_bytes);
    if (q == QUEUE_AHEAD)
        evictable -= (int64_t)p->ahead_bytes;
    return room_free(p) + (evictable > 0 ? evictable : 0) >= need;
}

struct wanted {
    const struct pager *p;
    const struct pool *pool;
};

static bool of_pool(const void *ctx, uint32_t e)
{
    const struct wanted *w = ctx;
    return extent_matrix(w->p, e)->pool == w->pool;
}

/* Among frames of several sizes a group gets its room from its own: such a victim's frame keeps its
 * memory, where another's is given back and the new one's comes page by page, at a fault each. */
uint32_t room_victim(struct pager *p, enum queue_class q, const struct matrix *for_m)
{
    if (q == QUEUE_DEMAND && p->policy.n <= room_in_hand(p)) {
        uint32_t last = order_last_resident(p);
        if (last != EXTENT_NONE)
            return last;
    }
    if (!for_m || !for_m->pool || frames_stay(p))
        return p->policy.ops->victim(&p->policy);
    const struct wanted w = {p, for_m->pool};
    return policy_victim_that(&p->policy, of_pool, &w);
}

static void victim_take(struct pager *p, struct reader *r, uint32_t e, const struct matrix *for_m)
{
    const struct matrix *m = extent_matrix(p, e);
    r->victims[r->n_victims++] = (struct victim){.addr = extent_addr(p, e),
                                                 .bytes = m->stride,
                                                 .extent = e,
                                                 .kept = m->pool && m->pool == for_m->pool,
                                                 .zeroed = p->extents.at[e].flags & EXTENT_ZEROED};
    if (!r->victims[r->n_victims - 1].kept)
        frames_small(p);
    extent_become(p, e, EXTENT_EVICTING);
    p->count.evictions++;
}

/* Takes victims until `need` bytes fit. True when they do; false when the victims' array is full
 * before that. room_possible must have said yes. */
static bool victims_take(struct pager *p, struct reader *r, enum queue_class q, int64_t need,
                         const struct matrix *for_m)
{
    int64_t missing = need - room_free(p);
    while (missing > 0 && r->n_victims < PAGER_MAX_VICTIMS) {
        uint32_t e = room_victim(p, q, for_m);
        if (e == EXTENT_NONE)
            break;
        missing -= (int64_t)extent_matrix(p, e)->stride;
        victim_take(p, r, e, for_m);
    }
    return missing <= 0;
}

static void group_take(struct pager *p, struct reader *r, uint32_t first, uint32_t n,
                       enum queue_class q)
{
    const struct matrix *m = extent_matrix(p, first);
    r->group =
        (struct group){.m = m, .first = first, .n = n, .padded_bytes = n * m->stride, .queue = q};
    r->covered = true;
    for (unsigned i = 0; i < r->n_victims; i++)
        p->covered_bytes += r->victims[i].bytes;
    uint32_t now = (uint32_t)clock_now_us();
    for (uint32_t e = first; e < first + n; e++) {
        struct extent *x = &p->extents.at[e];
        list_remove(&p->extents, &p->queue[x->queue], e);
        if (x->queue == QUEUE_AHEAD) {
            x->flags |= EXTENT_READ_AHEAD;
            p->count.ahead_reads++;
        }
        p->count.queue_wait_us += now - x->queued_us;
        p->count.rereads += (x->flags & EXTENT_READ_ONCE) != 0;
        extent_become(p, e, EXTENT_READING);
    }
}

static bool group_try(struct pager *p, struct reader *r, uint32_t first, uint32_t n,
                      enum queue_class q, enum queue_class evict_as)
{
    const struct matrix *m = extent_matrix(p, first);
    int64_t need = (int64_t)(n * m->stride);
    if (!room_possible(p, evict_as, need))
        return false;
    if (victims_take(p, r, evict_as, need, m))
        group_take(p, r, first, n, q);
    return true;
}

/* How many extents from e on, each the file's neighbour of the one before, are queued at least as
 * urgently as ROUTED (or as q) and fit one read. */
static uint32_t group_length(const struct pager *p, uint32_t e, enum queue_class q)
{
    const struct matrix *m = extent_matrix(p, e);
    uint32_t n = 1, end = m->first_extent + m->n_slices;
    enum queue_class least = q > QUEUE_ROUTED ? q : QUEUE_ROUTED;
    while (e + n < end && (n + 1) * m->stride <= p->merge_bytes) {
        const struct extent *x = &p->extents.at[e + n];
        if (x->state != EXTENT_QUEUED || x->queue > least)
            break;
        n++;
    }
    return n;
}

bool room_take(struct pager *p, struct reader *r)
{
    r->group.n = 0;
    r->n_victims = 0;
    r->covered = false;
    for (int q = 0; q < N_QUEUES && !p->growing; q++) {
        uint32_t e = p->queue[q].head;
        if (e == EXTENT_NONE)
            continue;
        uint32_t n = group_length(p, e, q);
        /* Only the demanded extent itself is worth one that is still to be used. */
        if (n > 1 && group_try(p, r, e, n, q, q == QUEUE_DEMAND ? QUEUE_ROUTED : q))
            return true;
        return group_try(p, r, e, 1, q, q); /* a less urgent class would get no more */
    }
    return false;
}

bool room_more(const struct pager *p)
{
    for (int q = 0; q < N_QUEUES; q++) {
        uint32_t e = p->queue[q].head;
        if (e != EXTENT_NONE)
            return room_possible(p, q, (int64_t)extent_matrix(p, e)->stride);
    }
    return false;
}

void room_empty(struct pager *p, uint32_t e, bool keep)
{
    const struct matrix *m = extent_matrix(p, e);
    char *addr = extent_addr(p, e);
    extent_become(p, e, EXTENT_EVICTING);
    if (!keep || !m->pool || !frames_stay(p)) {
        frames_small(p);
        pthread_mutex_unlock(p->lock);
        madvise(addr, m->stride, MADV_DONTNEED);
        pthread_mutex_lock(p->lock);
    }
    extent_evicted(p, e, false);
}

/* Whether every reader has followed the sizes. */
static bool readers_fit(const struct pager *p)
{
    for (unsigned i = 0; i < p->n_threads; i++) {
        uint64_t target = i < p->n_active ? p->slot_bytes + p->bounce_bytes : 0;
        if (p->readers[i].held_bytes != target)
            return false;
    }
    return true;
}

void room_shrink(struct pager *p)
{
    while (room_free(p) < 0 || !readers_fit(p)) {
        uint32_t e = room_free(p) < 0 ? room_victim(p, QUEUE_DEMAND, NULL) : EXTENT_NONE;
        if (e == EXTENT_NONE) {
            wait_done(p);
            continue;
        }
        p->count.evictions++;
        room_empty(p, e, false);
    }
    readers_wake(p);
}
