/* A stream on the device: the nodes of a graph in order, each finished before the next. What fails
 * is said in one sentence and ends the graph with an error; nothing is left half answered. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mul_mat.h"
#include "op_support.h"

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

    mul_mat_memory_fini(&run->memory);
    free(run);
    free(backend);
}

static bool is_packed_here(const struct plugin *p, const struct ggml_tensor *w)
{
    return w->buffer && ggml_backend_buffer_get_type(w->buffer) == &p->packed;
}

/* A weight in plain memory is packed for this product alone. */
static int run_plain(struct graph_run *run, const struct ggml_tensor *node, struct ork_error *error)
{
    const struct ggml_tensor *w = node->src[0];
    struct packed_weight *packed;
    int rc = packed_weight_create(run->plugin->npu, w, &packed, error);

    if (rc < 0)
        return rc;
    rc = packed_weight_set(packed, w->data, 0, ggml_nbytes(w));
    rc = rc < 0 ? rc : mul_mat_run(run->plugin->npu, &run->memory, packed, node, error);
    packed_weight_destroy(packed);
    return rc;
}

static int run_product(struct graph_run *run, const struct ggml_tensor *node,
                       struct ork_error *error)
{
    const struct ggml_tensor *w = node->src[0];
    const struct packed_weight *packed = w->extra;

    if (!is_packed_here(run->plugin, w))
        return run_plain(run, node, error);
    if (!packed || w->view_src || atomic_load(&packed->torn)) {
        snprintf(error->text, sizeof(error->text), "its weight was not set as whole rows.");
        return -EINVAL;
    }
    return mul_mat_run(run->plugin->npu, &run->memory, packed, node, error);
}

static int run_node(struct graph_run *run, const struct ggml_tensor *node)
{
    struct ork_error error = {0};
    int rc;

    if (op_support_is_nothing(node) || !(node->flags & GGML_TENSOR_FLAG_COMPUTE) ||
        ggml_is_empty(node))
        return 0;
    pthread_mutex_lock(&run->plugin->product_lock);
    rc = op_support_shape(node) ? run_product(run, node, &error) : -EOPNOTSUPP;
    pthread_mutex_unlock(&run->plugin->product_lock);
    if (rc < 0)
        plugin_log(GGML_LOG_LEVEL_ERROR, "%s (%s) was not computed: %s", node->name,
                   ggml_op_desc(node), *error.text ? error.text : strerror(-rc));
    return rc;
}

static enum ggml_status run_graph(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    struct graph_run *run = backend->context;
    const int n = ggml_graph_n_nodes(graph);

    run->memory.coded = NULL;
    for (int i = 0; i < n; i++) {
        const int rc = run_node(run, ggml_graph_node(graph, i));

        if (rc < 0)
            return rc == -ENOMEM ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
    }
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
    *backend = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = run_name, .free = run_free, .graph_compute = run_graph},
        .device = &p->device,
        .context = run};
    return backend;
}
