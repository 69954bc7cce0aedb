/* See graph_uses.h. Every member up to the last one used is compared with what public calls say of
 * the proving graph. */
#include "graph_uses.h"

#include <stdint.h>

/* The beginning of struct ggml_cgraph in ggml 0.27. A part of a graph has size 0 and no leafs, and
 * shares use_counts and the set with the whole. */
struct graph_head {
    int size;
    int n_nodes;
    int n_leafs;
    struct ggml_tensor **nodes;
    struct ggml_tensor **grads;
    struct ggml_tensor **grad_accs;
    struct ggml_tensor **leafs;
    int32_t *use_counts; /* by slot of the set */
    size_t set_size;     /* open addressing, linear probing from (address / 16) mod size */
    uint32_t *set_used;  /* bits */
    struct ggml_tensor **set_keys;
};

static const struct graph_head *head_of(struct ggml_cgraph *graph)
{
    return (const struct graph_head *)(const void *)graph;
}

int graph_uses_of(struct ggml_cgraph *graph, const struct ggml_tensor *t)
{
    const struct graph_head *g = head_of(graph);
    size_t slot;

    if (!g->use_counts || !g->set_size || !g->set_used || !g->set_keys)
        return -1;
    slot = ((size_t)(uintptr_t)t >> 4) % g->set_size;
    for (size_t i = 0; i < g->set_size; i++) {
        if (!(g->set_used[slot / 32] >> slot % 32 & 1))
            return -1;
        if (g->set_keys[slot] == t)
            return g->use_counts[slot];
        slot = (slot + 1) % g->set_size;
    }
    return -1;
}

static bool prove(struct ggml_context *ctx)
{
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    struct ggml_tensor *b = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    struct ggml_tensor *c = ggml_mul(ctx, a, b);
    struct ggml_tensor *d = ggml_add(ctx, c, a);
    struct ggml_tensor *e = ggml_mul(ctx, d, c);
    struct ggml_tensor *f = ggml_add(ctx, e, c);
    struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, 64, false);
    const struct graph_head *g = head_of(graph);

    ggml_build_forward_expand(graph, f);
    if (g->size != ggml_graph_size(graph) || g->n_nodes != ggml_graph_n_nodes(graph) ||
        g->n_nodes != 4 || g->n_leafs != 2 || g->set_size < 6 || g->set_size > 1 << 16 ||
        !g->nodes || !g->use_counts || !g->set_used || !g->set_keys || g->grads || g->grad_accs)
        return false;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i] != ggml_graph_node(graph, i))
            return false;
    return graph_uses_of(graph, a) == 2 && graph_uses_of(graph, b) == 1 &&
           graph_uses_of(graph, c) == 3 && graph_uses_of(graph, d) == 1 &&
           graph_uses_of(graph, e) == 1 && graph_uses_of(graph, f) == 0;
}

bool graph_uses_proven(void)
{
    struct ggml_context *ctx =
        ggml_init((struct ggml_init_params){.mem_size = 1 << 18, .no_alloc = true});
    bool proven = ctx && prove(ctx);

    ggml_free(ctx);
    return proven;
}
