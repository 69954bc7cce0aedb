/*
 * Where every weight of a model lies, and binding libllama's tensors to it. A weight is
 *   paged   an expert matrix, slice by slice in the pager's budget (or a matrix of a dense model,
 * in blocks); pinned  read once into the pager's store: everything else, and all of a resident run;
 *   mapped  dense weights left in a mapping of the file (dense MMAP or WARM), for comparison.
 * Binding sets data, buffer, extra and the slice stride nb[2] of libllama's own ggml_tensor, once.
 * Paged and pinned weights may be in ggml's repacked layout.
 *
 * Threads: one. The tensors must not be in use by a graph.
 */
#ifndef BMOE_STREAM_WEIGHTS_H
#define BMOE_STREAM_WEIGHTS_H

#include "graph/graph_map.h"
#include "model/gguf_index.h"
#include "pager/pager.h"
#include "stream/repack.h"

enum weight_kind { WEIGHT_PINNED = 0, WEIGHT_PAGED = 1, WEIGHT_MAPPED = 2 };

struct weight {
    struct ggml_tensor *tensor;
    const struct gguf_tensor *file; /* where its bytes are */
    enum weight_kind kind;
    void *traits; /* the repacked layout's kernels, or NULL: the file's layout */
    struct repack_rows rows;
    struct pager_range range; /* paged */
    uint32_t n_slices;
    uint64_t slice_bytes;
    void *base;
};

struct weights_config {
    struct pager *pager;
    const struct gguf_index *index;
    const struct graph_map *map;
    struct repack *repack; /* NULL: the file's layouts */
    const int *files;      /* pager file number of each shard */
    bool paged;            /* else all is pinned */
    enum bmoe_dense dense;
    size_t page_bytes;
    const char *hide; /* test hook: a weight by this name is left out, to be met late */
};

struct weights_sums {
    uint64_t expert_bytes; /* of expert matrices, padded */
    uint64_t paged_bytes;  /* padded, of what is paged */
    uint64_t pinned_bytes; /* of what is pinned */
    uint64_t mapped_bytes;
    uint64_t largest_slice;       /* padded, of what is paged */
    uint64_t largest_set;         /* padded: n_expert slices of the largest expert matrix */
    uint64_t largest_set_experts; /* n_expert of that matrix */
    uint32_t n_repacked, n_weights;
};

struct weights;

/* Address space that the store may need for any plan over this model. */
uint64_t weights_reserve_bytes(const struct gguf_index *index, size_t page_bytes);

/* Decides the place of every weight of the map and sums up; nothing is added to the pager yet. */
int weights_create(struct weights **out, const struct weights_config *config,
                   struct bmoe_error *err);
void weights_destroy(struct weights *w);
void weights_sums(const struct weights *w, struct weights_sums *out);

/* Adds everything to the pager and binds the tensors. Reads nothing by itself: pager_start does. */
int weights_bind(struct weights *w, struct bmoe_error *err);

/* By the map's index. NULL when it is hidden. */
const struct weight *weights_get(const struct weights *w, uint32_t i);

/* Whether a weight's root tensor is bound to memory of ours. */
bool weights_owns(const struct weights *w, const struct ggml_tensor *root);

/* A weight met in a graph that the capture did not see: pins, reads and binds it now, in the file's
 * layout. */
int weights_adopt(struct weights *w, struct ggml_tensor *root, struct bmoe_error *err);

#endif
