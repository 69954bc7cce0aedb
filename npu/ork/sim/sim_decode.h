/* From 64-bit entries to register values: one program, its tail, and who wrote what.
 *
 * An entry is target << 48 | value << 16 | register offset [mesa, vendor captures]. Order is free
 * with two exceptions the captures show: a block's S_POINTER comes before the block's other
 * registers (it selects the shadow group they go to), and the synchronising entry (target 0x0041)
 * comes before the enable entry (target 0x0081, register 8), which ends the program. */
#ifndef ORK_SIM_DECODE_H
#define ORK_SIM_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_fault.h"
#include "sim_regs.h"

/* Register file of one core. known: a value was written since the last reset; fresh: written by
 * the program at hand. fresh implies known. */
struct sim_regfile {
    uint32_t value[SIM_N_SLOTS];
    bool known[SIM_N_SLOTS];
    bool fresh[SIM_N_SLOTS];
};

struct sim_tail {
    uint32_t next_address; /* PC_BASE_ADDRESS: 0 ends the chain */
    uint32_t next_amount;  /* PC_REGISTER_AMOUNTS of the next program */
    bool has_next_address;
    bool has_next_amount;
    uint32_t enable; /* block mask of the enable entry */
};

/* Entries that REGISTER_AMOUNTS = amount makes the sequencer fetch: pairs, counted from 0. */
size_t sim_amount_entries(uint32_t amount);

/* Forgets every value: a core reset, and the start of a job (what an earlier job left behind is
 * not something a program may rely on). */
void sim_regfile_reset(struct sim_regfile *regs);

/* Decodes n entries at `entries` (little endian, any alignment) into regs and *tail. */
int sim_decode_program(struct sim_regfile *regs, struct sim_tail *tail, const uint8_t *entries,
                       size_t n, struct sim_fault *fault);

/* Value of a register that the simulator knows by name; 0 if never written. */
uint32_t sim_reg_get(const struct sim_regfile *regs, uint32_t offset);
bool sim_reg_known(const struct sim_regfile *regs, uint32_t offset);
bool sim_reg_fresh(const struct sim_regfile *regs, uint32_t offset);

#endif
