/*
 * What a model's graph says about its weights, learned once from the nodes of one graph: which
 * weights there are and how each is read, which matrices hold experts, and which node decides the
 * routing of which matrices. There is no table of architectures: everything follows from the ops.
 *
 *   weight  the root (through view_src) of a node's source, in a buffer of usage WEIGHTS
 *   expert matrix  a weight that is src[0] of MUL_MAT_ID: [cols, rows, n_expert]
 *   site    one routing decision: an ids tensor (src[2] of MUL_MAT_ID, I32 [n_used, n_tokens]) with
 * the expert matrices that it selects from, in the order the graph computes them
 *
 * In later graphs nodes are recognised by what was learned: expert matmuls by their weight (model
 * tensors keep their address), routing nodes by name, and by ordinal where names repeat. A routing
 * node that is not recognised costs time, never correctness: see stream.h.
 *
 * Threads: built by one thread, read-only afterwards.
 */
#ifndef BMOE_GRAPH_GRAPH_MAP_H
#define BMOE_GRAPH_GRAPH_MAP_H

#include "bmoe.h"

#include <ggml.h>

enum graph_use {
    GRAPH_USE_MATRIX = 1,  /* src[0] of MUL_MAT */
    GRAPH_USE_EXPERTS = 2, /* src[0] of MUL_MAT_ID */
    GRAPH_USE_ROWS = 4,    /* src[0] of GET_ROWS */
    GRAPH_USE_OTHER = 8    /* anything else, views included */
};

#define GRAPH_NONE UINT32_MAX

struct graph_weight {
    struct ggml_tensor *tensor; /* libllama's */
    unsigned uses;              /* enum graph_use, ored */
    uint32_t site;              /* of an expert matrix, else GRAPH_NONE */
};

struct graph_site {
    char ids_name[GGML_MAX_NAME];
    uint32_t ids_ordinal; /* the ids tensor is node number this of the graph */
    bool name_shared;     /* another site has the same name: only the ordinal tells them apart */
    bool repeated;        /* one of its matrices is read by more than one node */
    uint32_t n_expert, n_used;
    uint32_t
        router; /* weight [n_embd, n_expert] whose product is routed by; GRAPH_NONE: not found */
    uint32_t n_matrices;
    uint32_t matrices[8]; /* weight indices, in graph order */
};

struct graph_map;

int graph_map_create(struct graph_map **out, struct bmoe_error *err);
void graph_map_destroy(struct graph_map *map);

/* Learns from the next node of the graph; called for every node in order. Errors are kept. */
void graph_map_add_node(struct graph_map *map, struct ggml_tensor *node);
/* After the last node: 0, or the first error. */
int graph_map_finish(struct graph_map *map, struct bmoe_error *err);

uint32_t graph_map_n_nodes(const struct graph_map *map);
uint32_t graph_map_n_weights(const struct graph_map *map);
const struct graph_weight *graph_map_weight(const struct graph_map *map, uint32_t i);
uint32_t graph_map_n_sites(const struct graph_map *map);
const struct graph_site *graph_map_site(const struct graph_map *map, uint32_t i);

/* The weight whose tensor this is, or GRAPH_NONE. */
uint32_t graph_map_find_weight(const struct graph_map *map, const struct ggml_tensor *tensor);
/* The site whose ids tensor this node is, ordinal being its number in the present graph; GRAPH_NONE
 * when it is none that was learned. */
uint32_t graph_map_find_site(const struct graph_map *map, const struct ggml_tensor *node,
                             uint32_t ordinal);

/* The matmul whose result an ids tensor is chosen from: MUL_MAT of a weight of n_expert rows, found
 * behind the ops between (softmax, bias, sorting); NULL: there is none. */
struct ggml_tensor *graph_router(struct ggml_tensor *ids, uint32_t n_expert);

/* The tensor behind views. */
struct ggml_tensor *graph_root(struct ggml_tensor *tensor);
/* Whether a tensor's root lies in a buffer of usage WEIGHTS. */
bool graph_is_weight(const struct ggml_tensor *root);

#endif
