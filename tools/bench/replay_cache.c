/*
 * The policies: see replay.h. Each is an order of the items that may go; the first of it goes.
 */
#include "replay.h"

#include <stdlib.h>

const char *const replay_policy_names[REPLAY_POLICIES] = {
    "ours", "LRU", "LFU", "SLRU", "W-TinyLFU", "static top", "Belady"};

/* SLRU: the part of the budget for items that were used again; W-TinyLFU: of all but the window. */
#define PROTECTED_PART 0.8
#define WINDOW_PART    0.01
/* W-TinyLFU counts up to this, and halves all counts after so many uses per item that fits. */
enum { TINY_MOST = 15, TINY_SAMPLE = 10 };

enum segment { PROBATION, PROTECTED, WINDOW, N_SEGMENTS };

struct entry {
    bool there, chosen; /* chosen: by the static policy */
    uint8_t segment;
    uint64_t used, count; /* when last, how often; LFU's count stays when the item goes */
    uint64_t next;        /* Belady: when again */
    uint64_t wanted;      /* the routing that wants it: not to go before its end */
};

struct cache {
    const struct replay_trace *t;
    enum replay_policy policy;
    struct entry *items;
    uint32_t *resident; /* item numbers, in no order */
    size_t n;
    uint64_t bytes, room, segment_bytes[N_SEGMENTS];
    uint64_t routing, n_counted;
    size_t from;  /* where the present routing begins */
    bool passing; /* there was no other room than what it has had its use of */
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
    case REPLAY_TINYLFU:
        return x->segment != y->segment ? x->segment < y->segment : x->used < y->used;
    case REPLAY_BELADY:
        return x->next > y->next;
    default:
        return x->used < y->used;
    }
}

static bool may_go(const struct cache *c, uint32_t item)
{
    const struct entry *e = &c->items[item];
    bool wanted = e->wanted == c->routing && !(c->passing && e->used > c->from);
    return c->policy == REPLAY_BELADY || !wanted;
}

/* The first of those that may go, of one segment or (N_SEGMENTS) of all; its place in resident, or
 * n. */
static size_t find_first(const struct cache *c, unsigned segment)
{
    size_t first = c->n;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t item = c->resident[i];
        if ((segment == N_SEGMENTS || c->items[item].segment == segment) && may_go(c, item) &&
            (first == c->n || goes_first(c, item, c->resident[first])))
            first = i;
    }
    return first;
}

static void move(struct cache *c, uint32_t item, enum segment to)
{
    c->segment_bytes[c->items[item].segment] -= size_of(c, item);
    c->segment_bytes[to] += size_of(c, item);
    c->items[item].segment = (uint8_t)to;
}

static void drop(struct cache *c, size_t at)
{
    struct entry *e = &c->items[c->resident[at]];
    c->bytes -= size_of(c, c->resident[at]);
    c->segment_bytes[e->segment] -= size_of(c, c->resident[at]);
    e->there = false;
    c->resident[at] = c->resident[--c->n];
}

static bool window_full(const struct cache *c)
{
    return (double)c->segment_bytes[WINDOW] > WINDOW_PART * (double)c->room;
}

/* W-TinyLFU: the window's oldest has to be better liked than who would go for it. */
static size_t contest(struct cache *c, size_t victim)
{
    size_t candidate = window_full(c) ? find_first(c, WINDOW) : c->n;
    if (candidate == c->n)
        return victim;
    if (victim == c->n || c->items[c->resident[victim]].segment == WINDOW)
        return candidate;
    if (c->items[c->resident[candidate]].count <= c->items[c->resident[victim]].count)
        return candidate;
    move(c, c->resident[candidate], PROBATION);
    return victim;
}

/* Until `bytes` more fit; false when nothing may go any more. */
static bool make_room(struct cache *c, uint64_t bytes)
{
    while (c->bytes + bytes > c->room) {
        size_t first = find_first(c, N_SEGMENTS);
        if (c->policy == REPLAY_TINYLFU)
            first = contest(c, first);
        if (first == c->n)
            return false;
        drop(c, first);
    }
    return true;
}

/* Lets the longest unused of the protected ones go back among the others. */
static void unprotect(struct cache *c)
{
    double part = PROTECTED_PART * (c->policy == REPLAY_TINYLFU ? 1 - WINDOW_PART : 1);
    while ((double)c->segment_bytes[PROTECTED] > part * (double)c->room) {
        size_t oldest = find_first(c, PROTECTED);
        if (oldest == c->n)
            return;
        move(c, c->resident[oldest], PROBATION);
    }
}

static void insert(struct cache *c, uint32_t item)
{
    struct entry *e = &c->items[item];
    if (size_of(c, item) > c->room || (c->policy == REPLAY_STATIC && !e->chosen))
        return;
    e->segment = c->policy == REPLAY_TINYLFU ? WINDOW : PROBATION;
    /* Belady's may choose the new one; of the others one goes that this routing has had its use of
     * when all else is gone. */
    if (c->policy != REPLAY_BELADY && !make_room(c, size_of(c, item))) {
        c->passing = true;
        if (!make_room(c, size_of(c, item)))
            return;
    }
    e->there = true;
    c->resident[c->n++] = item;
    c->bytes += size_of(c, item);
    c->segment_bytes[e->segment] += size_of(c, item);
    make_room(c, 0);
    size_t oldest;
    while (c->policy == REPLAY_TINYLFU && window_full(c) && (oldest = find_first(c, WINDOW)) < c->n)
        move(c, c->resident[oldest], PROBATION);
}

static void count_use(struct cache *c, struct entry *e)
{
    e->count++;
    if (c->policy != REPLAY_TINYLFU)
        return;
    if (e->count > TINY_MOST)
        e->count = TINY_MOST;
    size_t n_items = (size_t)c->t->n_layers * c->t->n_expert;
    if (++c->n_counted < TINY_SAMPLE * (c->n + 1))
        return;
    for (size_t i = 0; i < n_items; i++)
        c->items[i].count /= 2;
    c->n_counted = 0;
}

static bool use(struct cache *c, size_t i)
{
    uint32_t item = c->t->items[i];
    struct entry *e = &c->items[item];
    bool hit = e->there;
    e->used = i + 1;
    count_use(c, e);
    e->next = c->t->next[i];
    bool again = c->policy == REPLAY_SLRU || c->policy == REPLAY_TINYLFU;
    if (hit && again && e->segment == PROBATION) {
        move(c, item, PROTECTED);
        unprotect(c);
    }
    if (!hit)
        insert(c, item);
    return hit;
}

/* What the routing that begins at item i wants. */
static void want(struct cache *c, size_t i)
{
    c->routing++;
    c->from = i;
    c->passing = false;
    do
        c->items[c->t->items[i]].wanted = c->routing;
    while (++i < c->t->n && !(c->t->marks[i] & REPLAY_ROUTING));
}

/* The most used items that fit. */
static void choose(struct cache *c)
{
    size_t n_items = (size_t)c->t->n_layers * c->t->n_expert;
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->t->n; i++)
        c->items[c->t->items[i]].count++;
    for (;;) {
        size_t best = n_items;
        for (size_t k = 0; k < n_items; k++)
            if (c->items[k].count && !c->items[k].chosen &&
                (best == n_items || c->items[k].count > c->items[best].count))
                best = k;
        if (best == n_items || bytes + size_of(c, (uint32_t)best) > c->room)
            return;
        bytes += size_of(c, (uint32_t)best);
        c->items[best].chosen = true;
    }
}

int replay_run(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes,
               struct replay_hits *out)
{
    size_t n_items = (size_t)t->n_layers * t->n_expert;
    struct cache c = {.t = t, .policy = policy, .room = bytes};
    *out = (struct replay_hits){0};
    if (policy == REPLAY_OURS)
        return replay_ours(t, bytes, out);
    c.items = calloc(n_items, sizeof *c.items);
    c.resident = malloc((n_items + 1) * sizeof *c.resident);
    bool ok = c.items && c.resident;
    if (ok && policy == REPLAY_STATIC)
        choose(&c);
    for (size_t i = 0; ok && i < t->n; i++) {
        if (t->marks[i] & REPLAY_ROUTING)
            want(&c, i);
        bool hit = use(&c, i), decode = !(t->marks[i] & REPLAY_PROMPT);
        out->uses++;
        out->hits += hit;
        out->decode_uses += decode;
        out->decode_hits += hit && decode;
    }
    free(c.items);
    free(c.resident);
    return ok ? 0 : -1;
}

double replay_hit_rate(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes)
{
    struct replay_hits h;
    return replay_run(t, policy, bytes, &h) < 0 ? -1 : (double)h.hits / (double)h.uses;
}
