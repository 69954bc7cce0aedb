/* A stream on the device: the nodes of a graph in order, each finished before the next. What fails
 * is said in one sentence and ends the graph with an error; nothing is left half answered.
 *
 * Norms that stand before products are done while their rows are coded (node_fusion.c);
 * elsewhere they are computed as they are. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mul_mat.h"
#include "node_fusion.h"
#include "norm_row.h"
#include "op_support.h"
#include "plugin_stats.h"

struct graph_run {
    struct plugin *plugin;
    struct mul_mat_memory memory;
};

static const char *run_name(ggml_backend_t backend)
{
    (void)backend;
    return "ORK0";
}

static void run_free(ggml_backend_t backend)
{
    struct graph_run *run = backend->context;
    struct plugin *p = run->plugin;

    mul_mat_memory_fini(&run->memory);
    free(run);
    free(backend);
    if (atomic_fetch_sub(&p->n_streams, 1) == 1 && p->options.stats)
        plugin_stats_log(p);
}

/* A weight in plain memory is packed for this product alone. */
static int run_plain(struct graph_run *run, const struct ggml_tensor *node, struct ork_error *error)
{
    struct packed_place place = plugin_place(run->plugin);
    const struct ggml_tensor *w = node->src[0];
    struct packed_weight *packed;
    int rc;

    place.cache = NULL;
    rc = packed_weight_create(&place, w, &packed, error);
    if (rc < 0)
        return rc;
    rc = packed_weight_set(packed, w->data, 0, ggml_nbytes(w));
    rc = rc < 0 ? rc : mul_mat_run(run->plugin, &run->memory, packed, node, error);
    packed_weight_destroy(packed);
    return rc;
}

static int run_product(struct graph_run *run, const struct ggml_tensor *node,
                       struct ork_error *error)
{
    const struct ggml_tensor *w = node->src[0];

    if (!op_support_is_packed(run->plugin, w))
        return run_plain(run, node, error);
    if (!op_support_weight(run->plugin, w)) {
        snprintf(error->text, sizeof(error->text), "its weight was not set as whole rows.");
        return -EINVAL;
    }
    return mul_mat_run(run->plugin, &run->memory, w->extra, node, error);
}

static int run_op(struct graph_run *run, const struct ggml_tensor *node, struct ork_error *error)
{
    if (op_support_shape(node))
        return run_product(run, node, error);
    if (!norm_row_is_norm(node) && !norm_row_is_mul(node) && !norm_row_is_add(node))
        return -EOPNOTSUPP;
    norm_row_node(node);
    return 0;
}

/* Runs node i, and those after it where they are one pass. The number of nodes done, or the
 * error. */
static int run_node(struct graph_run *run, struct ggml_cgraph *graph, int i)
{
    const struct ggml_tensor *node = ggml_graph_node(graph, i);
    struct ork_error error = {0};
    int rc;

    if (op_support_is_nothing(node) || !(node->flags & GGML_TENSOR_FLAG_COMPUTE) ||
        ggml_is_empty(node))
        return 1;
    pthread_mutex_lock(&run->plugin->product_lock);
    rc = node_fusion_run(run->plugin, &run->memory.rows, graph, i, &error);
    if (!rc)
        rc = run_op(run, node, &error);
    pthread_mutex_unlock(&run->plugin->product_lock);
    if (rc < 0)
        plugin_log(GGML_LOG_LEVEL_ERROR, "%s (%s) was not computed: %s", node->name,
                   ggml_op_desc(node), *error.text ? error.text : strerror(-rc));
    if (rc < 0)
        return rc;
    rc = rc > 1 ? rc : 1;
    atomic_fetch_add(&run->plugin->counters.nodes, (uint_least64_t)rc);
    return rc;
}

static void count_rows(struct graph_run *run)
{
    struct rows_in_cache *rows = &run->memory.rows;

    atomic_fetch_add(&run->plugin->counters.rows_coded, rows->n_coded);
    atomic_fetch_add(&run->plugin->counters.rows_shared, rows->n_shared);
    rows->n_coded = rows->n_shared = 0;
}

static enum ggml_status run_graph(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    struct graph_run *run = backend->context;
    const int n = ggml_graph_n_nodes(graph);
    int done = 0;

    rows_in_cache_forget(&run->memory.rows);
    for (int i = 0; i < n; i += done) {
        done = run_node(run, graph, i);
        if (done < 0)
            break;
    }
    count_rows(run);
    if (done < 0)
        return done == -ENOMEM ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
    return GGML_STATUS_SUCCESS;
}

ggml_backend_t graph_run_create(struct plugin *p)
{
    static uint8_t guid[16] = {0x6f, 0x72, 0x6b, 0x2d, 0x72, 0x6b, 0x33, 0x35,
                               0x38, 0x38, 0x2d, 0x6e, 0x70, 0x75, 0x2d, 0x31};
    struct ggml_backend *backend = calloc(1, sizeof(*backend));
    struct graph_run *run = calloc(1, sizeof(*run));

    if (!backend || !run) {
        free(backend);
        free(run);
        return NULL;
    }
    run->plugin = p;
    atomic_fetch_add(&p->n_streams, 1);
    *backend = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = run_name, .free = run_free, .graph_compute = run_graph},
        .device = &p->device,
        .context = run};
    return backend;
}
