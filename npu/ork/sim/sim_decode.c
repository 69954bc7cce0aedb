/* The simulator's view of a program's entries; see sim_decode.h for the format.
 *
 * Strict where silicon is silent: a register written twice with different values, a block without
 * a model, entries after the enable entry are faults, since nobody has seen them work. */
#include "sim_decode.h"

#include <string.h>

#include "regs.h"

struct decoder {
    struct sim_regfile *regs;
    struct sim_tail *tail;
    struct sim_fault *fault;
    bool synced;
    bool enabled;
};

size_t sim_amount_entries(uint32_t amount)
{
    return ((size_t)(amount & 0xffff) + 1) * 2;
}

void sim_regfile_reset(struct sim_regfile *regs)
{
    memset(regs, 0, sizeof *regs);
}

uint32_t sim_reg_get(const struct sim_regfile *regs, uint32_t offset)
{
    int slot = sim_reg_slot(offset);
    return slot < 0 ? 0 : regs->value[slot];
}

bool sim_reg_known(const struct sim_regfile *regs, uint32_t offset)
{
    int slot = sim_reg_slot(offset);
    return slot >= 0 && regs->known[slot];
}

bool sim_reg_fresh(const struct sim_regfile *regs, uint32_t offset)
{
    int slot = sim_reg_slot(offset);
    return slot >= 0 && regs->fresh[slot];
}

static uint64_t load_entry(const uint8_t *bytes)
{
    uint64_t entry = 0;
    for (int i = 7; i >= 0; i--)
        entry = entry << 8 | bytes[i];
    return entry;
}

/* A shadow group pointer that comes after the registers it was meant for. */
static bool pointer_is_late(const struct sim_regfile *regs, uint32_t offset)
{
    int slot = sim_reg_slot(offset);
    uint32_t block = offset & 0xf000;
    if ((offset & 0xfff) != SIM_S_POINTER_OFFSET || regs->fresh[slot])
        return false;
    for (uint32_t other = block; sim_reg_slot(other) >= 0; other += 4)
        if (regs->fresh[sim_reg_slot(other)])
            return true;
    return false;
}

static int decode_register(struct decoder *d, uint32_t target, uint32_t offset, uint32_t value)
{
    const struct ork_reg_desc *desc = ork_reg_find(offset);
    struct sim_regfile *regs = d->regs;
    int slot = sim_reg_slot(offset);
    if (slot < 0 || sim_reg_target(offset) != target)
        return sim_fault_set(d->fault, SIM_FAULT_ENTRY, offset, value,
                             "target 0x%04x has no such register", target);
    if (regs->fresh[slot] && regs->value[slot] != value)
        return sim_fault_set(d->fault, SIM_FAULT_MISMATCH, offset, value,
                             "written twice in one program, first with 0x%x", regs->value[slot]);
    if (desc && value & ~desc->mask)
        return sim_fault_set(d->fault, SIM_FAULT_FIELD, offset, value,
                             "bits that no field covers are set (mask 0x%x)", desc->mask);
    if (pointer_is_late(regs, offset))
        return sim_fault_set(d->fault, SIM_FAULT_ENTRY, offset, value,
                             "the shadow pointer must come before the block's other registers");
    regs->value[slot] = value;
    regs->known[slot] = true;
    regs->fresh[slot] = true;
    return 0;
}

static int decode_pc(struct decoder *d, uint32_t offset, uint32_t value)
{
    if (offset == ORK_REG_PC_BASE_ADDRESS && value % 16 == 0) {
        d->tail->next_address = value;
        d->tail->has_next_address = true;
        return 0;
    }
    if (offset == ORK_REG_PC_REGISTER_AMOUNTS) {
        d->tail->next_amount = value;
        d->tail->has_next_amount = true;
        return 0;
    }
    return sim_fault_set(d->fault, SIM_FAULT_ENTRY, offset, value,
                         offset == ORK_REG_PC_BASE_ADDRESS
                             ? "the next program must be 16-byte aligned"
                             : "a program may write only the two chain registers of the PC block");
}

static int decode_entry(struct decoder *d, uint64_t entry)
{
    uint32_t target = (uint32_t)(entry >> 48);
    uint32_t value = (uint32_t)(entry >> 16);
    uint32_t offset = (uint32_t)(entry & 0xffff);
    if (target == ORK_TARGET_FILLER)
        return 0;
    if (d->enabled)
        return sim_fault_set(d->fault, SIM_FAULT_ENTRY, offset, value,
                             "an entry after the enable entry");
    if (target == ORK_TARGET_PC)
        return decode_pc(d, offset, value);
    if (target == ORK_TARGET_SYNC && offset == 0 && value == 0) {
        d->synced = true;
        return 0;
    }
    if (target == ORK_TARGET_ENABLE && offset == ORK_REG_PC_OPERATION_ENABLE) {
        if (!d->synced)
            return sim_fault_set(d->fault, SIM_FAULT_HANG, offset, value,
                                 "enable entry without the synchronising entry before it");
        d->tail->enable = value;
        d->enabled = true;
        return 0;
    }
    if (target == ORK_TARGET_PPU || target == ORK_TARGET_PPU_RDMA)
        return sim_fault_set(d->fault, SIM_FAULT_UNSUPPORTED, offset, value,
                             "the pooling block is not modelled");
    return decode_register(d, target, offset, value);
}

int sim_decode_program(struct sim_regfile *regs, struct sim_tail *tail, const uint8_t *entries,
                       size_t n, struct sim_fault *fault)
{
    struct decoder d = {.regs = regs, .tail = tail, .fault = fault};
    memset(tail, 0, sizeof *tail);
    memset(regs->fresh, 0, sizeof regs->fresh);
    for (size_t i = 0; i < n; i++) {
        int err = decode_entry(&d, load_entry(entries + 8 * i));
        if (err)
            return err;
    }
    if (!d.enabled)
        return sim_fault_set(fault, SIM_FAULT_HANG, 0, 0,
                             "program of %zu entries without an enable entry: nothing starts", n);
    return 0;
}
