/*
 * What a running session does, told event by event to whoever asked: routings, reads, nodes. A
 * routing waits here until its weights have been computed, as these come some nodes later. Asking
 * for more nodes than the engine itself splits a graph further; each node is still computed by the
 * same kernel, so the bits stay.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "graph/routing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One routing, until its weights are known. */
struct pending {
    uint32_t site; /* GRAPH_NONE: none */
    uint32_t n_tokens, n_used;
    int32_t *ids;
    float *weights;
    bool *resident, *first; /* before the routing's reads; the first row of that expert */
};

struct trace {
    struct pending p;
    size_t room;                    /* ids that a graph routes in a layer at most */
    uint32_t ordinal, first_pos, n; /* n: tokens of the graph */
    bool prefill;
    int64_t told_us;
    uint32_t split, n_in_split; /* the running split, and nodes of it told so far */
    int64_t split_us;
    const char *device; /* ggml's name; NULL: no node yet */
};

static bool wants_routes(const struct bmoe_session *s)
{
    return s->o.on_route && graph_map_n_sites(s->map) > 0;
}

int trace_open(struct bmoe_session *s, struct bmoe_error *err)
{
    if (!s->o.on_route && !s->o.on_read && !s->o.on_node)
        return BMOE_OK;
    struct trace *t = calloc(1, sizeof *t);
    s->trace = t;
    uint32_t used = 1;
    for (uint32_t i = 0; i < graph_map_n_sites(s->map); i++)
        if (graph_map_site(s->map, i)->n_used > used)
            used = graph_map_site(s->map, i)->n_used;
    if (t) {
        t->room = (size_t)s->n_batch * used;
        t->p.site = GRAPH_NONE;
        t->p.ids = malloc(t->room * sizeof *t->p.ids);
        t->p.weights = malloc(t->room * sizeof *t->p.weights);
        t->p.resident = malloc(t->room * sizeof *t->p.resident);
        t->p.first = malloc(t->room * sizeof *t->p.first);
    }
    if (!t || !t->p.ids || !t->p.weights || !t->p.resident || !t->p.first)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for traces");
    pager_trace_reads(s->pager, s->o.on_read != NULL);
    return BMOE_OK;
}

void trace_close(struct bmoe_session *s)
{
    if (!s->trace)
        return;
    free(s->trace->p.ids);
    free(s->trace->p.weights);
    free(s->trace->p.resident);
    free(s->trace->p.first);
    free(s->trace);
    s->trace = NULL;
}

/* ---- routings ---- */

/* Whether all of an expert's matrices are in memory, and how many bytes they have in the file. */
static bool expert_there(const struct bmoe_session *s, uint32_t site, uint32_t expert,
                         uint64_t *bytes)
{
    const struct graph_site *g = graph_map_site(s->map, site);
    bool there = true;
    *bytes = 0;
    for (uint32_t m = 0; m < g->n_matrices; m++) {
        const struct weight *w = weights_get(s->weights, g->matrices[m]);
        if (!w)
            continue;
        *bytes += w->slice_bytes;
        if (w->kind == WEIGHT_PAGED)
            there = there && pager_extent_resident(s->pager, w->range.first_extent + expert);
    }
    return there;
}

static void flush_routing(struct bmoe_session *s)
{
    struct trace *t = s->trace;
    struct pending *p = &t->p;
    if (p->site == GRAPH_NONE)
        return;
    const struct graph_site *g = graph_map_site(s->map, p->site);
    /* The last layer computes only the tokens whose logits are wanted: the last ones. */
    uint32_t skipped = p->n_tokens < t->n ? t->n - p->n_tokens : 0;
    for (uint32_t i = 0; i < p->n_tokens * p->n_used; i++) {
        uint64_t bytes = 0;
        expert_there(s, p->site, (uint32_t)p->ids[i], &bytes);
        struct bmoe_route r = {.size = sizeof r,
                               .request = s->n_requests,
                               .prefill = t->prefill,
                               .position = t->first_pos + skipped + i / p->n_used,
                               .layer = p->site,
                               .n_expert = g->n_expert,
                               .slot = i % p->n_used,
                               .expert = (uint32_t)p->ids[i],
                               .weight = p->weights[i],
                               .resident = p->resident[i],
                               .expert_bytes = bytes,
                               .first = p->first[i]};
        s->o.on_route(s->o.trace_user, &r);
    }
    p->site = GRAPH_NONE;
}

static bool readable(const struct ggml_tensor *t)
{
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;
    return root->buffer && ggml_backend_buffer_is_host(root->buffer) && t->data;
}

static bool seen_before(const struct pending *p, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (p->ids[k] == p->ids[i])
            return true;
    return false;
}

static void take_routing(struct bmoe_session *s, uint32_t site, const struct ggml_tensor *ids)
{
    struct pending *p = &s->trace->p;
    const struct graph_site *g = graph_map_site(s->map, site);
    flush_routing(s);
    if (!readable(ids) || (size_t)ids->ne[0] * (size_t)ids->ne[1] > s->trace->room)
        return;
    p->n_used = (uint32_t)ids->ne[0];
    p->n_tokens = (uint32_t)ids->ne[1];
    for (uint32_t i = 0; i < p->n_tokens * p->n_used; i++) {
        const char *at =
            (const char *)ids->data + i / p->n_used * ids->nb[1] + i % p->n_used * ids->nb[0];
        uint64_t bytes;
        memcpy(&p->ids[i], at, sizeof p->ids[i]);
        if (p->ids[i] < 0 || (uint32_t)p->ids[i] >= g->n_expert)
            return;
        p->weights[i] = NAN;
        p->first[i] = !seen_before(p, i);
        p->resident[i] = expert_there(s, site, (uint32_t)p->ids[i], &bytes);
    }
    p->site = site;
}

/* libllama calls them so whatever the architecture; where it does not, weights stay unknown. */
static bool is_weights(const struct ggml_tensor *node)
{
    return strncmp(node->name, "ffn_moe_weights", 15) == 0;
}

/* [1, n_used, n_tokens] or [n_used, n_tokens]: the last such node before the next routing holds. */
static void take_weights(struct bmoe_session *s, const struct ggml_tensor *node)
{
    struct pending *p = &s->trace->p;
    size_t n = (size_t)p->n_tokens * p->n_used;
    if (p->site != GRAPH_NONE && node->type == GGML_TYPE_F32 && readable(node) &&
        ggml_is_contiguous(node) && (size_t)ggml_nelements(node) == n)
        memcpy(p->weights, node->data, n * sizeof *p->weights);
}

/* ---- events ---- */

void trace_graph_begin(struct bmoe_session *s, uint32_t n)
{
    struct trace *t = s->trace;
    if (!t)
        return;
    t->ordinal = 0;
    t->first_pos = s->n_kv;
    t->n = n;
    t->prefill = n > 1 || !s->decoding;
    t->told_us = clock_now_us();
    t->split = t->n_in_split = 0;
    t->split_us = 0;
    t->device = NULL;
}

static void tell(struct bmoe_session *s, const char *op, const char *name, int64_t wall_us)
{
    const struct trace *t = s->trace;
    struct bmoe_node e = {.size = sizeof e,
                          .request = s->n_requests,
                          .prefill = t->prefill,
                          .position = t->first_pos,
                          .ordinal = t->ordinal - 1,
                          .op = op,
                          .name = name,
                          .wall_us = wall_us,
                          .split = t->split,
                          .device = t->device};
    s->o.on_node(s->o.trace_user, &e);
}

static void end_split(struct bmoe_session *s)
{
    struct trace *t = s->trace;
    if (t->n_in_split == 0)
        return;
    tell(s, "SPLIT", "", t->split_us);
    t->split++;
    t->n_in_split = 0;
    t->split_us = 0;
}

/* Where a node is computed shows in where its result lies; plain host memory has no device, and its
 * type's name is the CPU's. NULL: nothing is computed. */
static const char *device_of(const struct ggml_tensor *node)
{
    const struct ggml_tensor *root = node->view_src ? node->view_src : node;
    if (!root->buffer || node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW ||
        node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE)
        return NULL;
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(root->buffer);
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    return device ? ggml_backend_dev_name(device) : ggml_backend_buft_name(type);
}

static void tell_node(struct bmoe_session *s, const struct ggml_tensor *node)
{
    struct trace *t = s->trace;
    int64_t wall_us = clock_now_us() - t->told_us;
    const char *device = device_of(node);
    if (device && t->device && strcmp(device, t->device) != 0) {
        t->ordinal--; /* the node before this one was its last */
        end_split(s);
        t->ordinal++;
    }
    if (device)
        t->device = device;
    t->n_in_split++;
    t->split_us += wall_us;
    tell(s, ggml_op_desc(node), node->name, wall_us);
    t->told_us = clock_now_us();
}

bool trace_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask)
{
    struct trace *t = s->trace;
    if (!t)
        return false;
    if (ask) {
        t->ordinal++;
        return s->o.on_node || (wants_routes(s) && is_weights(node)) ||
               (wants_routes(s) && graph_map_find_site(s->map, node, t->ordinal - 1) != GRAPH_NONE);
    }
    if (wants_routes(s)) {
        uint32_t site = graph_map_find_site(s->map, node, t->ordinal - 1);
        if (site != GRAPH_NONE)
            take_routing(s, site, node);
        else if (is_weights(node))
            take_weights(s, node);
    }
    if (s->o.on_node)
        tell_node(s, node);
    return false;
}

void trace_graph_end(struct bmoe_session *s)
{
    if (!s->trace)
        return;
    if (wants_routes(s))
        flush_routing(s);
    if (s->o.on_node)
        end_split(s);
    if (!s->o.on_read)
        return;
    struct pager_read_record *records = NULL;
    size_t n = pager_trace_take(s->pager, &records);
    for (size_t i = 0; i < n; i++) {
        struct bmoe_read r = {.size = sizeof r,
                              .request = s->n_requests,
                              .position = s->trace->first_pos,
                              .file = (uint32_t)records[i].file,
                              .offset = records[i].offset,
                              .bytes = records[i].bytes,
                              .latency_us = records[i].latency_us,
                              .reader = records[i].reader,
                              .cause = (enum bmoe_read_cause)records[i].cause};
        s->o.on_read(s->o.trace_user, &r);
    }
    free(records);
}
