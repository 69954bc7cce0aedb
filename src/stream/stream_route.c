/*
 * What a stream asks of the pager once a routing is known: the site's own experts, in the order of
 * its matrices, and a guess at the next site's.
 */
#include "stream/stream_internal.h"

#include "graph/routing.h"

#include <string.h>

/* A graph of at least this many tokens is wide: worth reading ahead for, and its matmuls are long
 * enough to be told apart. */
#define WIDE_TOKENS 16
/* Above this part of a site's experts the next site is read whole. */
#define WHOLE_PART 0.85

size_t stream_extents(const struct stream *s, uint32_t weight, const uint64_t *set, uint32_t *out)
{
    const struct weight *item = weights_get(s->config.weights, weight);
    size_t n = 0;
    if (!item || item->kind != WEIGHT_PAGED)
        return 0;
    for (uint32_t e = 0; e < item->n_slices; e++)
        if (set[e / 64] >> (e % 64) & 1)
            out[n++] = item->range.first_extent + e;
    return n;
}

static size_t site_extents(const struct stream *s, uint32_t site, const uint64_t *set)
{
    const struct graph_site *g = graph_map_site(s->config.map, site);
    size_t n = 0;
    for (uint32_t m = 0; m < g->n_matrices; m++)
        n += stream_extents(s, g->matrices[m], set, s->extents + n);
    return n;
}

static void set_all(uint64_t *set, uint32_t n_expert)
{
    memset(set, 0xff, n_expert / 64 * sizeof *set);
    if (n_expert % 64)
        set[n_expert / 64] = ((uint64_t)1 << (n_expert % 64)) - 1;
}

/* What the next site will want is not known yet. Of a wide graph: all of it when this one wants
 * nearly all, else what the last wide graph routed to. Of a narrow one, and the first wide one:
 * what the next site's router says of this site's activations. */
static bool guess_next(struct stream *s, uint32_t site, uint32_t n_routed, struct ggml_tensor *ids)
{
    const struct graph_site *g = graph_map_site(s->config.map, site);
    const struct graph_site *next = graph_map_site(s->config.map, site + 1);
    struct site *st = &s->sites[site + 1];
    if (s->wide && n_routed >= WHOLE_PART * g->n_expert) {
        set_all(st->routed, next->n_expert); /* overwritten when its routing is told */
        return true;
    }
    if (s->wide && st->n_before) {
        memcpy(st->routed, st->before, ROUTING_WORDS(next->n_expert) * sizeof *st->routed);
        return true;
    }
    /* A router that is not bound to our memory would be read through libllama's mapping. */
    if (next->router == GRAPH_NONE ||
        !weights_owns(s->config.weights, graph_map_weight(s->config.map, next->router)->tensor))
        return false;
    return predict_next(&s->predictor, site + 1, ids, g->n_expert, st->routed);
}

static void hint_ahead(struct stream *s, uint32_t site, uint32_t n_routed, struct ggml_tensor *ids)
{
    if (site + 1 >= graph_map_n_sites(s->config.map) || (!s->wide && !guess_trial_on(&s->trial)) ||
        !guess_next(s, site, n_routed, ids))
        return;
    size_t n = site_extents(s, site + 1, s->sites[site + 1].routed);
    pager_hint(s->config.pager, PAGER_AHEAD, s->extents, n, false);
}

void stream_expect(struct stream *s, uint32_t site, const uint64_t *set)
{
    size_t n = s->config.paged ? site_extents(s, site, set) : 0;
    if (n > 0)
        pager_hint(s->config.pager, PAGER_AHEAD, s->extents, n, false);
}

void stream_routed(struct stream *s, uint32_t site, struct ggml_tensor *ids)
{
    const struct graph_site *g = graph_map_site(s->config.map, site);
    struct site *st = &s->sites[site];
    struct routing r;
    if (!routing_read(&r, st->routed, g->n_expert, ids, NULL, 0))
        return;
    st->ids = ids;
    s->wide = r.n_tokens >= WIDE_TOKENS;
    s->counters.routings++;
    s->routed = true;
    if (s->wide) {
        memcpy(st->before, st->routed, ROUTING_WORDS(g->n_expert) * sizeof *st->before);
        st->n_before = r.n_routed;
    }
    if (s->config.load_all)
        set_all(st->routed, g->n_expert);
    pager_used(s->config.pager, NULL, 0);
    size_t n = site_extents(s, site, st->routed);
    pager_hint(s->config.pager, PAGER_ROUTED, s->extents, n, true);
    hint_ahead(s, site, r.n_routed, ids);
}

void stream_hint_whole(struct stream *s, const struct weight *item, enum pager_class class)
{
    for (uint32_t i = 0; i < item->n_slices; i++)
        s->extents[i] = item->range.first_extent + i;
    pager_hint(s->config.pager, class, s->extents, item->n_slices, false);
}
