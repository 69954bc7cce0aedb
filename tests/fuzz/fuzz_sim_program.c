/* Any program at all: the simulated core reads and writes inside its buffers only, ends, and names
 * a fault or finishes.
 *
 * Input: one byte of flags, then either raw entries (8 bytes each) or changes to a captured program
 * (6 bytes each: which entry, its new value), so that random bytes get past the first checks. Every
 * buffer is a heap block of its own with a guard of known bytes on both sides, so that a stray
 * store is found without sanitizers and a stray load with them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim_hand.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RAW = 7,
    WITH_RDMA = 8,
    CHAINED = 16,
    TWICE = 32,
    GUARD = 64,
    GUARD_BYTE = 0x5c,
    N_BUFFERS = 4
};

struct guarded {
    uint8_t *block; /* owned: GUARD, bytes, GUARD */
    uint32_t iova, bytes;
};

static void guarded_add(struct guarded *g, struct sim_mem *mem, uint32_t iova, uint32_t bytes)
{
    g->iova = iova;
    g->bytes = bytes;
    g->block = malloc(bytes + 2 * GUARD);
    if (!g->block)
        abort();
    memset(g->block, GUARD_BYTE, bytes + 2 * GUARD);
    memset(g->block + GUARD, 0x11, bytes);
    if (sim_mem_add(mem, iova, g->block + GUARD, bytes))
        abort();
}

static void guarded_check(const struct guarded *g)
{
    for (size_t i = 0; i < GUARD; i++)
        if (g->block[i] != GUARD_BYTE || g->block[GUARD + g->bytes + i] != GUARD_BYTE)
            abort();
}

/* Changes whole entries but the tail's: (entry index, value) pairs. */
static void change(struct hand_program *program, const uint8_t *data, size_t size)
{
    for (; size >= 6; data += 6, size -= 6) {
        size_t index = (size_t)(data[0] | data[1] << 8);
        uint32_t value;
        memcpy(&value, data + 2, sizeof value);
        if (index & 0x8000) /* anywhere, the tail too */
            program->entries[index % program->n] ^= (uint64_t)value << (index >> 8 & 31);
        else
            hand_set(program, program->entries[index % (program->n - 4)] & 0xffff, value);
    }
}

static size_t build(uint8_t *at, size_t room, const uint8_t *data, size_t size)
{
    const uint8_t flags = data[0];
    struct hand_program program;
    size_t bytes = size - 1 < room ? size - 1 : room;
    if ((flags & 7) >= HAND_N_KINDS) {
        memcpy(at, data + 1, bytes);
        return bytes / 8;
    }
    hand_build(&program, (enum hand_kind)(flags & 7), flags & WITH_RDMA);
    if (flags & TWICE)
        hand_chain(&program, HAND_PROGRAM, program.n);
    change(&program, data + 1, size - 1);
    memcpy(at, program.entries, 8 * program.n);
    return program.n;
}

static void run(struct sim_mem *mem, const uint8_t *data, size_t n_entries)
{
    const struct ork_program_ref refs[2] = {{HAND_PROGRAM, (uint32_t)n_entries},
                                            {HAND_PROGRAM, (uint32_t)n_entries}};
    const struct sim_job job = {refs, data[0] & TWICE ? 2 : 1, data[0] & CHAINED};
    struct sim_fault fault = {.kind = SIM_FAULT_NONE};
    struct sim_counts counts;
    struct sim_core core;
    int err;
    sim_core_init(&core, 0, 0);
    err = sim_core_run(&core, mem, &job, &counts, &fault);
    if ((err != 0) != (fault.kind != SIM_FAULT_NONE))
        abort();
    sim_core_fini(&core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        uint32_t iova, bytes;
    } layout[N_BUFFERS] = {
        {HAND_FEATURES, 1024}, {HAND_WEIGHTS, 8192}, {HAND_OUTPUT, 1024}, {HAND_PROGRAM, 2048}};
    struct guarded buffers[N_BUFFERS];
    struct sim_mem mem;
    size_t n_entries;
    if (!size)
        return 0;
    if (sim_mem_init(&mem))
        abort();
    for (size_t i = 0; i < N_BUFFERS; i++)
        guarded_add(&buffers[i], &mem, layout[i].iova, layout[i].bytes);
    n_entries = build(buffers[3].block + GUARD, layout[3].bytes, data, size);
    if (n_entries)
        run(&mem, data, n_entries);
    for (size_t i = 0; i < N_BUFFERS; i++) {
        guarded_check(&buffers[i]);
        free(buffers[i].block);
    }
    sim_mem_fini(&mem);
    return 0;
}
