/*
 * The retention policies. Scores of policy_popular grow instead of fading: a request adds
 * `increment`, which itself grows by `growth` each graph, so that the order of two extents changes
 * only when one of them is asked for and a heap can hold it. Long before the numbers overflow all
 * are scaled down together. A wide graph counts an expert once, else one prompt outweighs what was
 * learned.
 *
 * How fast a request fades. Recorded routings say (docs/bench/retention.md): where little is kept,
 * how often an expert is used counts, and 16 to 128 graphs do equally well; where much is kept,
 * what counts on a trained model is how lately, and with 128 graphs a sixth of what recency alone
 * (LRU) finds was missing at half of the experts. SLOWEST to FASTEST, by the square of the part
 * that is kept, finds at least what LRU does and 0.98 of the best of LRU, LFU, SLRU and W-TinyLFU
 * on each trace at each budget.
 */
#include "pager/pager_policy.h"

#include <stdlib.h>

/* Graphs after which a request counts half as much. */
#define SLOWEST    32.0
#define FASTEST    2.0
#define AT_ALL     1.6        /* were all kept; divided by the square of the part */
#define TIE_GROWTH (1 + 1e-9) /* between equals the older request counts less */
#define LARGEST    1e200

/* ---- least recently used ---- */

static void lru_insert(struct policy *p, uint32_t e)
{
    list_push_tail(p->table, &p->recent, e);
    p->n++;
}

static void lru_remove(struct policy *p, uint32_t e)
{
    list_remove(p->table, &p->recent, e);
    p->n--;
}

static void lru_touch(struct policy *p, uint32_t e)
{
    if (!(p->table->at[e].flags & EXTENT_IN_POLICY))
        return;
    list_remove(p->table, &p->recent, e);
    list_push_tail(p->table, &p->recent, e);
}

static void lru_age(struct policy *p)
{
    (void)p;
}

static uint32_t lru_victim(const struct policy *p)
{
    return p->recent.head;
}

const struct policy_ops policy_lru = {.name = "lru",
                                      .insert = lru_insert,
                                      .touch = lru_touch,
                                      .age = lru_age,
                                      .remove = lru_remove,
                                      .victim = lru_victim};

/* ---- the heap: extent.next is its place ---- */

static void heap_put(struct policy *p, uint32_t at, uint32_t e)
{
    p->heap[at] = e;
    p->table->at[e].next = at;
}

static double score_at(const struct policy *p, uint32_t at)
{
    return p->table->at[p->heap[at]].score;
}

static void heap_up(struct policy *p, uint32_t at)
{
    uint32_t e = p->heap[at];
    double score = p->table->at[e].score;
    for (; at > 0 && score < score_at(p, (at - 1) / 2); at = (at - 1) / 2)
        heap_put(p, at, p->heap[(at - 1) / 2]);
    heap_put(p, at, e);
}

static void heap_down(struct policy *p, uint32_t at)
{
    uint32_t e = p->heap[at];
    double score = p->table->at[e].score;
    for (uint32_t child; (child = 2 * at + 1) < p->n_heap; at = child) {
        if (child + 1 < p->n_heap && score_at(p, child + 1) < score_at(p, child))
            child++;
        if (score <= score_at(p, child))
            break;
        heap_put(p, at, p->heap[child]);
    }
    heap_put(p, at, e);
}

static void heap_add(struct policy *p, uint32_t e)
{
    p->table->at[e].flags |= EXTENT_IN_HEAP;
    heap_put(p, p->n_heap++, e);
    heap_up(p, p->n_heap - 1);
}

static void heap_remove(struct policy *p, uint32_t e)
{
    uint32_t at = p->table->at[e].next, last = p->heap[--p->n_heap];
    if (last != e) {
        heap_put(p, at, last);
        heap_up(p, at);
        heap_down(p, p->table->at[last].next);
    }
    p->table->at[e].next = EXTENT_NONE;
    p->table->at[e].flags &= (uint8_t)~EXTENT_IN_HEAP;
}

/* ---- least often used, lately ---- */

static void popular_insert(struct policy *p, uint32_t e)
{
    struct extent *x = &p->table->at[e];
    p->n++;
    if (x->flags & EXTENT_GUESSED) {
        list_push_tail(p->table, &p->guessed, e);
        return;
    }
    list_push_tail(p->table, &p->recent, e);
    if (p->recent.n > p->keep) {
        uint32_t oldest = p->recent.head;
        list_remove(p->table, &p->recent, oldest);
        heap_add(p, oldest);
    }
}

static void popular_remove(struct policy *p, uint32_t e)
{
    struct extent *x = &p->table->at[e];
    p->n--;
    if (x->flags & EXTENT_IN_HEAP)
        heap_remove(p, e);
    else
        list_remove(p->table, x->flags & EXTENT_GUESSED ? &p->guessed : &p->recent, e);
}

static void popular_touch(struct policy *p, uint32_t e)
{
    struct extent *x = &p->table->at[e];
    x->score += p->increment;
    p->increment *= TIE_GROWTH;
    if (x->flags & EXTENT_IN_HEAP)
        heap_down(p, x->next);
}

static void popular_age(struct policy *p)
{
    p->increment *= p->growth;
    if (p->increment < LARGEST)
        return;
    p->increment /= LARGEST;
    for (uint32_t e = 0; e < p->table->n; e++)
        p->table->at[e].score /= LARGEST;
}

static uint32_t popular_victim(const struct policy *p)
{
    if (p->n_heap)
        return p->heap[0];
    return p->guessed.n ? p->guessed.head : p->recent.head; /* recent: in hand */
}

const struct policy_ops policy_popular = {.name = "popular",
                                          .insert = popular_insert,
                                          .touch = popular_touch,
                                          .age = popular_age,
                                          .remove = popular_remove,
                                          .victim = popular_victim};

/* ---- their life ---- */

void policy_pace(struct policy *p, double part)
{
    double half_life = part > 0 ? AT_ALL / (part * part) : SLOWEST;
    if (half_life > SLOWEST)
        half_life = SLOWEST;
    if (half_life < FASTEST)
        half_life = FASTEST;
    double x = 0.6931471805599453 / half_life; /* ln 2; the beginning of e^x will do */
    p->growth = 1 + x * (1 + x / 2 * (1 + x / 3));
}

void policy_init(struct policy *p, const struct policy_ops *ops, struct extent_table *table,
                 uint32_t keep)
{
    *p = (struct policy){.ops = ops, .table = table, .keep = keep, .increment = 1};
    list_init(&p->recent);
    list_init(&p->guessed);
    policy_pace(p, 0);
}

uint32_t policy_victim_that(const struct policy *p, bool (*fits)(const void *ctx, uint32_t e),
                            const void *ctx)
{
    uint32_t best = EXTENT_NONE;
    for (uint32_t at = 0; at < p->n_heap && (at < POLICY_LOOK || best == EXTENT_NONE); at++) {
        uint32_t e = p->heap[at];
        bool lower = best == EXTENT_NONE || p->table->at[e].score < p->table->at[best].score;
        if (lower && fits(ctx, e))
            best = e;
    }
    return best != EXTENT_NONE ? best : p->ops->victim(p);
}

bool policy_reserve(struct policy *p)
{
    if (p->heap_cap >= p->table->cap)
        return true;
    uint32_t *heap = realloc(p->heap, p->table->cap * sizeof *heap);
    if (!heap)
        return false;
    p->heap = heap;
    p->heap_cap = p->table->cap;
    return true;
}

void policy_forget(struct policy *p)
{
    p->increment = 1;
    for (uint32_t e = 0; e < p->table->n; e++)
        p->table->at[e].score = 0;
}

void policy_fini(struct policy *p)
{
    free(p->heap);
    *p = (struct policy){0};
}
