/* Fault records of the simulator: filled once per job, turned into the errno of a job's result.
 *
 * A wild access is -EFAULT, everything else -EINVAL: a program that the chip would hang on or run
 * to a wrong end (transport.h, struct ork_job_result). */
#include "sim_fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "regs.h"

int sim_fault_errno(enum sim_fault_kind kind)
{
    switch (kind) {
    case SIM_FAULT_NONE:
        return 0;
    case SIM_FAULT_READ:
    case SIM_FAULT_WRITE:
        return -EFAULT;
    default:
        return -EINVAL;
    }
}

const char *sim_fault_kind_name(enum sim_fault_kind kind)
{
    static const char *const names[] = {"none", "entry",   "field", "mismatch", "unsupported",
                                        "hang", "corrupt", "read",  "write"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

int sim_fault_set(struct sim_fault *fault, enum sim_fault_kind kind, uint32_t reg, uint32_t value,
                  const char *format, ...)
{
    if (fault && fault->kind == SIM_FAULT_NONE) {
        va_list args;
        const struct ork_reg_desc *desc = ork_reg_find(reg);
        int used = 0;
        fault->kind = kind;
        fault->reg = reg;
        fault->value = value;
        if (reg)
            used = snprintf(fault->text, sizeof fault->text,
                            "%s_%s (0x%04x) = 0x%x: ", desc ? desc->block : "no",
                            desc ? desc->name : "register", reg, value);
        if (used < 0 || (size_t)used >= sizeof fault->text)
            used = 0;
        va_start(args, format);
        vsnprintf(fault->text + used, sizeof fault->text - (size_t)used, format, args);
        va_end(args);
    }
    return sim_fault_errno(kind);
}
