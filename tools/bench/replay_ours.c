/*
 * The pager's policy, its own code, driven as the pager drives it: what a routing wants is asked
 * for and guarded first, then comes in one by one; guarded extents are not in the policy, and get
 * there when the routing has been passed. Should it have to, the pager passes a routing by pieces.
 */
#include "replay.h"

#include "pager/pager_policy.h"

#include <stdlib.h>

struct rig {
    const struct replay_trace *t;
    struct extent_table table;
    struct policy policy;
    bool *there;
    uint64_t bytes, room;
    size_t passed; /* items before this one are in the policy, if they are there */
};

static uint64_t size_of(const struct rig *r, uint32_t item)
{
    return r->t->layer_bytes[item / r->t->n_expert];
}

static void put(struct rig *r, uint32_t item, bool in)
{
    struct extent *x = &r->table.at[item];
    if (!r->there[item] || in == !!(x->flags & EXTENT_IN_POLICY))
        return;
    if (in)
        r->policy.ops->insert(&r->policy, item);
    else
        r->policy.ops->remove(&r->policy, item);
    x->flags ^= EXTENT_IN_POLICY;
}

static void pass(struct rig *r, size_t before)
{
    for (; r->passed < before; r->passed++)
        put(r, r->t->items[r->passed], true);
}

/* Item number i of the trace is to be there. */
static bool use(struct rig *r, size_t i)
{
    uint32_t item = r->t->items[i];
    if (r->there[item])
        return true;
    if (size_of(r, item) > r->room)
        return false;
    while (r->bytes + size_of(r, item) > r->room) {
        uint32_t victim = r->policy.ops->victim(&r->policy);
        if (victim == EXTENT_NONE && r->passed == i)
            return false; /* all there is, is still wanted */
        if (victim == EXTENT_NONE) {
            pass(r, i);
            continue;
        }
        put(r, victim, false);
        r->there[victim] = false;
        r->bytes -= size_of(r, victim);
    }
    r->there[item] = true;
    r->bytes += size_of(r, item);
    return false;
}

static void routing(struct rig *r, size_t from, size_t to, struct replay_hits *out)
{
    if (r->t->marks[from] & REPLAY_GRAPH)
        r->policy.ops->age(&r->policy);
    for (size_t i = from; i < to; i++) {
        r->policy.ops->touch(&r->policy, r->t->items[i]);
        put(r, r->t->items[i], false);
    }
    for (size_t i = from; i < to; i++) {
        bool hit = use(r, i), decode = !(r->t->marks[i] & REPLAY_PROMPT);
        out->uses++;
        out->hits += hit;
        out->decode_uses += decode;
        out->decode_hits += hit && decode;
    }
    pass(r, to);
}

int replay_ours(const struct replay_trace *t, uint64_t bytes, struct replay_hits *out)
{
    uint32_t n_items = t->n_layers * t->n_expert;
    struct rig r = {.t = t, .room = bytes};
    r.there = calloc(n_items, sizeof *r.there);
    bool ok = r.there && extent_table_grow(&r.table, n_items, 0);
    policy_init(&r.policy, &policy_popular, &r.table, 0);
    policy_pace(&r.policy, t->total_bytes ? (double)bytes / (double)t->total_bytes : 0);
    ok = ok && policy_reserve(&r.policy);
    for (size_t from = 0, to; ok && from < t->n; from = to) {
        for (to = from + 1; to < t->n && !(t->marks[to] & REPLAY_ROUTING);)
            to++;
        routing(&r, from, to, out);
    }
    policy_fini(&r.policy);
    free(r.table.at);
    free(r.there);
    return ok ? 0 : -1;
}
