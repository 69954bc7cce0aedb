/*
 * How far a wide graph has come, told while it runs: one graph of a long prompt may take minutes.
 * What is told is a part of the graph's tokens, by the nodes computed of those that were learned.
 * Nodes at which the engine stops anyway are used; where these lie far apart, a few more are asked
 * for, which splits the graph and leaves every kernel as it is.
 */
#include "engine/session.h"

#include "base/clock.h"

enum { TELL_US = 250000, NODES_APART = 64, WIDE_TOKENS = 32 };

void progress_tell_to(struct bmoe_session *s, void (*tell)(void *user, uint32_t tokens), void *user)
{
    s->progress = (struct graph_progress){.tell = tell, .user = user};
}

void progress_graph_begin(struct bmoe_session *s, uint32_t n)
{
    struct graph_progress *p = &s->progress;
    p->n = n;
    p->ordinal = p->stopped_at = 0;
    p->told_us = p->tell ? clock_now_us() : 0;
}

static void tell(struct bmoe_session *s)
{
    struct graph_progress *p = &s->progress;
    uint32_t all = graph_map_n_nodes(s->map);
    int64_t now = clock_now_us();
    if (now - p->told_us < (s->hooks.tell_at_once ? 0 : TELL_US))
        return;
    p->told_us = now;
    uint64_t done = all ? (uint64_t)p->n * p->ordinal / all : 0;
    p->tell(p->user, done < p->n ? (uint32_t)done : p->n - 1);
}

bool progress_node(struct bmoe_session *s, bool ask)
{
    struct graph_progress *p = &s->progress;
    if (!p->tell || p->n < WIDE_TOKENS)
        return false;
    if (ask) {
        p->ordinal++;
        return !s->on_device && p->ordinal - p->stopped_at >= NODES_APART;
    }
    p->stopped_at = p->ordinal;
    tell(s);
    return false;
}
