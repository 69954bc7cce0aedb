/* Fused only where nothing can tell the difference. The plain rows are written unless every reader
 * that ggml counted is a product of this very graph that finds the coded ones; the coded ones then
 * stay until the last of those has had them. What nobody may know (a tensor asked for as an output,
 * a reader in another part of the graph) keeps its plain rows. */
#include "node_fusion.h"

#include "graph_uses.h"
#include "mul_mat.h"
#include "norm_row.h"
#include "op_support.h"

#define MOST_PINNED (ROWS_IN_KEPT / 2) /* coded rows that must stay, at once */

/* Nodes that are one pass. */
struct chain {
    const struct ggml_tensor *x;    /* what is normalised */
    const struct ggml_tensor *last; /* whose rows the products read */
    struct norm_how how;
    int n;
};

/* What reads the last one's rows. */
struct readers {
    const struct packed_weight *weight; /* of the first product */
    int n_alike;                        /* products for which the same coded rows do */
};

static bool will_run(const struct ggml_tensor *t)
{
    return t->flags & GGML_TENSOR_FLAG_COMPUTE;
}

static bool is_asked_for(const struct ggml_tensor *t)
{
    return t->flags & GGML_TENSOR_FLAG_OUTPUT;
}

/* Node i, if it is there, will run and alone reads `before`. */
static const struct ggml_tensor *next_of(struct ggml_cgraph *graph, int i,
                                         const struct ggml_tensor *before)
{
    const struct ggml_tensor *node =
        i < ggml_graph_n_nodes(graph) ? ggml_graph_node(graph, i) : NULL;

    return node && will_run(node) && node->src[0] == before && !is_asked_for(before) &&
                   graph_uses_of(graph, before) == 1
               ? node
               : NULL;
}

static bool find_chain(struct ggml_cgraph *graph, int i, struct chain *out)
{
    const struct ggml_tensor *norm = ggml_graph_node(graph, i), *mul, *add;

    if (!norm_row_is_norm(norm) || !will_run(norm))
        return false;
    mul = next_of(graph, i + 1, norm);
    if (!mul || !norm_row_is_mul(mul) || ggml_is_empty(mul))
        return false;
    *out = (struct chain){.x = norm->src[0], .last = mul, .how = norm_row_how(norm), .n = 2};
    out->how.scale = mul->src[1]->data;
    add = next_of(graph, i + 2, mul);
    if (add && norm_row_is_add(add)) {
        out->last = add;
        out->how.shift = add->src[1]->data;
        out->n = 3;
    }
    return true;
}

static bool same_rows(const struct packed_weight *a, const struct packed_weight *b)
{
    return a->k == b->k && a->domain == b->domain && a->n_matrices == b->n_matrices &&
           mul_mat_part_rows(a) == mul_mat_part_rows(b);
}

static struct readers find_readers(const struct plugin *p, struct ggml_cgraph *graph, int first,
                                   const struct ggml_tensor *x)
{
    const int n = ggml_graph_n_nodes(graph);
    struct readers r = {0};

    for (int i = first; i < n; i++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, i);
        const struct packed_weight *w;

        if (node->op != GGML_OP_MUL_MAT || node->src[1] != x || !will_run(node) ||
            !op_support_shape(node))
            continue;
        w = op_support_weight(p, node->src[0]);
        if (!w || w->n_matrices != 1)
            continue;
        if (!r.weight)
            r.weight = w;
        r.n_alike += same_rows(w, r.weight);
    }
    return r;
}

/* Writing the plain rows must not touch rows that are still to be read. */
static bool may_write(const struct ggml_tensor *x, const struct ggml_tensor *y)
{
    const char *a = x->data, *b = y->data;

    if (a == b && ggml_is_contiguous(x))
        return true;
    return a + ggml_nbytes(x) <= b || b + ggml_nbytes(y) <= a;
}

int node_fusion_run(struct plugin *p, struct rows_in_cache *rows, struct ggml_cgraph *graph, int i,
                    struct ork_error *error)
{
    struct rows_source source;
    struct rows_shape shape;
    const struct rows_in *in;
    struct readers readers;
    struct chain chain;
    int rc;

    if (!p->uses_proven || !find_chain(graph, i, &chain))
        return 0;
    readers = find_readers(p, graph, i + chain.n, chain.last);
    if (!readers.weight)
        return 0;
    source = (struct rows_source){.x = chain.x, .norm = &chain.how};
    if (is_asked_for(chain.last) || graph_uses_of(graph, chain.last) != readers.n_alike ||
        rows_in_n_pinned(rows) >= MOST_PINNED)
        source.plain = chain.last->data;
    else
        source.n_readers = (uint32_t)readers.n_alike;
    if (source.plain && !may_write(chain.x, chain.last))
        return 0;
    shape = (struct rows_shape){.weight = readers.weight,
                                .part_rows = mul_mat_part_rows(readers.weight)};
    rc = rows_in_get(rows, p->npu, chain.last, &source, &shape, &in, error);
    if (rc < 0)
        return rc;
    atomic_fetch_add(&p->counters.norms_fused, 1);
    atomic_fetch_add(&p->counters.plain_skipped, source.plain ? 0 : 1);
    return chain.n;
}
