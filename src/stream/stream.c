/*
 * The order of events in one split: every node is asked for, in order, until one is answered true;
 * then the nodes so far are computed and that node is told. So a hint given when a node is asked
 * for is ahead of the compute, and what was told is computed.
 */
#include "stream/stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "graph/routing.h"
#include "stream/framed.h"
#include "stream/next_experts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A graph of at least this many tokens is wide: worth reading ahead for, and its matmuls are long
 * enough to be told apart. */
#define WIDE_TOKENS 16
/* Above this part of a site's experts the next site is read whole. */
#define WHOLE_PART 0.85

struct site {
    uint64_t *routed; /* of the present graph */
    uint64_t *before; /* of the last wide graph */
    uint32_t n_before;
    const struct ggml_tensor *ids; /* told in this graph, else NULL */
};

struct stream {
    struct stream_config config;
    struct site *sites;
    uint64_t *words;   /* all bit sets */
    uint32_t *extents; /* scratch: the extents of one site */
    struct framed framed;
    /* Of a dense model without faults: the paged matrix that is used after each, and the last used.
     */
    uint32_t *dense_next, dense_last;
    struct predictor predictor;
    struct guess_trial trial;
    int64_t from_us;  /* the graph began */
    bool routed;      /* a routing was told in it */
    uint32_t ordinal; /* of the next node asked for */
    bool wide;
    bool away;          /* in this graph layer weights are bound to a device */
    atomic_bool failed; /* set by the graph's thread, read by abort callbacks */
    struct bmoe_error error;
    struct stream_counters counters;
};

static uint32_t most_extents(const struct graph_map *map, struct weights *w)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < graph_map_n_sites(map); i++) {
        const struct graph_site *site = graph_map_site(map, i);
        uint32_t n = site->n_expert * site->n_matrices;
        if (n > most)
            most = n;
    }
    for (uint32_t i = 0; i < graph_map_n_weights(map); i++) {
        const struct weight *item = weights_get(w, i);
        if (item && item->n_slices > most)
            most = item->n_slices;
    }
    return most;
}

static bool alloc_sites(struct stream *s)
{
    const struct graph_map *map = s->config.map;
    uint32_t n = graph_map_n_sites(map);
    size_t words = 0;
    for (uint32_t i = 0; i < n; i++)
        words += 2 * ROUTING_WORDS(graph_map_site(map, i)->n_expert);
    s->sites = calloc(n ? n : 1, sizeof *s->sites);
    s->words = calloc(words ? words : 1, sizeof *s->words);
    uint32_t most = most_extents(map, s->config.weights);
    s->extents = malloc(most * sizeof *s->extents);
    uint32_t n_weights = graph_map_n_weights(map);
    s->dense_next = malloc((n_weights + 1) * sizeof *s->dense_next);
    if (!s->sites || !s->words || !s->extents || !s->dense_next)
        return false;
    for (uint32_t i = 0; i < n_weights; i++)
        s->dense_next[i] = GRAPH_NONE;
    s->dense_last = GRAPH_NONE;
    uint64_t *at = s->words;
    for (uint32_t i = 0; i < n; i++) {
        size_t k = ROUTING_WORDS(graph_map_site(map, i)->n_expert);
        s->sites[i].routed = at;
        s->sites[i].before = at + k;
        at += 2 * k;
    }
    return true;
}

int stream_create(struct stream **out, const struct stream_config *config, struct bmoe_error *err)
{
    struct stream *s = calloc(1, sizeof *s);
    if (s) {
        s->config = *config;
        guess_trial_init(&s->trial, config->guesses);
    }
    if (!s || !alloc_sites(s) || !predictor_init(&s->predictor, config->map)) {
        stream_destroy(s);
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for streaming");
    }
    int rc = BMOE_OK;
    if (config->wait)
        rc = framed_init(&s->framed, config->pager, most_extents(config->map, config->weights),
                         config->n_ids, err);
    if (rc < 0) {
        stream_destroy(s);
        return rc;
    }
    *out = s;
    return BMOE_OK;
}

void stream_destroy(struct stream *s)
{
    if (!s)
        return;
    free(s->sites);
    free(s->words);
    free(s->extents);
    free(s->dense_next);
    framed_fini(&s->framed);
    predictor_fini(&s->predictor);
    free(s);
}

static void fail(struct stream *s)
{
    atomic_store(&s->failed, true);
}

bool stream_failed(const struct stream *s)
{
    return atomic_load_explicit(&s->failed, memory_order_relaxed) || pager_failed(s->config.pager);
}

void stream_graph_begin(struct stream *s, bool away)
{
    s->away = away;
    s->ordinal = 0;
    s->wide = s->routed = false;
    s->from_us = clock_now_us();
    for (uint32_t i = 0; i < graph_map_n_sites(s->config.map); i++)
        s->sites[i].ids = NULL;
    s->counters.graphs++;
    pager_graph_begins(s->config.pager);
}

static void tell_trial(struct stream *s)
{
    struct pager_counters c;
    if (!s->routed)
        return;
    pager_counters_read(s->config.pager, &c);
    if (s->wide)
        guess_trial_skip(&s->trial, c.ahead_reads, c.ahead_used);
    else
        guess_trial_told(&s->trial, clock_now_us() - s->from_us, c.ahead_reads, c.ahead_used);
}

int stream_graph_end(struct stream *s, struct bmoe_error *err)
{
    if (s->config.wait)
        framed_release(&s->framed);
    bool mine = atomic_exchange(&s->failed, false);
    if (!mine && !pager_failed(s->config.pager)) {
        if (s->config.paged)
            pager_used(s->config.pager, NULL, 0);
        tell_trial(s);
        return BMOE_OK;
    }
    struct bmoe_error read = {0};
    int rc = pager_recover(s->config.pager, &read);
    if (rc == 0) {
        read = s->error;
        rc = s->error.code;
    }
    read.scope = BMOE_SCOPE_REQUEST;
    if (err)
        *err = read;
    return rc;
}

/* Appends the extents of the set's experts in matrix `weight`, ascending. */
static size_t append(const struct stream *s, uint32_t weight, const uint64_t *set, uint32_t *out)
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
        n += append(s, g->matrices[m], set, s->extents + n);
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

static void told_routing(struct stream *s, uint32_t site, struct ggml_tensor *ids)
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

static bool missed(struct stream *s, const struct ggml_tensor *node)
{
    error_set(
        &s->error, BMOE_E_SEAM, BMOE_SCOPE_REQUEST,
        "the routing of the expert matmul '%s' was not seen, and without userfaultfd its experts "
        "cannot be read on touch; allow userfaultfd or run with --no-moe-stream",
        node->name);
    fail(s);
    return true;
}

static void pin(struct stream *s, const struct weight *item, const uint64_t *set)
{
    if (framed_wait(&s->framed, item, set, &s->error) < 0)
        fail(s);
    s->counters.matmuls_waited++;
}

/* A matrix of a dense model that is paged in blocks: wanted whole, in the order of the graph. */
static void hint_blocks(struct stream *s, const struct weight *item)
{
    for (uint32_t i = 0; i < item->n_slices; i++)
        s->extents[i] = item->range.first_extent + i;
    pager_hint(s->config.pager, PAGER_ROUTED, s->extents, item->n_slices, false);
}

/* Whether a matmul may be computed together with what follows: in a narrow graph, when nothing of
 * its site has to be waited for. Starting the compute threads takes longer than it would hide. */
static bool may_join(struct stream *s, const struct graph_site *g, uint32_t weight)
{
    if (s->wide || g->repeated)
        return false;
    uint32_t m = 0;
    while (m < g->n_matrices && g->matrices[m] != weight)
        m++;
    if (m + 1 >= g->n_matrices)
        return true; /* the last: what follows ends with the next routing */
    const struct weight *next = weights_get(s->config.weights, g->matrices[m + 1]);
    const uint64_t *set = s->sites[graph_map_weight(s->config.map, weight)->site].routed;
    return next && next->kind == WEIGHT_PAGED && framed_ahead(&s->framed, next, set);
}

/* What followed this matrix in the last graph is read meanwhile, as far as a part of the budget
 * goes.
 */
static void expect_dense(struct stream *s, uint32_t weight)
{
    uint64_t bytes = 0, most = s->config.ahead_bytes;
    if (s->dense_last != GRAPH_NONE)
        s->dense_next[s->dense_last] = weight;
    s->dense_last = weight;
    for (uint32_t w = s->dense_next[weight]; w != GRAPH_NONE && w != weight; w = s->dense_next[w]) {
        const struct weight *item = weights_get(s->config.weights, w);
        bytes += item->n_slices * item->range.stride;
        if (bytes > most)
            return;
        for (uint32_t i = 0; i < item->n_slices; i++)
            s->extents[i] = item->range.first_extent + i;
        pager_hint(s->config.pager, PAGER_AHEAD, s->extents, item->n_slices, false);
    }
}

/* A matrix of a dense model. */
static bool wait_for_dense(struct stream *s, struct ggml_tensor *node, uint32_t weight)
{
    const struct weight *item = weights_get(s->config.weights, weight);
    hint_blocks(s, item);
    expect_dense(s, weight);
    pin(s, item, NULL);
    if (!stream_failed(s) && item->n_slices == 1) { /* it lies in whatever frame was free */
        struct ggml_tensor *t = node->src[0];
        item->tensor->data =
            (char *)item->range.base +
            pager_frame(s->config.pager, item->range.first_extent) * item->range.stride;
        if (t->view_src)
            t->data = (char *)t->view_src->data + t->view_offs;
    }
    return true;
}

/* Without faults: everything the matmul will touch is pinned before it is computed. True: isolate
 * it. */
static bool wait_for(struct stream *s, struct ggml_tensor *node, uint32_t weight)
{
    const struct weight *item = weights_get(s->config.weights, weight);
    if (!item || item->kind != WEIGHT_PAGED || stream_failed(s))
        return false;
    uint32_t site = graph_map_weight(s->config.map, weight)->site;
    if (site == GRAPH_NONE)
        return wait_for_dense(s, node, weight);
    const uint64_t *set = s->sites[site].routed;
    if (node->op != GGML_OP_MUL_MAT_ID || s->sites[site].ids != node->src[2])
        return missed(s, node);
    pin(s, item, set);
    if (stream_failed(s))
        return true;
    if (!framed_redirect(&s->framed, node, item, set))
        return missed(s, node);
    bool join = may_join(s, graph_map_site(s->config.map, site), weight);
    s->counters.matmuls_joined += join;
    return !join;
}

/* Bound to a device for this graph: not ours to care for. */
static bool is_away(const struct stream *s, const struct ggml_tensor *root)
{
    uint32_t weight = s->away ? graph_map_find_weight(s->config.map, root) : GRAPH_NONE;
    return weight != GRAPH_NONE && weights_get(s->config.weights, weight);
}

/* Binds a weight that the capture did not see. */
static void adopt(struct stream *s, struct ggml_tensor *root)
{
    s->counters.late_weights++;
    if (weights_adopt(s->config.weights, root, &s->error) < 0)
        fail(s);
}

static uint32_t site_of(const struct stream *s, const struct ggml_tensor *node, uint32_t ordinal)
{
    if (!s->config.paged || s->config.blind || s->away)
        return GRAPH_NONE;
    return graph_map_find_site(s->config.map, node, ordinal);
}

static bool asked(struct stream *s, struct ggml_tensor *node)
{
    uint32_t ordinal = s->ordinal++;
    bool isolate = false;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *root = node->src[i] ? graph_root(node->src[i]) : NULL;
        if (!root || !graph_is_weight(root))
            continue;
        if (!weights_owns(s->config.weights, root)) {
            if (is_away(s, root))
                continue;
            adopt(s, root);
        }
        if (i != 0 || !s->config.paged)
            continue;
        uint32_t weight = graph_map_find_weight(s->config.map, root);
        const struct weight *item =
            weight == GRAPH_NONE ? NULL : weights_get(s->config.weights, weight);
        if (!item || item->kind != WEIGHT_PAGED)
            continue;
        if (s->config.wait)
            isolate = wait_for(s, node, weight);
        else if (graph_map_weight(s->config.map, weight)->site == GRAPH_NONE)
            hint_blocks(s, item);
        else
            isolate = s->wide;
    }
    return isolate || site_of(s, node, ordinal) != GRAPH_NONE;
}

static void told(struct stream *s, struct ggml_tensor *node)
{
    if (s->config.wait)
        framed_computed(&s->framed);
    /* The node was asked for last: its number is the one before the next. */
    uint32_t site = site_of(s, node, s->ordinal - 1);
    if (site != GRAPH_NONE) {
        told_routing(s, site, node);
    } else if (node->op == GGML_OP_MUL_MAT_ID && !s->config.wait && !s->away) {
        uint32_t weight = graph_map_find_weight(s->config.map, graph_root(node->src[0]));
        uint32_t of =
            weight == GRAPH_NONE ? GRAPH_NONE : graph_map_weight(s->config.map, weight)->site;
        if (of != GRAPH_NONE) {
            size_t n = append(s, weight, s->sites[of].routed, s->extents);
            pager_used(s->config.pager, s->extents, n);
        }
    }
}

bool stream_node(struct stream *s, struct ggml_tensor *node, bool ask)
{
    if (ask)
        return asked(s, node);
    if (s->config.paged)
        told(s, node);
    return !stream_failed(s);
}

void stream_counters(const struct stream *s, struct stream_counters *out)
{
    *out = s->counters;
}
