/*
 * The policies: see replay.h. Each is a key per item; the item with the least key goes first.
 */
#include "replay.h"

#include <stdbool.h>
#include <stdlib.h>

const char *const replay_policy_names[REPLAY_POLICIES] = {"LRU", "LFU", "SLRU", "Belady"};

/* SLRU: the part of the budget for items that were used again. */
#define PROTECTED_PART 0.8

struct entry {
    bool there, protected;
    uint64_t used, count; /* when last, how often; LFU's count stays when the item goes */
    uint64_t next;        /* Belady: when again */
};

struct cache {
    const struct replay_trace *t;
    enum replay_policy policy;
    struct entry *items;
    uint32_t *resident; /* item numbers, in no order */
    size_t n;
    uint64_t bytes, room, protected_bytes;
};

static uint64_t size_of(const struct cache *c, uint32_t item)
{
    return c->t->layer_bytes[item / c->t->n_expert];
}

/* True when a goes before b. */
static bool goes_first(const struct cache *c, uint32_t a, uint32_t b)
{
    const struct entry *x = &c->items[a], *y = &c->items[b];
    switch (c->policy) {
    case REPLAY_LFU:
        return x->count != y->count ? x->count < y->count : x->used < y->used;
    case REPLAY_SLRU:
        return x->protected != y->protected ? !x->protected : x->used < y->used;
    case REPLAY_BELADY:
        return x->next > y->next;
    default:
        return x->used < y->used;
    }
}

static void evict_one(struct cache *c)
{
    size_t first = 0;
    for (size_t i = 1; i < c->n; i++)
        if (goes_first(c, c->resident[i], c->resident[first]))
            first = i;
    struct entry *e = &c->items[c->resident[first]];
    c->bytes -= size_of(c, c->resident[first]);
    if (e->protected)
        c->protected_bytes -= size_of(c, c->resident[first]);
    e->there = e->protected = false;
    c->resident[first] = c->resident[--c->n];
}

/* Lets the longest unused of the protected ones go back among the others. */
static void unprotect(struct cache *c)
{
    while ((double)c->protected_bytes > PROTECTED_PART * (double)c->room) {
        uint32_t oldest = UINT32_MAX;
        for (size_t i = 0; i < c->n; i++) {
            uint32_t item = c->resident[i];
            if (c->items[item].protected &&
                (oldest == UINT32_MAX || c->items[item].used < c->items[oldest].used))
                oldest = item;
        }
        if (oldest == UINT32_MAX)
            return;
        c->items[oldest].protected = false;
        c->protected_bytes -= size_of(c, oldest);
    }
}

static void insert(struct cache *c, uint32_t item)
{
    if (size_of(c, item) > c->room)
        return;
    c->items[item].there = true;
    c->resident[c->n++] = item;
    c->bytes += size_of(c, item);
    while (c->bytes > c->room)
        evict_one(c); /* of Belady's it may be the new one */
}

static bool use(struct cache *c, size_t i)
{
    uint32_t item = c->t->items[i];
    struct entry *e = &c->items[item];
    bool hit = e->there;
    e->used = i + 1;
    e->count++;
    e->next = c->t->next[i];
    if (hit && c->policy == REPLAY_SLRU && !e->protected) {
        e->protected = true;
        c->protected_bytes += size_of(c, item);
        unprotect(c);
    }
    if (!hit)
        insert(c, item);
    return hit;
}

double replay_hit_rate(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes)
{
    size_t n_items = (size_t)t->n_layers * t->n_expert, hits = 0;
    struct cache c = {.t = t, .policy = policy, .room = bytes};
    c.items = calloc(n_items, sizeof *c.items);
    c.resident = malloc((n_items + 1) * sizeof *c.resident);
    for (size_t i = 0; c.items && c.resident && i < t->n; i++)
        hits += use(&c, i);
    double rate = c.items && c.resident ? (double)hits / (double)t->n : -1;
    free(c.items);
    free(c.resident);
    return rate;
}
