/* From a shape to tiles: which programs run, on which core, over which bytes. Pure arithmetic;
 * no memory is touched but the plan's own, no clock, no descriptor.
 *
 * Three steps, each of which something outlives: slicing (K into slices; fixed when a weight is
 * packed), rows (M into tiles; fixed when an input is packed), plan (N over cores and tiles; made
 * per matmul). So the bytes of a weight do not depend on M, nor those of an input on N.
 *
 * Bounds: m, k <= 2^20 and n <= 2^22, so that no product below overflows 64 bits. */
#ifndef ORK_PLAN_H
#define ORK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "ork.h"
#include "timemodel.h"
#include "types.h"

#define ORK_MAX_DIM_MK (UINT32_C(1) << 20)
#define ORK_MAX_DIM_N  (UINT32_C(1) << 22)
#define ORK_MAX_DEPTH  10752u /* deepest K ever run in one program [ork] */
#define ORK_MAX_TILES  (UINT32_C(1) << 20)
#define ORK_TILE_ALIGN 64u /* outputs of two tiles never share a cache line */

enum ork_layout {
    ORK_LAYOUT_CUBE, /* NC1HWC2: 16-byte cells, surface by surface */
    ORK_LAYOUT_FLAT, /* row-major, int8 and fp16 only (int4: single rows) */
};

struct ork_plan_options {
    uint32_t k_slice;    /* most K per program; 0 = default of the type */
    uint32_t m_tile;     /* most rows per program; 0 = what CBUF holds */
    uint32_t n_tile;     /* most columns per program; 0 = ORK_MAX_N */
    uint32_t n_cores;    /* 0 = 1 */
    uint32_t m_multiple; /* rows are padded to this; 0 = 4 */
    uint32_t i4_absmax;  /* 0 = 8 */
    bool i4_may_saturate;
    bool loose_banks; /* do not keep one kernel group inside the weight banks */
    enum ork_i4_mode i4_mode;
    enum ork_layout layout;
};

/* Invariants: k_pad = round_up(k, 32); n_slices = ceil(k_pad / depth); slice s covers
 * [s * depth, min((s + 1) * depth, k_pad)), every length a multiple of 32. */
struct ork_slicing {
    enum ork_type type;
    uint32_t k;
    uint32_t k_pad;
    uint32_t depth;
    uint32_t n_slices;
    struct ork_plan_options options;
};

/* Invariants: m_pad = m rounded up to m_multiple; m_tile is a multiple of it; tile t covers rows
 * [t * m_tile, min((t + 1) * m_tile, m_pad)). lines(rows) = rows * line_mul are programmed. */
struct ork_rows {
    uint32_t m;
    uint32_t m_pad;
    uint32_t m_tile;
    uint32_t n_tiles;
    uint32_t line_mul; /* programmed lines per row: 1; 2 stride-2; 4 BCHAIN */
    uint64_t bytes;    /* of the whole input, all slices */
};

/* One program. Offsets are bytes: a and b into input and weight, c into the core's output. */
struct ork_tile {
    uint32_t core;
    uint32_t slice;
    uint32_t m0;
    uint32_t rows;  /* of the input, padding rows included */
    uint32_t lines; /* programmed height */
    uint32_t n0;
    uint32_t cols;
    uint32_t depth;
    uint32_t data_banks;
    uint32_t weight_banks;
    uint64_t a_offset;
    uint64_t b_offset;
    uint64_t c_offset;
};

/* Invariants: tiles are sorted by core; core c's are [core_first[c], core_first[c + 1]). For one
 * (core, n0, m0) the slices follow each other. */
struct ork_plan {
    struct ork_slicing slicing;
    struct ork_rows rows;
    uint32_t n;
    uint32_t n_pad;
    uint32_t n_cores; /* that have work */
    uint32_t n_tiles;
    uint32_t core_first[ORK_MAX_CORES + 1];
    uint64_t a_bytes;
    uint64_t b_bytes;
    uint64_t c_bytes[ORK_MAX_CORES]; /* output of each core */
    uint64_t macs_wanted;            /* m * n * k; the computed ones are in work */
    struct ork_work work;
    struct ork_tile *tiles;
};

/* Refusals (-EOPNOTSUPP, -EINVAL for a zero or absurd size) name the limit. options may be NULL. */
int ork_slicing_make(enum ork_type type, uint32_t k, const struct ork_plan_options *options,
                     struct ork_slicing *out, struct ork_error *error);
int ork_rows_make(const struct ork_slicing *slicing, uint32_t m, struct ork_rows *out,
                  struct ork_error *error);
int ork_plan_make(const struct ork_slicing *slicing, uint32_t m, uint32_t n, struct ork_plan *out,
                  struct ork_error *error);
void ork_plan_fini(struct ork_plan *plan);

/* Length of slice s. */
uint32_t ork_slicing_depth(const struct ork_slicing *slicing, uint32_t s);
/* Device bytes of a weight with n rows. */
uint64_t ork_slicing_weight_bytes(const struct ork_slicing *slicing, uint32_t n);
/* N rounded up to whole kernel groups. */
uint32_t ork_n_pad(enum ork_type type, uint32_t n);
/* Where tile (slice, m0) of an input starts. */
uint64_t ork_rows_offset(const struct ork_slicing *slicing, const struct ork_rows *rows,
                         uint32_t slice, uint32_t m0);
/* Data banks for so many lines of so deep a slice, slack included. */
uint32_t ork_data_banks(const struct ork_type_desc *type, uint32_t lines, uint32_t depth);
/* Time the model gives the plan's work on that kernel. */
double ork_plan_predict_us(const struct ork_plan *plan, enum ork_kernel kernel);

#endif
