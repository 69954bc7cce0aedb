/* Runs programs: fetch entries, decode, read the task, check reuse, multiply, store, follow the
 * tail.
 *
 * Every program runs under the memory's read lock, so a buffer cannot go away beneath it. */
#include "sim_core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_fetch.h"
#include "sim_gemm.h"
#include "sim_store.h"

enum {
    BANK_BYTES = 32768,
    SIM_STATUS_READ_ERROR = 1 << 12, /* PC interrupt status bits [mesa] */
    SIM_STATUS_WRITE_ERROR = 1 << 13
};

void sim_core_init(struct sim_core *core, unsigned index, unsigned quirks)
{
    memset(core, 0, sizeof *core);
    core->index = index;
    core->quirks = quirks;
}

void sim_core_fini(struct sim_core *core)
{
    sim_scratch_fini(&core->scratch);
    free(core->chain_sums);
    free(core->late.sums);
    memset(core, 0, sizeof *core);
}

/* Interrupt status pairs alternate between the two shadow groups. */
static uint32_t group_bit(const struct sim_core *core, unsigned low_bit)
{
    return UINT32_C(1) << (low_bit + (core->n_run & 1));
}

static bool same_shape(const struct sim_task *a, const struct sim_task *b)
{
    return a->type == b->type && a->width == b->width && a->height == b->height && a->k == b->k &&
           a->n == b->n && a->data_banks == b->data_banks && a->line_stride == b->line_stride &&
           a->cell_stride == b->cell_stride;
}

static uint64_t serial_at(const struct sim_mem *mem, uint32_t address)
{
    const struct sim_range *range = sim_mem_find(mem, address, 1);
    return range ? range->serial : 0;
}

/* Reuse bits are right only directly after a program of the same shape on the same tile. */
static int check_reuse(const struct sim_core *core, const struct sim_task *task,
                       const struct sim_mem *mem, struct sim_fault *fault)
{
    uint32_t con0 = sim_reg_get(&core->regs, ORK_REG_CNA_CBUF_CON0);
    if (!task->data_reuse && !task->weight_reuse)
        return 0;
    if (!core->n_run)
        return sim_fault_set(fault, SIM_FAULT_CORRUPT, ORK_REG_CNA_CBUF_CON0, con0,
                             "reuse bits in the first program of a job");
    if (!same_shape(task, &core->last))
        return sim_fault_set(fault, SIM_FAULT_CORRUPT, ORK_REG_CNA_CBUF_CON0, con0,
                             "reuse bits after a program of another shape");
    if (task->data_reuse && (task->feature_address != core->last.feature_address ||
                             serial_at(mem, task->feature_address) != core->last_feature_serial))
        return sim_fault_set(fault, SIM_FAULT_CORRUPT, ORK_REG_CNA_CBUF_CON0, con0,
                             "data reuse, but the program before read other features");
    if (task->weight_reuse && (task->weight_address != core->last.weight_address ||
                               serial_at(mem, task->weight_address) != core->last_weight_serial))
        return sim_fault_set(fault, SIM_FAULT_CORRUPT, ORK_REG_CNA_CBUF_CON0, con0,
                             "weight reuse, but the program before read other weights");
    return 0;
}

static int reserve(struct sim_core *core, const struct sim_task *task)
{
    struct sim_scratch *s = &core->scratch;
    size_t group = task->type->group_kernels;
    size_t element = task->type->in_bits == 16 ? sizeof(float) : sizeof(int16_t);
    int err = sim_scratch_grow(&s->b, &s->b_bytes, group * task->k * element);
    if (!err)
        err = sim_scratch_grow(&s->sums, &s->sums_bytes, group * task->rows * sizeof(float));
    return err;
}

/* SIM_QUIRK_CHAIN: sums of kernel group 0 leak into the next chained integer program. */
static int leak_sums(struct sim_core *core, const struct sim_task *task, bool chained)
{
    size_t bytes = (size_t)task->rows * task->type->group_kernels * sizeof(int32_t);
    union sim_panel kept = {core->chain_sums};
    int err;
    if (chained && core->n_run && bytes <= core->chain_sums_bytes)
        for (size_t i = 0; i < bytes / sizeof(int32_t); i++)
            core->scratch.sums.i32[i] += kept.i32[i] & 0xff;
    err = sim_scratch_grow(&kept, &core->chain_sums_bytes, bytes);
    if (err)
        return err;
    core->chain_sums = kept.i32;
    memcpy(core->chain_sums, core->scratch.sums.i32, bytes);
    return 0;
}

static int hold_back(struct sim_core *core, const struct sim_task *task, uint32_t group)
{
    size_t bytes = (size_t)task->rows * task->type->group_kernels * sizeof(int32_t);
    int32_t *sums = realloc(core->late.sums, bytes);
    if (!sums)
        return -ENOMEM;
    memcpy(sums, core->scratch.sums.any, bytes);
    core->late.sums = sums;
    core->late.task = *task;
    core->late.group = group;
    core->late.mem = core->mem;
    core->late.pending = true;
    return 0;
}

static void multiply_group(struct sim_core *core, const struct sim_task *task)
{
    struct sim_scratch *s = &core->scratch;
    if (task->type->in_bits == 16)
        sim_gemm_float(s->a.f32, task->rows, s->b.f32, task->type->group_kernels, task->k,
                       s->sums.f32);
    else
        sim_gemm_int(s->a.i16, task->rows, s->b.i16, task->type->group_kernels, task->k,
                     s->sums.i32);
}

static int compute(struct sim_core *core, const struct sim_task *task, const uint8_t *weights,
                   const struct sim_output *output, bool chained, struct sim_counts *counts)
{
    uint32_t groups = task->n / task->type->group_kernels;
    for (uint32_t group = 0; group < groups; group++) {
        int err = 0;
        sim_fetch_group(task, weights, group, &core->scratch);
        multiply_group(core, task);
        if (core->quirks & SIM_QUIRK_CHAIN && !group && task->type->in_bits != 16)
            err = leak_sums(core, task, chained);
        if (!err && core->quirks & SIM_QUIRK_LAG && group == groups - 1)
            err = hold_back(core, task, group);
        else if (!err)
            counts->saturated_cells += sim_store_group(task, output, group, &core->scratch);
        if (err)
            return err;
    }
    return 0;
}

static void count_task(struct sim_counts *counts, const struct sim_task *task)
{
    uint64_t kernel_bytes = (uint64_t)task->k * task->type->in_bits / 8;
    uint64_t weight_bytes = task->weight_reuse ? 0 : kernel_bytes * task->n;
    uint64_t banks_bytes = (uint64_t)task->weight_banks * BANK_BYTES;
    counts->programs++;
    counts->macs += (uint64_t)task->rows * task->k * task->n;
    counts->macs_of_bits[task->type->in_bits] += (uint64_t)task->rows * task->k * task->n;
    counts->feature_bytes += task->data_reuse ? 0 : kernel_bytes * task->rows;
    counts->weight_bytes += weight_bytes;
    counts->output_bytes += (uint64_t)task->rows * task->n * task->type->out_bytes;
    counts->cbuf_fills += (weight_bytes + banks_bytes - 1) / banks_bytes;
    counts->without_slack_bank += task->without_slack_bank;
    counts->group_exceeds_banks += task->group_exceeds_banks;
}

/* Fetches, multiplies and stores one task, raising the status bits on the way. */
static int execute(struct sim_core *core, const struct sim_mem *mem, struct sim_task *task,
                   bool chained, struct sim_counts *counts, struct sim_fault *fault)
{
    struct sim_output output;
    const uint8_t *weights;
    int err = check_reuse(core, task, mem, fault);
    if (err)
        return err;
    if (core->quirks & SIM_QUIRK_CLAMP && task->lines_per_group > 1 &&
        task->cell_stride < (int64_t)task->lines_per_group * task->width)
        task->cell_stride = (int64_t)task->lines_per_group * task->width;
    err = sim_fetch_weights(task, mem, &weights, fault);
    if (!err && !task->data_reuse)
        err = sim_fetch_features(task, mem, &core->scratch, fault);
    if (err) {
        core->status |= SIM_STATUS_READ_ERROR;
        return err;
    }
    core->status |= group_bit(core, 0) | group_bit(core, 2);
    err = sim_store_open(task, mem, &output, fault);
    if (err) {
        core->status |= SIM_STATUS_WRITE_ERROR;
        return err;
    }
    err = reserve(core, task);
    if (!err)
        err = compute(core, task, weights, &output, chained, counts);
    if (err)
        return err;
    core->status |= group_bit(core, 4) | group_bit(core, 6) | group_bit(core, 8);
    core->last_feature_serial = serial_at(mem, task->feature_address);
    core->last_weight_serial = serial_at(mem, task->weight_address);
    core->last = *task;
    count_task(counts, task);
    return 0;
}

/* One program at `address`; its tail tells where the sequencer goes next. */
static int run_program(struct sim_core *core, struct sim_mem *mem, uint32_t address,
                       size_t n_entries, bool chained, struct sim_tail *tail,
                       struct sim_counts *counts, struct sim_fault *fault)
{
    size_t fetched = (n_entries + 1) / 2 * 2;
    const struct sim_range *range = sim_mem_find(mem, address, 8 * (int64_t)fetched);
    struct sim_task task;
    int err;
    core->program_address = address;
    if (!range || address % 16) {
        core->status |= SIM_STATUS_READ_ERROR;
        return sim_fault_set(fault, SIM_FAULT_READ, ORK_REG_PC_BASE_ADDRESS, address,
                             "a program of %zu entries does not lie in a buffer there", fetched);
    }
    err = sim_decode_program(&core->regs, tail, range->host + (address - range->iova), fetched,
                             fault);
    if (!err)
        err = sim_task_read(&task, &core->regs, tail, core->n_run == 0, fault);
    if (!err)
        err = execute(core, mem, &task, chained, counts, fault);
    return err;
}

/* Whether the tail fits what comes next: `next` is NULL at the end of a kick. */
static int check_tail(const struct sim_tail *tail, const struct ork_program_ref *next,
                      struct sim_fault *fault)
{
    uint32_t leads_to = tail->has_next_address ? tail->next_address : 0;
    if (!next && leads_to)
        return sim_fault_set(fault, SIM_FAULT_HANG, ORK_REG_PC_BASE_ADDRESS, leads_to,
                             "the tail leads on where the kick should end");
    if (!next)
        return 0;
    if (!leads_to)
        return sim_fault_set(fault, SIM_FAULT_HANG, ORK_REG_PC_BASE_ADDRESS, 0,
                             "the chain ends before the last program");
    if (leads_to != next->iova)
        return sim_fault_set(fault, SIM_FAULT_MISMATCH, ORK_REG_PC_BASE_ADDRESS, leads_to,
                             "the chain leads elsewhere than to the next program, 0x%x",
                             next->iova);
    if (!tail->has_next_amount ||
        sim_amount_entries(tail->next_amount) != (next->n_entries + 1) / 2 * 2)
        return sim_fault_set(fault, SIM_FAULT_HANG, ORK_REG_PC_REGISTER_AMOUNTS, tail->next_amount,
                             "the next program has %u entries", next->n_entries);
    return 0;
}

int sim_core_run(struct sim_core *core, struct sim_mem *mem, const struct sim_job *job,
                 struct sim_counts *counts, struct sim_fault *fault)
{
    int err = 0;
    memset(counts, 0, sizeof *counts);
    sim_regfile_reset(&core->regs);
    core->mem = mem;
    core->n_run = 0;
    core->status = 0;
    for (uint32_t i = 0; i < job->n_programs && !err; i++) {
        bool last = !job->chained || i + 1 == job->n_programs;
        struct sim_tail tail;
        if (!job->chained)
            sim_regfile_reset(&core->regs);
        fault->program = i;
        sim_mem_enter(mem);
        err = run_program(core, mem, job->programs[i].iova, job->programs[i].n_entries,
                          job->chained, &tail, counts, fault);
        sim_mem_leave(mem);
        if (!err)
            err = check_tail(&tail, last ? NULL : &job->programs[i + 1], fault);
        core->n_run++;
    }
    return err;
}

void sim_core_settle(struct sim_core *core)
{
    struct sim_late_group *late = &core->late;
    struct sim_mem *mem = late->mem;
    struct sim_output output;
    struct sim_scratch scratch = {.sums = {late->sums}};
    if (!late->pending)
        return;
    sim_mem_enter(mem);
    if (!sim_store_open(&late->task, mem, &output, NULL))
        sim_store_group(&late->task, &output, late->group, &scratch);
    sim_mem_leave(mem);
    late->pending = false;
}
