/*
 * Growing arrays of weights and sites with two open-addressing tables over them: by tensor address
 * for weights, by name for routing nodes. Built during the capture, which runs no compute, so its
 * cost does not matter; the look-ups run once per node of every graph, so they reject early: by op,
 * by type, by hash.
 */
#include "graph/graph_map.h"

#include "base/error.h"

#include <ggml-backend.h>
#include <stdlib.h>
#include <string.h>

/* Ops between a router's matmul and the ids, at most; more than any architecture has. */
#define ROUTER_STEPS 12

/* The ids pointer of a site is only meaningful while the capture's graph lives. */
struct site_ids {
    const struct ggml_tensor *ids;
};

struct graph_map {
    struct graph_weight *weights;
    uint32_t n_weights, cap_weights;
    struct graph_site *sites;
    struct site_ids *site_ids;
    uint32_t n_sites, cap_sites;
    /* Capture only: address of each node seen, so that an ids tensor's ordinal is found. */
    const struct ggml_tensor **nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t *by_tensor; /* 1 << bits entries of weight index + 1; 0 is free */
    uint32_t *by_name;   /* of site index + 1 */
    unsigned weight_bits, site_bits;
    struct bmoe_error error; /* code 0: none yet */
};

static int fail(struct graph_map *map, int code, const char *what)
{
    if (map->error.code == 0)
        error_set(&map->error, code, BMOE_SCOPE_SESSION, "learning the model's graph: %s", what);
    return map->error.code;
}

static bool grow(void **array, uint32_t *cap, uint32_t n, size_t item)
{
    if (n < *cap)
        return true;
    uint32_t want = *cap ? *cap * 2 : 64;
    void *bigger = realloc(*array, want * item);
    if (!bigger)
        return false;
    *array = bigger;
    *cap = want;
    return true;
}

int graph_map_create(struct graph_map **out, struct bmoe_error *err)
{
    struct graph_map *map = calloc(1, sizeof *map);
    if (!map)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the graph's map");
    *out = map;
    return BMOE_OK;
}

void graph_map_destroy(struct graph_map *map)
{
    if (!map)
        return;
    free(map->weights);
    free(map->sites);
    free(map->site_ids);
    free(map->nodes);
    free(map->by_tensor);
    free(map->by_name);
    free(map);
}

struct ggml_tensor *graph_root(struct ggml_tensor *tensor)
{
    while (tensor->view_src)
        tensor = tensor->view_src;
    return tensor;
}

bool graph_is_weight(const struct ggml_tensor *root)
{
    return root->buffer &&
           ggml_backend_buffer_get_usage(root->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

static unsigned use_of(const struct ggml_tensor *node, int src)
{
    if (src != 0 || node->src[0]->view_src)
        return GRAPH_USE_OTHER;
    switch (node->op) {
    case GGML_OP_MUL_MAT: /* of other activations than these ggml has fewer kernels */
        return node->src[1]->type == GGML_TYPE_F32 ? GRAPH_USE_MATRIX : GRAPH_USE_OTHER;
    case GGML_OP_MUL_MAT_ID:
        return GRAPH_USE_EXPERTS;
    case GGML_OP_GET_ROWS:
        return GRAPH_USE_ROWS;
    default:
        return GRAPH_USE_OTHER;
    }
}

static uint32_t hash_bytes(const void *bytes, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (const unsigned char *p = bytes; n--; p++)
        h = (h ^ *p) * 16777619u;
    return h ^ (h >> 15);
}

static uint32_t hash_pointer(const void *p)
{
    uint64_t x = (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u;
    return (uint32_t)(x >> 32);
}

static uint32_t weight_linear(const struct graph_map *map, const struct ggml_tensor *tensor)
{
    for (uint32_t i = 0; i < map->n_weights; i++)
        if (map->weights[i].tensor == tensor)
            return i;
    return GRAPH_NONE;
}

static uint32_t weight_note(struct graph_map *map, struct ggml_tensor *tensor, unsigned use)
{
    uint32_t i = weight_linear(map, tensor);
    if (i == GRAPH_NONE) {
        if (!grow((void **)&map->weights, &map->cap_weights, map->n_weights,
                  sizeof *map->weights)) {
            fail(map, BMOE_E_MEMORY, "no memory");
            return GRAPH_NONE;
        }
        i = map->n_weights++;
        map->weights[i] = (struct graph_weight){.tensor = tensor, .site = GRAPH_NONE};
    }
    map->weights[i].uses |= use;
    return i;
}

static uint32_t ordinal_of(const struct graph_map *map, const struct ggml_tensor *node)
{
    for (uint32_t i = map->n_nodes; i > 0; i--)
        if (map->nodes[i - 1] == node)
            return i - 1;
    return GRAPH_NONE;
}

struct ggml_tensor *graph_router(struct ggml_tensor *ids, uint32_t n_expert)
{
    struct ggml_tensor *t = graph_root(ids);
    for (int step = 0; t && step < ROUTER_STEPS; step++) {
        if (t->op == GGML_OP_MUL_MAT && t->src[0]->ne[1] == n_expert && graph_is_weight(t->src[0]))
            return t;
        t = t->src[0] ? graph_root(t->src[0]) : NULL;
    }
    return NULL;
}

static struct graph_site *site_note(struct graph_map *map, const struct ggml_tensor *ids)
{
    for (uint32_t i = map->n_sites; i > 0; i--)
        if (map->site_ids[i - 1].ids == ids)
            return &map->sites[i - 1];
    uint32_t cap = map->cap_sites;
    if (!grow((void **)&map->sites, &map->cap_sites, map->n_sites, sizeof *map->sites) ||
        !grow((void **)&map->site_ids, &cap, map->n_sites, sizeof *map->site_ids)) {
        fail(map, BMOE_E_MEMORY, "no memory");
        return NULL;
    }
    struct graph_site *site = &map->sites[map->n_sites];
    *site = (struct graph_site){
        .ids_ordinal = ordinal_of(map, ids), .n_used = (uint32_t)ids->ne[0], .router = GRAPH_NONE};
    memcpy(site->ids_name, ids->name, sizeof site->ids_name);
    map->site_ids[map->n_sites++].ids = ids;
    return site;
}

static void note_experts(struct graph_map *map, const struct ggml_tensor *node, uint32_t weight)
{
    struct graph_site *site = site_note(map, node->src[2]);
    if (!site)
        return;
    struct graph_weight *w = &map->weights[weight];
    uint32_t n_expert = (uint32_t)w->tensor->ne[2];
    if (w->site != GRAPH_NONE) { /* the first routing is the one that is hinted */
        map->sites[w->site].repeated = true;
        return;
    }
    if (site->n_matrices == 0) {
        struct ggml_tensor *router = graph_router(node->src[2], n_expert);
        site->n_expert = n_expert;
        site->router = router ? weight_linear(map, router->src[0]) : GRAPH_NONE;
    }
    if (site->n_expert != n_expert ||
        site->n_matrices == sizeof site->matrices / sizeof site->matrices[0]) {
        w->uses |= GRAPH_USE_OTHER; /* not the shape of a site: kept resident */
        return;
    }
    w->site = (uint32_t)(site - map->sites);
    site->matrices[site->n_matrices++] = weight;
}

void graph_map_add_node(struct graph_map *map, struct ggml_tensor *node)
{
    if (!grow((void **)&map->nodes, &map->cap_nodes, map->n_nodes, sizeof(*map->nodes))) {
        fail(map, BMOE_E_MEMORY, "no memory");
        return;
    }
    map->nodes[map->n_nodes++] = node;
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        if (!node->src[s])
            continue;
        struct ggml_tensor *root = graph_root(node->src[s]);
        if (!graph_is_weight(root))
            continue;
        unsigned use = use_of(node, s);
        uint32_t weight = weight_note(map, root, use);
        if (use == GRAPH_USE_EXPERTS && weight != GRAPH_NONE)
            note_experts(map, node, weight);
    }
}

static unsigned bits_for(uint32_t n)
{
    unsigned bits = 4;
    while ((1u << bits) < 2 * n)
        bits++;
    return bits;
}

static bool build_tables(struct graph_map *map)
{
    map->weight_bits = bits_for(map->n_weights);
    map->site_bits = bits_for(map->n_sites);
    map->by_tensor = calloc((size_t)1 << map->weight_bits, sizeof *map->by_tensor);
    map->by_name = calloc((size_t)1 << map->site_bits, sizeof *map->by_name);
    if (!map->by_tensor || !map->by_name)
        return false;
    uint32_t mask = (1u << map->weight_bits) - 1;
    for (uint32_t i = 0; i < map->n_weights; i++) {
        uint32_t at = hash_pointer(map->weights[i].tensor) & mask;
        while (map->by_tensor[at])
            at = (at + 1) & mask;
        map->by_tensor[at] = i + 1;
    }
    mask = (1u << map->site_bits) - 1;
    for (uint32_t i = 0; i < map->n_sites; i++) {
        const char *name = map->sites[i].ids_name;
        uint32_t at = hash_bytes(name, strlen(name)) & mask;
        for (; map->by_name[at]; at = (at + 1) & mask) {
            struct graph_site *other = &map->sites[map->by_name[at] - 1];
            if (strncmp(other->ids_name, name, sizeof other->ids_name) == 0)
                other->name_shared = map->sites[i].name_shared = true;
        }
        map->by_name[at] = i + 1;
    }
    return true;
}

int graph_map_finish(struct graph_map *map, struct bmoe_error *err)
{
    if (map->error.code == 0 && map->n_weights == 0)
        fail(map, BMOE_E_SEAM, "no weight was seen; libllama does not ask for its nodes");
    if (map->error.code == 0 && !build_tables(map))
        fail(map, BMOE_E_MEMORY, "no memory");
    free(map->nodes);
    free(map->site_ids);
    map->nodes = NULL;
    map->site_ids = NULL;
    if (map->error.code != 0 && err)
        *err = map->error;
    return map->error.code;
}

uint32_t graph_map_n_nodes(const struct graph_map *map)
{
    return map->n_nodes;
}

uint32_t graph_map_n_weights(const struct graph_map *map)
{
    return map->n_weights;
}

const struct graph_weight *graph_map_weight(const struct graph_map *map, uint32_t i)
{
    return &map->weights[i];
}

uint32_t graph_map_n_sites(const struct graph_map *map)
{
    return map->n_sites;
}

const struct graph_site *graph_map_site(const struct graph_map *map, uint32_t i)
{
    return &map->sites[i];
}

uint32_t graph_map_find_weight(const struct graph_map *map, const struct ggml_tensor *tensor)
{
    uint32_t mask = (1u << map->weight_bits) - 1;
    for (uint32_t at = hash_pointer(tensor) & mask; map->by_tensor[at]; at = (at + 1) & mask)
        if (map->weights[map->by_tensor[at] - 1].tensor == tensor)
            return map->by_tensor[at] - 1;
    return GRAPH_NONE;
}

uint32_t graph_map_find_site(const struct graph_map *map, const struct ggml_tensor *node,
                             uint32_t ordinal)
{
    if (node->type != GGML_TYPE_I32)
        return GRAPH_NONE;
    uint32_t mask = (1u << map->site_bits) - 1;
    size_t len = strnlen(node->name, sizeof node->name);
    for (uint32_t at = hash_bytes(node->name, len) & mask; map->by_name[at]; at = (at + 1) & mask) {
        const struct graph_site *site = &map->sites[map->by_name[at] - 1];
        bool same = strncmp(site->ids_name, node->name, sizeof site->ids_name) == 0;
        if (same && (!site->name_shared || site->ids_ordinal == ordinal))
            return map->by_name[at] - 1;
    }
    return GRAPH_NONE;
}
