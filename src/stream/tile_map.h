/*
 * A layout of ggml's repacked weights, learned by asking for it. Repacking a weight moves bits and
 * flips some: groups of 4 or 8 rows, block by block, become tiles in which the rows' blocks are
 * interleaved. Which bit goes where is found out by repacking numbered bits, so nothing here knows
 * a type or a processor, and what was learned is used only after it gave ggml's own bytes for
 * random ones, and these back.
 *
 * Why: ggml moves byte by byte where a type packs its scales (Q4_K: 1.4 GB/s a core against
 * memcpy's 10), and a reader repacks every expert it reads. docs/pager.md has the figures.
 */
#ifndef BMOE_STREAM_TILE_MAP_H
#define BMOE_STREAM_TILE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where bytes come from. On the side of the tile an offset is from its beginning, on the side of
 * the rows from the first row's block. */
struct tile_move {
    uint32_t out, from;
    uint64_t flip; /* bits to be turned over in what was moved */
};

/* A byte that is put together: (a & mask[0]) and (b & mask[1]), each moved to the left by left - 8.
 */
struct tile_bits {
    uint32_t out, from[2];
    uint8_t mask[2], left[2], flip;
    bool more; /* this is not all: to be added to what is there */
};

enum { TILE_WIDTHS = 4 }; /* moves of 8, 4, 2 and 1 bytes */

/* One direction. */
struct tile_moves {
    struct tile_move *moves[TILE_WIDTHS];
    uint32_t n_moves[TILE_WIDTHS];
    struct tile_bits *bits;
    uint32_t n_bits;
};

struct tile_map {
    uint32_t group_rows, block_bytes, blocks;
    struct tile_moves apply, undo;
};

/* Repacks `rows` rows of `blocks` blocks, from src to dst. */
typedef void tile_repack_fn(void *ctx, void *dst, const void *src, uint32_t rows, uint32_t blocks);

/* Learns what `repack` does to rows of `blocks` blocks of block_bytes. False, and *m is empty: it
 * is not of this kind, or there was no memory. Free with tile_map_fini. */
bool tile_map_learn(struct tile_map *m, tile_repack_fn *repack, void *ctx, uint32_t block_bytes,
                    uint32_t blocks);
void tile_map_fini(struct tile_map *m);

/* The same as the function learned from; rows is a multiple of group_rows. */
void tile_map_apply(const struct tile_map *m, void *dst, const void *src, size_t rows);
/* From tiles back to rows. */
void tile_map_undo(const struct tile_map *m, void *dst, const void *src, size_t rows);

#endif
