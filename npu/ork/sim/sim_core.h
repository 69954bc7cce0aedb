/* One simulated core: runs the programs of a job in order, counts what they cost, keeps no state
 * between jobs that a program could lean on.
 *
 * A core belongs to one thread at a time. */
#ifndef ORK_SIM_CORE_H
#define ORK_SIM_CORE_H

#include "sim_mem.h"
#include "sim_scratch.h"
#include "sim_task.h"
#include "transport/transport.h"

/* Behaviour of boards that differ, for tests of the self test and of verify mode. */
enum sim_quirk {
    SIM_QUIRK_CLAMP = 1, /* a negative surface stride is read as 0 */
    SIM_QUIRK_CHAIN = 2, /* a chained integer program adds the sums of the one before */
    SIM_QUIRK_LAG = 4    /* "done" comes before the last kernel group is written */
};

/* What a job did; sums over its programs. */
struct sim_counts {
    uint32_t programs;
    uint64_t macs;
    uint64_t macs_of_bits[17]; /* by the width of an element */
    uint64_t feature_bytes, weight_bytes, output_bytes;
    uint64_t cbuf_fills;          /* weight-bank refills */
    uint64_t saturated_cells;     /* int16 and int8 results at a bound */
    uint64_t without_slack_bank;  /* int8 cube programs that leave no spare data bank */
    uint64_t group_exceeds_banks; /* programs whose kernel group is larger than its banks */
};

/* A kernel group that is computed and not yet written: SIM_QUIRK_LAG. */
struct sim_late_group {
    bool pending;
    struct sim_mem *mem; /* borrowed: the space it is written to */
    struct sim_task task;
    uint32_t group;
    int32_t *sums; /* owned */
};

struct sim_core {
    unsigned index;
    unsigned quirks;
    struct sim_mem *mem; /* borrowed: of the job that runs */
    struct sim_regfile regs;
    struct sim_scratch scratch;
    struct sim_task last; /* valid while n_run > 0: what the convolution buffer holds */
    uint64_t last_feature_serial, last_weight_serial;
    uint32_t n_run;  /* programs run in this job */
    uint32_t status; /* raw interrupt status, as PC 0x2c would show it */
    uint32_t program_address;
    int32_t *chain_sums; /* owned; SIM_QUIRK_CHAIN only */
    size_t chain_sums_bytes;
    struct sim_late_group late;
};

/* The part of a job that the hardware sees. */
struct sim_job {
    const struct ork_program_ref *programs;
    uint32_t n_programs;
    bool chained; /* one kick: tails lead on. Else one kick each, and no tail may lead on */
};

void sim_core_init(struct sim_core *core, unsigned index, unsigned quirks);
void sim_core_fini(struct sim_core *core);

/* 0 or a negative errno; *counts tells what was completed, core->status what was raised. */
int sim_core_run(struct sim_core *core, struct sim_mem *mem, const struct sim_job *job,
                 struct sim_counts *counts, struct sim_fault *fault);

/* Writes what SIM_QUIRK_LAG held back. */
void sim_core_settle(struct sim_core *core);

#endif
