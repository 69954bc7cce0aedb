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

/* What reads the MUL's rows. */
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

static bool is_pair(const struct ggml_tensor *rms, const struct ggml_tensor *mul)
{
    return norm_row_is_rms(rms) && norm_row_is_mul(mul) && mul->src[0] == rms && will_run(rms) &&
           will_run(mul) && !is_asked_for(rms) && !ggml_is_empty(mul);
}

static bool same_rows(const struct packed_weight *a, const struct packed_weight *b)
{
    return a->k == b->k && a->domain == b->domain && a->n_matrices == b->n_matrices &&
           mul_mat_part_rows(a) == mul_mat_part_rows(b);
}

static struct readers find_readers(const struct plugin *p, struct ggml_cgraph *graph, int first,
                                   const struct ggml_tensor *mul)
{
    const int n = ggml_graph_n_nodes(graph);
    struct readers r = {0};

    for (int i = first; i < n; i++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, i);
        const struct packed_weight *w;

        if (node->op != GGML_OP_MUL_MAT || node->src[1] != mul || !will_run(node) ||
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
    const bool last = i + 1 >= ggml_graph_n_nodes(graph);
    const struct ggml_tensor *rms = ggml_graph_node(graph, i);
    const struct ggml_tensor *mul = last ? NULL : ggml_graph_node(graph, i + 1);
    struct rows_source source = {0};
    struct rows_shape shape = {0};
    const struct rows_in *in;
    struct readers readers;
    int rc;

    if (!p->uses_proven || last || !is_pair(rms, mul) || graph_uses_of(graph, rms) != 1)
        return 0;
    readers = find_readers(p, graph, i + 2, mul);
    if (!readers.weight)
        return 0;
    source =
        (struct rows_source){.x = rms->src[0], .norm = mul->src[1]->data, .eps = norm_row_eps(rms)};
    if (is_asked_for(mul) || graph_uses_of(graph, mul) != readers.n_alike ||
        rows_in_n_pinned(rows) >= MOST_PINNED)
        source.plain = mul->data;
    else
        source.n_readers = (uint32_t)readers.n_alike;
    if (source.plain && !may_write(source.x, mul))
        return 0;
    shape = (struct rows_shape){.weight = readers.weight,
                                .part_rows = mul_mat_part_rows(readers.weight)};
    rc = rows_in_get(rows, p->npu, mul, &source, &shape, &in, error);
    if (rc < 0)
        return rc;
    atomic_fetch_add(&p->counters.norms_fused, 1);
    atomic_fetch_add(&p->counters.plain_skipped, source.plain ? 0 : 1);
    return 2;
}
