/*
 * The order of events in one split: every node is asked for, in order, until one is answered true;
 * then the nodes so far are computed and that node is told. So a hint given when a node is asked
 * for is ahead of the compute, and what was told is computed.
 */
#include "stream/stream_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "graph/routing.h"

#include <stdlib.h>

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
        stream_fail(s);
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
            isolate = stream_wait_for(s, node, weight);
        else if (graph_map_weight(s->config.map, weight)->site == GRAPH_NONE)
            stream_hint_whole(s, item, PAGER_ROUTED);
        else
            isolate = s->wide;
    }
    return isolate || site_of(s, node, ordinal) != GRAPH_NONE;
}

/* An expert matmul is computed: what it touched may go. */
static void used_up(struct stream *s, const struct ggml_tensor *node)
{
    uint32_t weight = graph_map_find_weight(s->config.map, graph_root(node->src[0]));
    uint32_t site =
        weight == GRAPH_NONE ? GRAPH_NONE : graph_map_weight(s->config.map, weight)->site;
    if (site == GRAPH_NONE)
        return;
    size_t n = stream_extents(s, weight, s->sites[site].routed, s->extents);
    pager_used(s->config.pager, s->extents, n);
}

static void told(struct stream *s, struct ggml_tensor *node)
{
    if (s->config.wait)
        framed_computed(&s->framed);
    /* The node was asked for last: its number is the one before the next. */
    uint32_t site = site_of(s, node, s->ordinal - 1);
    if (site != GRAPH_NONE) {
        stream_routed(s, site, node);
    } else if (node->op == GGML_OP_MUL_MAT_ID && !s->config.wait && !s->away) {
        used_up(s, node);
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
