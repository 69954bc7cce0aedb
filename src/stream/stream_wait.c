/*
 * Where no touch of absent memory can be served (mode none), a matmul is computed only once all it
 * touches is there: its experts are pinned in frames and its ids redirected to them, a dense matrix
 * is pinned whole.
 */
#include "stream/stream_internal.h"

#include "base/error.h"

static bool missed(struct stream *s, const struct ggml_tensor *node)
{
    error_set(
        &s->error, BMOE_E_SEAM, BMOE_SCOPE_REQUEST,
        "the routing of the expert matmul '%s' was not seen, and without userfaultfd its experts "
        "cannot be read on touch; allow userfaultfd or run with --no-moe-stream",
        node->name);
    stream_fail(s);
    return true;
}

static void pin(struct stream *s, const struct weight *item, const uint64_t *set)
{
    if (framed_wait(&s->framed, item, set, &s->error) < 0)
        stream_fail(s);
    s->counters.matmuls_waited++;
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
        stream_hint_whole(s, item, PAGER_AHEAD);
    }
}

/* A matrix of a dense model. */
static bool wait_for_dense(struct stream *s, struct ggml_tensor *node, uint32_t weight)
{
    const struct weight *item = weights_get(s->config.weights, weight);
    stream_hint_whole(s, item, PAGER_ROUTED);
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

bool stream_wait_for(struct stream *s, struct ggml_tensor *node, uint32_t weight)
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
