/* The captured register lists as one table; see sim_hand.h. */
#include "sim_hand.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Written in this order by the vendor runtime; columns are the six kinds. Values that repeat for
 * all kinds stand once, in the first column, with the others 0 and `same` set. */
struct row {
    uint32_t reg;
    bool same;
    uint32_t value[HAND_N_KINDS];
};

static const struct row rows[] = {
    {0x1040, false, {0xb1, 0xb1, 0xb1, 0xa2, 0xb1, 0xb1}},
    {0x1104, true, {0}},
    {0x1100, true, {0}},
    {0x100c, false, {0x20000000, 0x20000120, 0x360, 0, 0x120, 0x360}},
    {0x4004, true, {0xe}},
    {0x100c, false, {0x20000000, 0x20000120, 0x360, 0, 0x120, 0x360}},
    {0x1010, false, {0x50, 0x50, 0x20, 0x50, 0x50, 0x50}},
    {0x1014, true, {0x9}},
    {0x1020, false, {0x10004, 0x10004, 0x10001, 0x10004, 0x10004, 0x10004}},
    {0x1024, false, {0x1f0020, 0x1f0020, 0x3f0040, 0x3f0040, 0x3f0040, 0x3f0040}},
    {0x1028, true, {1}},
    {0x102c, false, {4, 4, 1, 4, 4, 4}},
    {0x1030, false, {0x400, 0x400, 0x800, 0x1000, 0x2000, 0x800}},
    {0x1034, false, {0x20, 0x40, 0x20, 0x40, 0x80, 0x20}},
    {0x1038, false, {0x1010020, 0x1010010, 0x1010040, 0x1010040, 0x1010040, 0x1010040}},
    {0x1040, false, {0xb1, 0xb1, 0xb1, 0xa2, 0xb1, 0xb1}},
    {0x1044, false, {1, 1, 1, 1, 2, 1}},
    {0x104c, true, {0xb}},
    {0x1050, true, {0x10000}},
    {0x1054, true, {0x10000}},
    {0x1058, true, {0x10000}},
    {0x105c, true, {0x10000}},
    {0x1060, true, {0}},
    {0x1064, true, {0}},
    {0x1068, true, {0}},
    {0x1070, true, {HAND_FEATURES}},
    {0x1074, true, {0}},
    {0x1078, true, {0xf000f}},
    {0x107c, false, {2, 4, 4, 4, 4, 4}},
    {0x1080, false, {0, 0, 0x0ffffffd, 0, 0, 0}},
    {0x1084, false, {0x10004, 0x10004, 0x10001, 0x10004, 0x10004, 0x10004}},
    {0x1088, false, {0x20, 0x20, 0x40, 0x40, 0x40, 0x40}},
    {0x1100, true, {0}},
    {0x1104, true, {0}},
    {0x1110, true, {HAND_WEIGHTS}},
    {0x1140, true, {0}},
    {0x1144, true, {0}},
    {0x1148, true, {0}},
    {0x114c, true, {0}},
    {0x1150, true, {0}},
    {0x1154, true, {0}},
    {0x1158, true, {0}},
    {0x115c, true, {0}},
    {0x1160, true, {0}},
    {0x1164, true, {0}},
    {0x1168, true, {0}},
    {0x116c, true, {0}},
    {0x1170, true, {0}},
    {0x1174, true, {0}},
    {0x1178, true, {0}},
    {0x117c, true, {0}},
    {0x1180, true, {0}},
    {0x1184, true, {0}},
    {0x3010, false, {0x1, 0x201, 0x601, 0, 0x201, 0x600}},
    {0x3014, false, {0x30000, 0x30000, 0, 0x30000, 0x30000, 0x30000}},
    {0x3018, false, {0x1f, 0xf, 0x3f, 0x3f, 0x3f, 0x3f}},
    {0x301c, true, {0}},
    {0x3030, true, {0}},
    {0x400c, true, {0x1e4}},
    {0x4010, false, {0x80000000, 0xa8000002, 0x38000006, 0x80000000, 0xa8000002, 0x38000006}},
    {0x4014, true, {0}},
    {0x4020, true, {HAND_OUTPUT}},
    {0x4024, false, {0x10, 0x10, 0x10, 0x40, 0x40, 0x40}},
    {0x4030, true, {0}},
    {0x4034, false, {3, 3, 0, 3, 3, 3}},
    {0x4038, false, {0x70007, 0x30003, 0, 0, 0, 0}},
    {0x403c, false, {0x1f001f, 0xf000f, 0x3f003f, 0x3f003f, 0x3f003f, 0x3f003f}},
    {0x4040, true, {0x53}},
    {0x4044, true, {0}},
    {0x4048, true, {0}},
    {0x404c, true, {0}},
    {0x4050, false, {0x7fc, 0x36e, 0x7fe, 0x7fe, 0x36e, 0x7fe}},
    {0x4054, true, {0}},
    {0x4058, false, {0x1f, 0xf, 0x3f, 0x3f, 0x3f, 0x3f}},
    {0x405c, false, {0x30000, 0x30000, 0, 0x30000, 0x30000, 0x30000}},
    {0x4060, true, {0x53}},
    {0x4064, true, {0}},
    {0x4068, true, {0}},
    {0x406c, true, {0}},
    {0x4070, true, {0x383}},
    {0x4074, true, {0}},
    {0x4078, true, {1}},
    {0x407c, true, {0}},
    {0x4080, true, {0}},
    {0x4084, true, {1}},
    {0x4088, true, {0}},
    {0x4090, true, {0}},
    {0x4094, true, {0}},
    {0x4098, true, {0}},
    {0x409c, true, {0}},
    {0x40a0, true, {0}},
    {0x40a4, true, {0}},
    {0x40a8, true, {0}},
    {0x40ac, true, {0}},
    {0x40c0, false, {0x80, 0x40, 0x80, 0x200, 0x100, 0x200}},
    {0x40c4, true, {0}},
    {0x4100, true, {0}},
    {0x4104, true, {0}},
    {0x4108, true, {0}},
    {0x410c, true, {0}},
    {0x4110, true, {0}},
    {0x4114, true, {0}},
    {0x4118, true, {0}},
    {0x411c, true, {0}},
    {0x4120, true, {0}},
    {0x4124, true, {0}},
    {0x4128, true, {0}},
    {0x412c, true, {0}},
};

/* The DPU_RDMA block as the open drivers leave it: every reader off. Width, height and channels
 * repeat the DPU's. */
static const uint32_t rdma_rows[][2] = {
    {0x5004, 0xe}, {0x5018, 0}, {0x501c, 0}, {0x5020, 0},         {0x5028, 0},
    {0x502c, 0},   {0x5034, 1}, {0x5038, 0}, {0x5040, 0},         {0x5044, 0x7810},
    {0x5048, 0},   {0x504c, 0}, {0x5064, 0}, {0x5068, 0x1010101}, {0x506c, 0},
};

static uint32_t target_of(uint32_t reg)
{
    switch (reg >> 12) {
    case 1:
        return 0x0201;
    case 3:
        return 0x0801;
    case 4:
        return 0x1001;
    default:
        return 0x2001;
    }
}

static uint64_t entry_of(uint32_t target, uint32_t reg, uint32_t value)
{
    return (uint64_t)target << 48 | (uint64_t)value << 16 | reg;
}

static void push(struct hand_program *p, uint64_t entry)
{
    assert(p->n < sizeof p->entries / sizeof *p->entries);
    p->entries[p->n++] = entry;
}

void hand_build(struct hand_program *program, enum hand_kind kind, bool with_rdma)
{
    memset(program, 0, sizeof *program);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        push(program,
             entry_of(target_of(rows[i].reg), rows[i].reg, rows[i].value[rows[i].same ? 0 : kind]));
    if (with_rdma) {
        for (size_t i = 0; i < sizeof rdma_rows / sizeof *rdma_rows; i++)
            push(program, entry_of(0x2001, rdma_rows[i][0], rdma_rows[i][1]));
        push(program, entry_of(0x2001, 0x500c, hand_get(program, 0x4030)));
        push(program, entry_of(0x2001, 0x5010, hand_get(program, 0x4034)));
        push(program, entry_of(0x2001, 0x5014, hand_get(program, 0x4058)));
    }
    push(program, 0);
    push(program, entry_of(0x0101, 0x14, 0));
    push(program, entry_of(0x0041, 0, 0));
    push(program, entry_of(0x0081, 0x8, with_rdma ? 0x1d : 0x0d));
}

void hand_set(struct hand_program *program, uint32_t reg, uint32_t value)
{
    size_t found = 0;
    for (size_t i = 0; i + 4 < program->n; i++)
        if ((program->entries[i] & 0xffff) == reg) {
            program->entries[i] = entry_of(target_of(reg), reg, value);
            found++;
        }
    assert(found);
}

uint32_t hand_get(const struct hand_program *program, uint32_t reg)
{
    for (size_t i = 0; i < program->n; i++)
        if ((program->entries[i] & 0xffff) == reg)
            return (uint32_t)(program->entries[i] >> 16);
    assert(!"no such register");
    return 0;
}

void hand_remove(struct hand_program *program, uint32_t reg)
{
    size_t kept = 0;
    for (size_t i = 0; i < program->n; i++)
        if ((program->entries[i] & 0xffff) != reg)
            program->entries[kept++] = program->entries[i];
    assert(kept < program->n);
    program->n = kept;
}

void hand_insert(struct hand_program *program, uint64_t entry)
{
    size_t at = program->n - 4;
    push(program, 0);
    memmove(program->entries + at + 1, program->entries + at, 4 * sizeof *program->entries);
    program->entries[at] = entry;
}

void hand_chain(struct hand_program *program, uint32_t next_address, size_t next_entries)
{
    uint64_t *tail = program->entries + program->n - 4;
    tail[0] = next_address ? entry_of(0x0101, 0x10, next_address) : 0;
    tail[1] = entry_of(0x0101, 0x14, next_address ? (uint32_t)(next_entries + 1) / 2 - 1 : 0);
}

static uint8_t *add_buffer(struct hand_machine *machine, uint32_t address)
{
    uint8_t *host = malloc(HAND_BUFFER_BYTES);
    if (!host || sim_mem_add(&machine->mem, address, host, HAND_BUFFER_BYTES))
        abort();
    memset(host, 0xaa, HAND_BUFFER_BYTES);
    return host;
}

void hand_machine_init(struct hand_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    sim_mem_init(&machine->mem);
    sim_core_init(&machine->core, 0, 0);
    machine->features = add_buffer(machine, HAND_FEATURES);
    machine->weights = add_buffer(machine, HAND_WEIGHTS);
    machine->output = add_buffer(machine, HAND_OUTPUT);
    machine->program = add_buffer(machine, HAND_PROGRAM);
}

void hand_machine_fini(struct hand_machine *machine)
{
    free(machine->features);
    free(machine->weights);
    free(machine->output);
    free(machine->program);
    sim_core_fini(&machine->core);
    sim_mem_fini(&machine->mem);
}

void hand_load(struct hand_machine *machine, uint32_t address, const struct hand_program *program)
{
    uint8_t *at = machine->program + (address - HAND_PROGRAM);
    assert(address - HAND_PROGRAM + 8 * program->n <= HAND_BUFFER_BYTES);
    memcpy(at, program->entries, 8 * program->n);
    memset(at + 8 * program->n, 0, 8 * (program->n % 2));
}

int hand_run(struct hand_machine *machine, const struct hand_program *program)
{
    struct ork_program_ref ref = {HAND_PROGRAM, (uint32_t)program->n};
    struct sim_job job = {&ref, 1, false};
    hand_load(machine, HAND_PROGRAM, program);
    memset(&machine->fault, 0, sizeof machine->fault);
    return sim_core_run(&machine->core, &machine->mem, &job, &machine->counts, &machine->fault);
}

/* A half between -4 and 4 with 10 random mantissa bits: sign, exponent 8..16. */
static uint16_t random_half(unsigned bits)
{
    return (uint16_t)((bits & 1) << 15 | (8 + (bits >> 1) % 9) << 10 | (bits >> 8 & 0x3ff));
}

void hand_fill(struct hand_machine *machine, enum hand_kind kind, unsigned seed)
{
    uint8_t *const buffers[] = {machine->features, machine->weights};
    bool half = kind == HAND_F16_FLAT || kind == HAND_F16_CUBE;
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < HAND_BUFFER_BYTES; i += 2) {
            uint16_t value;
            seed = seed * 1103515245 + 12345;
            value = half ? random_half(seed >> 8) : (uint16_t)(seed >> 12);
            memcpy(buffers[b] + i, &value, 2);
        }
    memset(machine->output, 0xaa, HAND_BUFFER_BYTES);
}
