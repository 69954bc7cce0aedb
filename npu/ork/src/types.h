/* The type table: everything that differs between the four matmul types stands in one row here,
 * so that plan, pack, regcmd and read-back are one path. Register values are those of the facts
 * proven on silicon (docs/npu.md).
 *
 * The two address rules every layout here follows, in 16-byte cells; they explain each captured
 * stride at once (cube and flat, M = 1, the folded captures, the three int4 recipes) [inferred].
 *   feature cell of line h = 4g + i, column w, surface c:
 *     FEATURE_ADDR + 16 * (g * LINE_STRIDE + c * (4 * W + SURF_STRIDE) + i * W + w)
 *     with GROUP_LINE_OFF (flat):  FEATURE_ADDR + 16 * (h * LINE_STRIDE + c + w)
 *   output cell of line h, column w, surface s (s counts out_c2 channels), A = SIZE_E + 1:
 *     DST_BASE + 16 * ((s / A) * SURF_ADD + (s % A) * DST_SURF_STRIDE + h * (W + NOTCH) + w)
 *   A is the number of surfaces one kernel group writes; surfaces beyond A of a group are not
 *   written (SIZE_E too small leaves columns unwritten [measured by others]). */
#ifndef ORK_TYPES_H
#define ORK_TYPES_H

#include <stdint.h>

#include "ork.h"

/* Invariants: in_bits * feature_c2 = 128 and out_bytes * out_c2 = 16 (a cell is 16 bytes);
 * kernels * 32 * in_bits = 8192 (a weight block is 1024 bytes);
 * out_atoms = kernels / out_c2 (surfaces one kernel group writes) = size_e + 1. */
struct ork_type_desc {
    const char *name;
    uint32_t in_bits;    /* device bits per operand element */
    uint32_t host_bytes; /* host bytes per operand element */
    uint32_t out_bytes;  /* device bytes per output element */
    uint32_t acc_bytes;  /* host bytes per output element */
    uint32_t feature_c2; /* elements in a 16-byte feature cell */
    uint32_t kernels;    /* N per weight block: K and N multiples are 32 and this */
    uint32_t out_c2;     /* elements in a 16-byte output cell */
    uint32_t out_atoms;  /* surfaces per kernel group: the SURFACE_ADD multiplier */
    uint32_t in_precision;
    uint32_t out_precision;
    uint32_t size_e;      /* DPU BS_OW_CFG */
    uint32_t od_bypass;   /* DPU BS_OW_CFG */
    uint32_t qd_en;       /* CORE MISC_CFG in cube programs */
    uint32_t fp32tofp16;  /* DPU OUT_CVT_SCALE */
    uint32_t slack_banks; /* data banks programmed beyond the exact fit */
    uint32_t min_weight_banks;
};

/* NULL for a number that is no type. */
const struct ork_type_desc *ork_type_find(enum ork_type type);

#define ORK_K_BLOCK    32u /* K elements in a weight block, all types */
#define ORK_CBUF_BANKS 12u /* per core [mesa] */
#define ORK_BANK_BYTES 32768u
#define ORK_MAX_N      8192u  /* 13-bit channel fields; above: silently wrong [ork] */
#define ORK_MAX_ROWS   2047u  /* 11-bit height field */
#define ORK_MAX_KERNEL 32768u /* bytes per kernel [mtx, lrn] */

#endif
