/* Slots and targets of the registers the simulator keeps; see sim_regs.h. */
#include "sim_regs.h"

#include <stddef.h>

struct block {
    uint32_t target, first, last;
    int slot;
};

static const struct block blocks[] = {
    {ORK_TARGET_CNA, 0x1000, 0x1184, 0},
    {ORK_TARGET_CORE, 0x3000, 0x3030, SIM_N_CNA},
    {ORK_TARGET_DPU, 0x4000, 0x412c, SIM_N_CNA + SIM_N_CORE},
    {ORK_TARGET_RDMA, 0x5000, 0x506c, SIM_N_CNA + SIM_N_CORE + SIM_N_DPU},
};

static const struct block *block_of(uint32_t offset)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (offset >= blocks[i].first && offset <= blocks[i].last && offset % 4 == 0)
            return &blocks[i];
    return NULL;
}

int sim_reg_slot(uint32_t offset)
{
    const struct block *block = block_of(offset);
    return block ? block->slot + (int)((offset - block->first) / 4) : -1;
}

uint32_t sim_reg_target(uint32_t offset)
{
    const struct block *block = block_of(offset);
    return block ? block->target : 0;
}
