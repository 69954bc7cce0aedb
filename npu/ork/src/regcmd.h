/* One tile -> the 64-bit entries that make one core compute it. Pure.
 *
 * A program is a list of register writes in a fixed order and a tail of four entries: where the
 * next program is, how long it is, a sync word, and the enable mask that starts the blocks. Two
 * recipes exist and may not be mixed: without the DPU_RDMA block (108 writes, mask 0x0d) and with
 * it, disabled inside (126 writes, mask 0x1d). Naming the block in the mask without programming
 * it hangs the core [mainline users]. */
#ifndef ORK_REGCMD_H
#define ORK_REGCMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ork_plan.h"

#define ORK_TAIL_ENTRIES    4u
#define ORK_PROGRAM_MAX     130u  /* entries of the longer recipe */
#define ORK_PROGRAM_BYTES   1088u /* slot a program takes in command memory: whole cache lines */
#define ORK_PROGRAM_ENTRIES (ORK_PROGRAM_BYTES / 8)

/* What the registers say about memory, in 16-byte units where a stride (the two address rules of
 * types.h). Filled from a tile, or by hand in tests. */
struct ork_geometry {
    enum ork_type type;
    bool flat;      /* GROUP_LINE_OFF */
    uint32_t lines; /* height programmed */
    uint32_t depth; /* K */
    uint32_t cols;  /* N */
    uint32_t data_banks;
    uint32_t weight_banks;
    int32_t line_stride;
    int32_t surf_stride;
    uint32_t dst_surf_stride;
    uint32_t dst_surf_add;
    uint32_t notch;
    bool wdma_height; /* 0x405c = height - 1; else 0, as the old int4 recipes have it */
    bool qd_en;       /* CORE MISC_CFG bit 0 */
    bool od_bypass;   /* DPU BS_OW_CFG bit 1 */
};

struct ork_addresses {
    uint64_t feature;
    uint64_t weight;
    uint64_t output;
};

struct ork_recipe {
    bool rdma_block;
    uint64_t next_iova;    /* 0 = last program */
    uint32_t next_entries; /* of the next program, tail included */
};

/* The geometry plan's tile is programmed with. */
void ork_geometry_of_tile(const struct ork_plan *plan, const struct ork_tile *tile,
                          struct ork_geometry *out);
/* The geometry captured from the vendor-lineage driver for the same shape: flat, bank split 11+1,
 * QD_EN set, no OD_BYPASS for int8; int4 is its single-row recipe. For comparison and tests. */
void ork_geometry_template(enum ork_type type, uint32_t m, uint32_t k, uint32_t n,
                           struct ork_geometry *out);

/* Entries of a program in this recipe, tail included. */
uint32_t ork_regcmd_entries(bool rdma_block);
/* Writes them to out (ork_regcmd_entries of them). -ERANGE: a value does not fit its field or an
 * address is above 4 GiB or not 16-byte aligned; *bad_reg (may be NULL) is that register. */
int ork_regcmd_emit(const struct ork_geometry *geometry, const struct ork_addresses *addresses,
                    const struct ork_recipe *recipe, uint64_t *out, uint32_t *bad_reg);

#endif
