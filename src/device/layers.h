/*
 * The layer weights of a model as a prefill device holds them. For the time of a wide graph each
 * libllama tensor is bound to device memory, and back to the host's afterwards; which memory, is
 * decided once:
 *
 *   slot      layer number i (in graph order) lies in slot i % n_slots, whatever i: two layers of
 *             one slot are never there at the same time. A weight's place in its slot is that of
 *             its role ("ffn_up_exps.weight"), sized for the largest layer.
 *   resident  memory of its own, written once: dense weights where the device has room.
 *   host      not bound: the device takes it in no type, or not for the op that reads it.
 *
 * Matrices lie in the buffer type the device multiplies from (one of its extra types, or its own);
 * weights that an op reads otherwise lie in its plain type. A matrix may be carried in another type
 * than the file's; experts never are.
 *
 * Threads: built, bound and unbound by one; read by the loaders in between.
 */
#ifndef BMOE_DEVICE_LAYERS_H
#define BMOE_DEVICE_LAYERS_H

#include "base/log.h"
#include "graph/graph_map.h"
#include "pager/pager.h"

#include <ggml-backend.h>

#define LAYERS_NONE UINT32_MAX
enum { LAYERS_MAX_SLOTS = 4 };

/* One weight of a layer as the host has it. */
struct layer_source {
    struct ggml_tensor *tensor; /* libllama's */
    uint32_t weight;            /* index of the graph's map */
    uint32_t layer;             /* the N of its name, blk.N.x */
    uint32_t site;              /* routing decision of an expert matrix, else GRAPH_NONE */
    unsigned uses;              /* enum graph_use */
    bool refused;               /* the device does not do the op that reads it */
    int file;                   /* the pager's number */
    uint64_t file_offset;       /* of slice 0 */
    uint64_t slice_bytes;
    uint32_t n_slices;
    uint32_t first_extent; /* of the pager, LAYERS_NONE: not paged by slices */
    const char *base;      /* its bytes in memory; NULL: not there, or in pages */
    /* Makes the file's bytes of what memory has, at base or in pages, by whole groups of rows;
     * NULL: they are the same. */
    void (*restore)(const void *ctx, void *dst, const void *src, size_t bytes);
    const void *restore_ctx;
    uint32_t restore_rows;
};

/* What ggml_tensor fields a binding replaces. */
struct layer_binding {
    enum ggml_type type;
    size_t nb[GGML_MAX_DIMS];
    void *data, *extra;
    struct ggml_backend_buffer *buffer;
};

struct layer_entry {
    struct layer_source src;
    struct ggml_tensor *device; /* ours, in device memory; NULL: stays on the host */
    size_t stride;              /* bytes from expert to expert on the device */
    bool resident;
    bool unused;   /* found to be read on the host: not bound any more */
    char *carried; /* converted bytes, owned; NULL: the file's own type */
    struct layer_binding host;
};

struct layer_site {
    uint32_t site; /* of the graph's map */
    uint32_t n_expert, n_entries;
    uint32_t entries[8];
    uint64_t expert_bytes; /* of one expert, all its matrices */
};

struct layer {
    uint32_t first_dense, n_dense; /* entries, without those that stay on the host */
    uint32_t first_site, n_sites;
    uint64_t dense_bytes;
};

struct layers {
    struct layer_entry *entries; /* by layer, dense ones first */
    uint32_t n_entries;
    struct layer *layers;
    uint32_t n_layers;
    struct layer_site *sites;
    uint32_t n_sites;
    uint32_t *entry_of; /* by weight of the map; LAYERS_NONE: none */
    uint32_t *layer_of; /* by entry */
    uint32_t n_weights;
    unsigned n_slots;
    struct ggml_context *tensors;
    ggml_backend_buffer_t buffers[(LAYERS_MAX_SLOTS + 1) * 3];
    unsigned n_buffers;
    uint64_t device_bytes, host_bytes; /* of all buffers; of converted weights */
    uint32_t n_carried, n_kept;        /* converted; staying on the host */
    enum ggml_type wrong_type; /* the device multiplies it wrong; GGML_TYPE_COUNT: none seen */
    bool bound;
};

struct layers_config {
    ggml_backend_dev_t device;
    ggml_backend_t backend; /* of it, for trial products; NULL: none are made */
    struct pager *pager;    /* reads what is to be converted */
    unsigned n_slots;
    bool dense_resident;
    uint64_t convert_limit; /* bytes of host memory for converted weights */
    uint32_t n_weights;     /* of the graph's map */
    uint32_t n_tokens;      /* of a typical graph, for probes */
};

/* Sorts the sources (borrowed for the call) and decides every place; allocates device memory. Fails
 * with DEVICE and the reason when the device refuses an expert type or has no room. */
int layers_create(struct layers **out, const struct layers_config *config,
                  const struct layer_source *sources, uint32_t n, struct bmoe_error *err);
void layers_destroy(struct layers *l);

/* Points libllama's tensors at the device, and back. Pairs; nothing runs in between but graphs. */
void layers_bind(struct layers *l);
void layers_unbind(struct layers *l);

/* The entry of a map's weight, or NULL when it has none on the device. */
struct layer_entry *layers_find(const struct layers *l, uint32_t weight);

#endif
