/* What went wrong in a simulated job: one kind, the register that shows it, one sentence.
 *
 * Everything the hardware would answer with a hang, a wild access or silently wrong numbers is a
 * fault here, so that a driver's mistake is found at the register that carries it. A fault is
 * filled once, at the first mistake of a job; later ones of the same job are not recorded. */
#ifndef ORK_SIM_FAULT_H
#define ORK_SIM_FAULT_H

#include <stdint.h>

enum sim_fault_kind {
    SIM_FAULT_NONE = 0,
    SIM_FAULT_ENTRY,       /* an entry no block takes: unknown target, offset or order */
    SIM_FAULT_FIELD,       /* a register holds a value the chip cannot work with */
    SIM_FAULT_MISMATCH,    /* two blocks, or two writes, disagree */
    SIM_FAULT_UNSUPPORTED, /* legal on the chip, not modelled here */
    SIM_FAULT_HANG,        /* the chip would never raise its interrupt */
    SIM_FAULT_CORRUPT,     /* the chip would finish and leave wrong numbers */
    SIM_FAULT_READ,        /* a fetch outside every buffer */
    SIM_FAULT_WRITE        /* a store outside every buffer */
};

struct sim_fault {
    enum sim_fault_kind kind;
    uint32_t reg;     /* register offset as in the entries, 0 if none is to blame */
    uint32_t value;   /* what it held */
    uint32_t program; /* index of the program in its job, from 0 */
    char text[160];   /* one sentence, register name and offset included */
};

/* Fills *fault unless it already holds one. Returns -EINVAL or -EFAULT by kind, so that
 * callers write `return sim_fault_set(...)`. fault may be NULL. */
__attribute__((format(printf, 5, 6))) int sim_fault_set(struct sim_fault *fault,
                                                        enum sim_fault_kind kind, uint32_t reg,
                                                        uint32_t value, const char *format, ...);

/* The negative errno that a fault of this kind becomes in a job's result. */
int sim_fault_errno(enum sim_fault_kind kind);

const char *sim_fault_kind_name(enum sim_fault_kind kind);

#endif
