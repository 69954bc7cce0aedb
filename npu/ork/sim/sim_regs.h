/* Where a register's value lives in the simulated register file, and what it is called.
 *
 * Offsets, names and bit fields come from the one register description (regs/rk3588.regs); this
 * header adds dense slots for the four blocks a matrix multiplication programs. */
#ifndef ORK_SIM_REGS_H
#define ORK_SIM_REGS_H

#include <stdint.h>

#include "ork_regs.h"

enum {
    SIM_S_POINTER_OFFSET = 0x004,
    SIM_N_CNA = (0x1184 - 0x1000) / 4 + 1,
    SIM_N_CORE = (0x3030 - 0x3000) / 4 + 1,
    SIM_N_DPU = (0x412c - 0x4000) / 4 + 1,
    SIM_N_RDMA = (0x506c - 0x5000) / 4 + 1,
    SIM_N_SLOTS = SIM_N_CNA + SIM_N_CORE + SIM_N_DPU + SIM_N_RDMA
};

/* Slot of a register in 0..SIM_N_SLOTS-1, or -1: not a register of these four blocks. */
int sim_reg_slot(uint32_t offset);

/* Target field of the entries that write this register; 0 if there is no such register. */
uint32_t sim_reg_target(uint32_t offset);

#endif
