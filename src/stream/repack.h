/*
 * ggml's faster CPU layouts (the buffer type CPU_REPACK) for weights that live in memory of ours. A
 * weight is eligible when ggml gives its tensor kernels of its own (`extra`) in that buffer type;
 * its bytes are then written by ggml_backend_tensor_set on a tensor that stands for a group of
 * rows. Repacking keeps the size and is independent per expert and per 8 rows, so it is done slice
 * by slice in the reader threads.
 *
 * Threads: open, close and repack_rows_init by one at a time; repack_traits and repack_carry by
 * any, several at once, also while one is in repack_rows_init.
 */
#ifndef BMOE_STREAM_REPACK_H
#define BMOE_STREAM_REPACK_H

#include "bmoe.h"
#include "stream/tile_map.h"

#include <ggml-backend.h>

enum { REPACK_LAYOUTS = 32 };

struct repack {
    ggml_backend_buffer_t buffer; /* of one page; NULL: this CPU backend has no such layouts */
    /* What was learned of the layouts met; of one beyond these nothing is. */
    struct repack_layout {
        enum ggml_type type;
        int64_t columns;
        void *traits;
        struct tile_map map; /* group_rows == 0: ggml's own code is used */
    } layout[REPACK_LAYOUTS];
    unsigned n_layouts;
};

/* Looks the buffer type up by name. Absent is fine (buffer NULL). */
int repack_open(struct repack *r, struct bmoe_error *err);
void repack_close(struct repack *r);

/* The kernels ggml has for this weight in the repacked layout, or NULL. */
void *repack_traits(const struct repack *r, const struct ggml_tensor *weight);

/* What a reader needs to repack rows of one weight. */
struct repack_rows {
    struct ggml_tensor
        rows; /* the weight's type, columns, buffer and extra; ne[1] is set per call */
    size_t row_bytes;
    const struct tile_map *map; /* the layout, or NULL: ask ggml */
};
void repack_rows_init(struct repack_rows *rr, struct repack *r, const struct ggml_tensor *weight,
                      void *traits);
/* A pager_carry_fn whose ctx is a struct repack_rows: bytes must be whole groups of 8 rows. */
void repack_carry(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes);

/* The way back: bytes of the file from repacked ones. Wants the layout learned. */
void repack_restore(const void *ctx, void *dst, const void *src, size_t bytes);

/* Rows that may be repacked apart from the others. */
#define REPACK_GROUP_ROWS 8

#endif
