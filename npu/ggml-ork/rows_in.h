/* Rows of activations as the NPU reads them: coded once, shared by every product of a graph that
 * reads the same tensor and routes it the same way (Q, K and V; gate and up).
 *
 * One pass over a row: normalised where a norm stands before the products (node_fusion.h), rotated,
 * coded and laid out, by the workers; the submitting thread only waits. */
#ifndef GGML_ORK_ROWS_IN_H
#define GGML_ORK_ROWS_IN_H

#include "norm_row.h"
#include "packed_weight.h"

/* Where rows come from. */
struct rows_source {
    const struct ggml_tensor *x;
    const struct norm_how *norm; /* done to each row first, or NULL */
    float *plain;       /* the normalised rows are written here as well; NULL = nobody reads them */
    uint32_t n_readers; /* the coded rows stay until so many products had them; 0 = no promise */
};

/* How they meet the weight: part p is rows [p * part_rows, ...) of each matrix' share, or, with
 * ids, of each expert's. */
struct rows_shape {
    const struct packed_weight *weight; /* any with this K, format and domain */
    const struct ggml_tensor *ids;      /* of a MUL_MAT_ID, or NULL */
    uint32_t part_rows;                 /* most rows of a part */
};

/* Part of a matrix' rows. */
struct rows_part {
    uint32_t matrix;
    uint32_t rows;
    uint32_t first; /* among places */
};

/* One tensor's rows, in device memory. Invariants: the parts' rows are places[0 .. n_rows); row i
 * of the products' output goes to places[i]. */
struct rows_in {
    struct ork_input *input; /* owned; NULL = unused yet */
    uint32_t k, domain;
    const struct ggml_tensor *tensor; /* what the products name as their source; NULL = nothing */
    const struct ggml_tensor *ids;
    uint32_t part_rows, n_matrices;
    struct rows_part *parts;
    uint32_t *places;
    uint32_t *part_sizes;
    uint32_t *cells; /* of row (slot, token): its place among places */
    size_t n_parts, n_rows, room_parts, room_rows, room_sizes, room_cells;
    uint32_t pinned; /* products that still count on it */
    uint64_t used;   /* the greater, the later */
};

#define ROWS_IN_KEPT 8

/* What a stream keeps. All zeros is empty. Not for two threads at once. */
struct rows_in_cache {
    struct rows_in kept[ROWS_IN_KEPT];
    float *rooms; /* per worker */
    size_t n_rooms;
    uint32_t *first; /* sorting */
    size_t n_first;
    uint64_t clock;
    uint64_t n_coded, n_shared; /* rows coded, rows found coded */
};

void rows_in_cache_fini(struct rows_in_cache *cache);
/* Nothing coded so far holds any more (a new graph); memory stays. */
void rows_in_cache_forget(struct rows_in_cache *cache);

/* Entries that stay for products to come. */
size_t rows_in_n_pinned(const struct rows_in_cache *cache);

/* Rows of `tensor` for that shape, coded now or found coded. Valid until the next call. 0, -ENOMEM,
 * -EINVAL with a sentence (an expert that does not exist), or what the device said. */
int rows_in_get(struct rows_in_cache *cache, struct ork_device *npu,
                const struct ggml_tensor *tensor, const struct rows_source *source,
                const struct rows_shape *shape, const struct rows_in **out,
                struct ork_error *error);

#endif
