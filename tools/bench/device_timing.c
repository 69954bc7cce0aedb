/* The tests' own device, with its graphs taken over. Products are counted, and attention; all else
 * is small beside them. */
#include "device_timing.h"

#include "base/clock.h"
#include "fake_device.h"

#include <string.h>
#include <time.h>

static struct {
    const struct timing_routes *routes;
    double tops, seconds;
    uint32_t layer;     /* routing decisions met in this prompt */
    int64_t busy_until; /* us */
} timing;

static double operations(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
        return 2.0 * (double)t->src[0]->ne[0] * (double)ggml_nelements(t);
    case GGML_OP_FLASH_ATTN_EXT: /* query by key, and weights by value */
        return 4.0 * (double)t->src[1]->ne[1] * (double)ggml_nelements(t);
    default:
        return 0;
    }
}

/* The last rows of the prompt, when the graph goes on with those only. */
static void route(struct ggml_tensor *sorted)
{
    const struct timing_routes *r = timing.routes;
    uint32_t layer = timing.layer++, rows = (uint32_t)sorted->ne[1];
    memset(sorted->data, 0, ggml_nbytes(sorted));
    if (!r || layer >= r->n_layers || rows > r->n_tokens)
        return;
    for (uint32_t i = 0; i < rows; i++)
        memcpy((char *)sorted->data + i * sorted->nb[1],
               r->at + (layer * r->n_tokens + r->n_tokens - rows + i) * r->n_used,
               r->n_used * sizeof *r->at);
}

static void sleep_until(int64_t us)
{
    int64_t left = us - clock_now_us();
    struct timespec t = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};
    if (left > 0)
        nanosleep(&t, NULL);
}

static bool pass_time(void *user, struct ggml_cgraph *graph)
{
    double sum = 0;
    (void)user;
    if (ggml_graph_n_nodes(graph) == 1 && ggml_graph_node(graph, 0)->ne[1] <= 64 && !timing.routes)
        return false; /* a trial product */
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *t = ggml_graph_node(graph, i);
        sum += operations(t);
        if (t->op == GGML_OP_ARGSORT)
            route(t);
    }
    double seconds = sum / (timing.tops * 1e12);
    int64_t now = clock_now_us();
    timing.busy_until =
        (timing.busy_until > now ? timing.busy_until : now) + (int64_t)(seconds * 1e6);
    timing.seconds += seconds;
    sleep_until(timing.busy_until);
    return true;
}

ggml_backend_dev_t timing_device(double tops)
{
    ggml_backend_dev_t device = fake_device(2);
    timing.routes = NULL;
    timing.tops = tops;
    fake_faults.host_ptr = true;
    fake_faults.instead = pass_time;
    return device;
}

void timing_prompt(const struct timing_routes *routes, double tops)
{
    timing.routes = routes;
    timing.tops = tops;
    timing.seconds = 0;
    timing.layer = 0;
    timing.busy_until = 0;
}

double timing_seconds(void)
{
    return timing.seconds;
}
