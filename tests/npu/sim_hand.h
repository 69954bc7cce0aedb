/* Programs written by hand for the simulator's tests: the register lists captured from the vendor
 * runtime (docs/npu.md, "template values"), entry by entry and in their order, not made by the
 * planner. A test changes single registers and runs the result on a bare simulated core. */
#ifndef SIM_HAND_H
#define SIM_HAND_H

#include "sim/sim_core.h"

enum hand_kind {
    HAND_I8_FLAT,  /* M 4, K 32, N 32, row-major activations and results */
    HAND_F16_FLAT, /* M 4, K 32, N 16, row-major */
    HAND_I4_ROW,   /* M 1, K 64, N 64 */
    HAND_I8_CUBE,  /* M 4, K 64, N 64, cubes; the vectors of the open drivers */
    HAND_F16_CUBE, /* the same shape */
    HAND_I4_CUBE,  /* the same shape */
    HAND_N_KINDS
};

/* Where the templates point: every hand program reads and writes these buffers. */
enum {
    HAND_FEATURES = 0x1000,
    HAND_WEIGHTS = 0x4000,
    HAND_OUTPUT = 0x8000,
    HAND_PROGRAM = 0xc000,
    HAND_BUFFER_BYTES = 0x2000
};

struct hand_program {
    uint64_t entries[192];
    size_t n;
};

/* A core and its memory: the HAND_* buffers, with gaps between them. */
struct hand_machine {
    struct sim_mem mem;
    struct sim_core core;
    struct sim_counts counts;
    struct sim_fault fault;
    uint8_t *features, *weights, *output, *program;
};

/* with_rdma: the DPU_RDMA block is programmed and started (mask 0x1d), else not (0x0d). */
void hand_build(struct hand_program *program, enum hand_kind kind, bool with_rdma);
/* Sets every occurrence of a register to value; asserts that there is one. */
void hand_set(struct hand_program *program, uint32_t reg, uint32_t value);
uint32_t hand_get(const struct hand_program *program, uint32_t reg);
/* Takes every entry of a register out. */
void hand_remove(struct hand_program *program, uint32_t reg);
/* Inserts an entry before the four of the tail. */
void hand_insert(struct hand_program *program, uint64_t entry);
/* Tail: where to go next, 0 = nowhere. */
void hand_chain(struct hand_program *program, uint32_t next_address, size_t next_entries);

void hand_machine_init(struct hand_machine *machine);
void hand_machine_fini(struct hand_machine *machine);
void hand_load(struct hand_machine *machine, uint32_t address, const struct hand_program *program);
/* Loads at HAND_PROGRAM and runs; returns what sim_core_run returns. */
int hand_run(struct hand_machine *machine, const struct hand_program *program);
/* Fills features and weights from a seed; fp16 bytes become numbers between -4 and 4. */
void hand_fill(struct hand_machine *machine, enum hand_kind kind, unsigned seed);

#endif
