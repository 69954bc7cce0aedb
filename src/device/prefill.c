/* The events of one graph; see prefill.h for what each means. */
#include "device/prefill.h"

#include "base/error.h"
#include "graph/routing.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a prompt whose experts decode is likely to want. */
#define RECENT_ROWS 4

struct prefill {
    struct prefill_config config;
    struct layers *layers;
    struct arena *arena;
    uint32_t *site_of;               /* layers->sites by site of the map; LAYERS_NONE */
    const struct ggml_tensor **told; /* ids of each site, in this graph */
    char (*before)[GGML_MAX_NAME];   /* by layer: where the one before it ends, in another graph */
    uint64_t set[32];
    uint64_t (*recent)[32]; /* by site of the map */
    void *scratch;
    size_t scratch_bytes;

    uint32_t current; /* layer whose first node is computed; LAYERS_NONE: none yet */
    uint32_t pending; /* layer whose first node is asked for; LAYERS_NONE: none */
    uint32_t ordinal;
    bool left;                      /* current's weights were not read since its end was computed */
    const struct ggml_tensor *last; /* node asked for before */
    const struct ggml_tensor *last_but_one;
    bool on_device; /* where the last was computed */
    bool failed;
    bool learned; /* of this graph: another weight stays on the host from now on */
    struct bmoe_error error;
    struct prefill_counters count;
};

static bool alloc_tables(struct prefill *p)
{
    uint32_t n = graph_map_n_sites(p->config.map);
    p->site_of = malloc((n + 1) * sizeof *p->site_of);
    p->told = calloc(n + 1, sizeof(*p->told));
    p->recent = calloc(n + 1, sizeof *p->recent);
    p->before = calloc(p->layers->n_layers + 1, sizeof *p->before);
    p->scratch_bytes = (size_t)p->config.n_tokens_max * p->config.n_expert_max * sizeof(int32_t);
    p->scratch = malloc(p->scratch_bytes + 1);
    if (!p->site_of || !p->told || !p->recent || !p->before || !p->scratch)
        return false;
    for (uint32_t i = 0; i < n; i++)
        p->site_of[i] = LAYERS_NONE;
    for (uint32_t s = 0; s < p->layers->n_sites; s++)
        p->site_of[p->layers->sites[s].site] = s;
    return true;
}

int prefill_create(struct prefill **out, const struct prefill_config *config,
                   const struct layer_source *sources, uint32_t n, struct bmoe_error *err)
{
    struct prefill *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the device's run");
    p->config = *config;
    struct layers_config lc = {.device = config->device,
                               .backend = config->backend,
                               .pager = config->pager,
                               .n_slots = config->n_slots,
                               .dense_resident = config->dense_resident,
                               .convert_limit = config->convert_limit,
                               .n_weights = graph_map_n_weights(config->map),
                               .n_tokens = config->n_tokens_max};
    int rc = layers_create(&p->layers, &lc, sources, n, err);
    if (rc == BMOE_OK && (p->layers->n_layers == 0 || config->n_expert_max > 64 * 32))
        rc = error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST, "the model has no layers to place");
    struct arena_config ac = {.pager = config->pager,
                              .layers = p->layers,
                              .n_loaders = config->n_loaders,
                              .routed = config->routed,
                              .whole_part = config->whole_part,
                              .hooks = config->hooks};
    if (rc == BMOE_OK)
        rc = arena_create(&p->arena, &ac, err);
    if (rc == BMOE_OK && !alloc_tables(p))
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the device's run");
    if (rc < 0)
        prefill_destroy(p);
    else
        *out = p;
    return rc;
}

void prefill_destroy(struct prefill *p)
{
    if (!p)
        return;
    arena_destroy(p->arena);
    layers_destroy(p->layers);
    free(p->site_of);
    free(p->told);
    free(p->recent);
    free(p->before);
    free(p->scratch);
    free(p);
}

void prefill_begin(struct prefill *p)
{
    memset(p->told, 0, graph_map_n_sites(p->config.map) * sizeof(*p->told));
    p->current = p->pending = LAYERS_NONE;
    p->ordinal = 0;
    p->last = p->last_but_one = NULL;
    p->on_device = p->failed = p->learned = p->left = false;
    layers_bind(p->layers);
    arena_begin(p->arena);
}

int prefill_end(struct prefill *p, struct bmoe_error *err)
{
    int rc = arena_end(p->arena, err);
    layers_unbind(p->layers);
    for (uint32_t i = 0; p->learned && i < p->layers->n_entries; i++)
        if (p->layers->entries[i].unused)
            p->layers->entries[i].device = NULL;
    if (rc == BMOE_OK && p->failed) {
        rc = p->error.code;
        if (err)
            *err = p->error;
    }
    if (rc < 0 && err)
        err->scope = BMOE_SCOPE_REQUEST;
    return rc;
}

bool prefill_stopped(const struct prefill *p)
{
    return p->failed;
}

bool prefill_learned(struct prefill *p)
{
    bool learned = p->learned;
    p->learned = false;
    return learned;
}

static bool computes(const struct ggml_tensor *node)
{
    return node->op != GGML_OP_NONE && node->op != GGML_OP_VIEW && node->op != GGML_OP_RESHAPE &&
           node->op != GGML_OP_PERMUTE && node->op != GGML_OP_TRANSPOSE;
}

/* Its result lies there, which for an op that works in place may be the CPU's doing, where both
 * share memory: one that the device refuses is not its own. */
static bool is_devices(const struct prefill *p, const struct ggml_tensor *node)
{
    ggml_backend_buffer_t b = node->view_src ? node->view_src->buffer : node->buffer;
    return b && ggml_backend_buft_get_device(ggml_backend_buffer_get_type(b)) == p->config.device &&
           ggml_backend_dev_supports_op(p->config.device, node);
}

/* What the placement of a node tells of the run. */
static void count_node(struct prefill *p, const struct ggml_tensor *node, bool layer_matmul)
{
    if (!computes(node) || ggml_is_empty(node))
        return;
    bool here = is_devices(p, node);
    p->count.nodes += here;
    p->count.splits += here != p->on_device;
    p->count.cpu_matmuls += layer_matmul && !here;
    p->on_device = here;
}

static void seam(struct prefill *p, uint32_t layer, const struct ggml_tensor *node)
{
    if (!p->failed)
        error_set(
            &p->error, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
            "the graph reads layer %u at '%s' after layer %u, when its weights are not on the "
            "device",
            layer, node->name, p->current == LAYERS_NONE ? 0 : p->current);
    p->failed = true;
}

/* The layer before ends where the node is computed after which only the new one's follow: before
 * its first, and before the normalisation that one scales, so that a device finds both and the
 * products after them in one piece. */
static const struct ggml_tensor *end_of_previous(const struct prefill *p,
                                                 const struct ggml_tensor *first)
{
    bool norm = p->last && first->src[0] == p->last &&
                (p->last->op == GGML_OP_RMS_NORM || p->last->op == GGML_OP_NORM);
    return norm ? p->last_but_one : p->last;
}

/* The first node of a layer. */
static void enter(struct prefill *p, uint32_t layer, const struct ggml_tensor *node)
{
    bool forward = p->current == LAYERS_NONE || layer > p->current;
    if (!forward || !arena_is_open(p->arena, layer)) {
        seam(p, layer, node);
        return;
    }
    const struct ggml_tensor *end = end_of_previous(p, node);
    if (end)
        memcpy(p->before[layer], end->name, GGML_MAX_NAME);
    p->failed |= !arena_dense(p->arena, layer);
    if (p->left && p->current != LAYERS_NONE)
        arena_passed(p->arena, p->current);
    if (p->left)
        p->current = layer;
    else
        p->pending = layer;
}

/* Whether the current layer ends with this node. */
static bool is_end(const struct prefill *p, const struct ggml_tensor *node)
{
    uint32_t next = p->current == LAYERS_NONE ? 0 : p->current + 1;
    return next < p->layers->n_layers && p->before[next][0] &&
           strncmp(p->before[next], node->name, GGML_MAX_NAME) == 0;
}

/* Whether `t` is the tensor, or what the scheduler calls its copy on another backend
 * (BACKEND#NAME#NUMBER). */
static bool is_or_copies(const struct ggml_tensor *t, const struct ggml_tensor *of)
{
    const char *begin = strchr(t->name, '#'), *end = strrchr(t->name, '#');
    if (!of || t == of)
        return t == of;
    size_t n = strnlen(of->name, GGML_MAX_NAME);
    return begin && end > begin && (size_t)(end - begin - 1) == n &&
           memcmp(begin + 1, of->name, n) == 0;
}

/* Whether the scheduler's name of `t` says that it copies a weight, or a view of it. A name that
 * was cut counts as far as it goes: to see a copy too many is slow, to miss one is wrong. */
static bool copies_weight(const struct ggml_tensor *t, const struct ggml_tensor *weight)
{
    const char *of = strchr(t->name, '#');
    size_t n = strnlen(weight->name, GGML_MAX_NAME);
    if (!of)
        return false;
    size_t left = strnlen(of + 1, GGML_MAX_NAME);
    if (left <= n)
        return memcmp(of + 1, weight->name, left) == 0;
    return memcmp(of + 1, weight->name, n) == 0 && (of[1 + n] == '#' || of[1 + n] == ' ');
}

static const char *role_of(const struct layer_entry *e)
{
    const char *dot = strchr(e->src.tensor->name + strlen("blk."), '.');
    return dot ? dot : e->src.tensor->name;
}

/* A copy of a weight on the device was made when the split began, whatever lay there then. A dense
 * weight stays on the host from now on, and so do those of its role in other layers: what is
 * refused once is refused in each. Experts would be computed on the host one by one with their
 * pages away, so then the device will not do. */
static bool copies_slot(struct prefill *p, const struct ggml_tensor *t)
{
    const char *begin = strchr(t->name, '#');
    if (!begin || strncmp(begin + 1, "blk.", 4) != 0)
        return false;
    const struct layer_entry *found = NULL;
    for (uint32_t i = 0; i < p->layers->n_entries && !found; i++)
        if (p->layers->entries[i].device && copies_weight(t, p->layers->entries[i].src.tensor))
            found = &p->layers->entries[i];
    if (!found)
        return false;
    error_set(&p->error, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
              "the scheduler copies %s from the device for an op on the host",
              found->src.tensor->name);
    p->failed = true;
    p->learned = found->src.site == GRAPH_NONE;
    for (uint32_t i = 0; i < p->layers->n_entries && p->learned; i++) {
        struct layer_entry *e = &p->layers->entries[i];
        e->unused |= e->src.site == GRAPH_NONE && strcmp(role_of(e), role_of(found)) == 0;
    }
    return true;
}

/* An expert matmul whose routing was not told. */
static void need_all(struct prefill *p, const struct ggml_tensor *node, uint32_t site)
{
    if (site != GRAPH_NONE && p->site_of[site] != LAYERS_NONE &&
        !(p->told[site] && is_or_copies(node->src[2], p->told[site])))
        p->failed |= !arena_experts(p->arena, p->site_of[site], NULL);
}

static bool asked(struct prefill *p, struct ggml_tensor *node)
{
    uint32_t ordinal = p->ordinal++;
    bool layer_matmul = false;
    if (p->failed)
        return true;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (!node->src[i])
            continue;
        if (copies_slot(p, node->src[i]))
            return true;
        uint32_t weight = graph_map_find_weight(p->config.map, graph_root(node->src[i]));
        if (weight == GRAPH_NONE || p->layers->entry_of[weight] == LAYERS_NONE)
            continue;
        uint32_t entry = p->layers->entry_of[weight], layer = p->layers->layer_of[entry];
        layer_matmul |= i == 0 && (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID);
        if (layer != (p->pending != LAYERS_NONE ? p->pending : p->current))
            enter(p, layer, node);
        p->left = false;
        if (i == 0 && node->op == GGML_OP_MUL_MAT_ID && !p->failed)
            need_all(p, node, p->layers->entries[entry].src.site);
        if (p->failed)
            return true;
    }
    count_node(p, node, layer_matmul);
    p->last_but_one = p->last;
    p->last = node;
    return p->pending != LAYERS_NONE || is_end(p, node) ||
           graph_map_find_site(p->config.map, node, ordinal) != GRAPH_NONE;
}

static void told_routing(struct prefill *p, uint32_t site, const struct ggml_tensor *ids)
{
    uint32_t own = p->site_of[site];
    struct routing r;
    if (own == LAYERS_NONE)
        return;
    /* The ids of a layer that is not there yet say nothing about what its slot must hold. */
    uint32_t layer = p->layers->layer_of[p->layers->sites[own].entries[0]];
    if (!arena_is_open(p->arena, layer))
        return;
    bool known =
        routing_read(&r, p->set, p->layers->sites[own].n_expert, ids, p->scratch, p->scratch_bytes);
    if (known)
        routing_last(p->recent[site], p->layers->sites[own].n_expert, ids, RECENT_ROWS, p->scratch);
    p->failed |= !arena_experts(p->arena, own, known ? p->set : NULL);
    p->told[site] = ids;
}

static bool told(struct prefill *p, struct ggml_tensor *node)
{
    if (p->failed)
        return false;
    if (p->pending != LAYERS_NONE) {
        if (p->pending > 0)
            arena_passed(p->arena, p->pending - 1);
        p->current = p->pending;
        p->pending = LAYERS_NONE;
    } else if (is_end(p, node)) {
        p->left = true;
    }
    /* The node was asked for last: its number is the one before the next. */
    uint32_t site = graph_map_find_site(p->config.map, node, p->ordinal - 1);
    if (site != GRAPH_NONE)
        told_routing(p, site, node);
    return !p->failed;
}

bool prefill_node(struct prefill *p, struct ggml_tensor *node, bool ask)
{
    return ask ? asked(p, node) : told(p, node);
}

const uint64_t *prefill_recent(const struct prefill *p, uint32_t site)
{
    return p->told[site] ? p->recent[site] : NULL;
}

void prefill_counters(const struct prefill *p, struct prefill_counters *out)
{
    *out = p->count;
    arena_counters(p->arena, &out->arena);
    out->device_bytes = p->layers->device_bytes;
    out->host_bytes = p->layers->host_bytes + out->arena.buffer_bytes;
    out->n_slots = p->layers->n_slots;
    out->n_carried = p->layers->n_carried;
    out->n_kept = p->layers->n_kept;
    out->wrong_type = p->layers->wrong_type;
}
