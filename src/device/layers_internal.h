/*
 * What layers.c and layers_decide.c share while a table is made: what is decided of each weight,
 * and then where it goes.
 */
#ifndef BMOE_DEVICE_LAYERS_INTERNAL_H
#define BMOE_DEVICE_LAYERS_INTERNAL_H

#include "device/layers.h"

/* Kinds of memory. A device may hold a WEIGHTS buffer in a form that only its matmuls read, so what
 * other ops read lies in one of usage ANY; a backend is chosen for those ops by their neighbours.
 */
enum kind { KIND_PLAIN, KIND_OWN, KIND_EXTRA, N_KINDS };

/* A place in every slot, or in the resident buffer. */
struct region {
    const char *role;
    enum kind kind;
    enum ggml_type type;
    int64_t ne[GGML_MAX_DIMS];
    uint64_t bytes, offset;
    unsigned written; /* bits of slots in which zeros were written to it as a whole */
};

/* While the table is made: what is decided of each entry. */
struct decision {
    ggml_backend_buffer_type_t buft; /* NULL: the host */
    enum kind kind;
    enum ggml_type type;
    uint32_t region;       /* of the slots */
    uint64_t bytes, where; /* where: in the resident buffer */
};

/* What device_check_matrix said. */
struct verdict {
    ggml_backend_buffer_type_t buft;
    enum ggml_type type;
    bool experts, right;
    int64_t ne[2];
};

struct making {
    const struct layers_config *config;
    struct verdict verdicts[64];
    unsigned n_verdicts;
    struct layers *l;
    struct decision *of;
    struct region *regions;
    uint32_t n_regions;
    ggml_backend_buffer_type_t bufts[N_KINDS]; /* NULL: none of this kind */
    struct bmoe_error *err;
};

/* Whether an op reads the weight otherwise than as a matmul's matrix. */
static inline bool read_otherwise(const struct layer_source *s)
{
    return (s->uses & ~(unsigned)(GRAPH_USE_MATRIX | GRAPH_USE_EXPERTS)) != 0;
}

/* layers_decide.c: in which memory and type the entry is held, or that it stays on the host; fails
 * when it is experts that the device refuses. */
int layers_decide(struct making *m, struct layer_entry *e, struct decision *d);

#endif
