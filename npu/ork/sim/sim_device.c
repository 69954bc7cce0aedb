/* Jobs on simulated cores, and what they would cost.
 *
 * A job's modelled time is computed when it is waited for, with the number of cores that had work
 * while it was out: the cores share the memory bandwidth. */
#include "sim_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe_failure(struct ork_job_result *result, int err, const struct sim_fault *fault)
{
    result->error = err;
    if (fault->kind != SIM_FAULT_NONE)
        snprintf(result->text, sizeof result->text, "program %u: %.140s", fault->program,
                 fault->text);
    else
        snprintf(result->text, sizeof result->text, "program %u: no memory to simulate it",
                 fault->program);
}

static enum ork_type type_of(const struct sim_type *type)
{
    if (type->in_bits == 8)
        return ORK_I8_I32;
    if (type->in_bits == 4)
        return ORK_I4_I16;
    return type->out_bytes == 2 ? ORK_F16_F16 : ORK_F16_F32;
}

/* All of it as multiply-adds of the type that came last. */
static uint64_t macs_as(const struct sim_counts *counts, enum ork_type type)
{
    return ork_timemodel_macs_as(type, ORK_I4_I16, counts->macs_of_bits[4]) +
           ork_timemodel_macs_as(type, ORK_I8_I32, counts->macs_of_bits[8]) +
           ork_timemodel_macs_as(type, ORK_F16_F32, counts->macs_of_bits[16]);
}

/* What one core did; finish_job scales it to all that ran beside it. */
static struct ork_work work_of(const struct sim_counts *counts, const struct sim_type *type,
                               bool chained)
{
    return (struct ork_work){.type = type_of(type),
                             .n_programs_core = counts->programs,
                             .chained = chained,
                             .macs_core = macs_as(counts, type_of(type)),
                             .feature_bytes = counts->feature_bytes,
                             .weight_bytes = counts->weight_bytes,
                             .output_bytes = counts->output_bytes,
                             .cbuf_fills = counts->cbuf_fills};
}

static void run_job(void *context, struct job_ticket *ticket)
{
    struct sim_device *device = context;
    struct sim_core *core = &device->cores[ticket->core];
    const struct sim_job job = {ticket->programs, ticket->n_programs, ticket->chained};
    struct sim_fault fault = {.kind = SIM_FAULT_NONE};
    const bool late = device->config.quirks & SIM_QUIRK_LAG; /* then the core needs the lock */
    struct sim_counts counts;
    int err;
    if (ticket->sequence == device->config.fail_job) {
        ticket->result.error = -ETIMEDOUT;
        snprintf(ticket->result.text, sizeof ticket->result.text,
                 "the job never finished and the core was reset (asked for by fail_job)");
        return;
    }
    pthread_mutex_lock(&device->lock);
    sim_core_settle(core);
    device->looked = false;
    if (!late)
        pthread_mutex_unlock(&device->lock);
    err = sim_core_run(core, &device->spaces[ticket->domain], &job, &counts, &fault);
    if (late)
        pthread_mutex_unlock(&device->lock);
    if (counts.programs)
        ticket->work = work_of(&counts, core->last.type, ticket->chained);
    ticket->result.programs_done = counts.programs;
    ticket->result.status = core->status;
    ticket->result.saturated = counts.saturated_cells;
    if (err) {
        ticket->result.bad_iova = core->program_address;
        describe_failure(&ticket->result, err, &fault);
    }
}

static void finish_job(void *context, struct job_ticket *ticket)
{
    const struct sim_device *device = context;
    struct ork_work work = ticket->work;
    struct ork_time time;
    if (!work.n_programs_core)
        return;
    work.n_cores = work.n_jobs = ticket->peers;
    work.n_programs = work.n_programs_core * ticket->peers;
    work.macs = work.macs_core * ticket->peers;
    work.feature_bytes *= ticket->peers;
    work.weight_bytes *= ticket->peers;
    work.output_bytes *= ticket->peers;
    work.cbuf_fills *= ticket->peers;
    ork_timemodel_predict(device->config.kernel, &work, &time);
    ticket->result.device_us = time.total_us;
}

int sim_device_create(const struct sim_config *config, struct sim_device **out)
{
    struct sim_device *device = calloc(1, sizeof *device);
    const struct job_hooks hooks = {device, run_job, finish_job};
    int err;
    if (!device)
        return -ENOMEM;
    device->config = *config;
    err = job_queue_init(&device->queue, &hooks, config->n_cores, config->threads);
    if (err) {
        free(device);
        return err;
    }
    pthread_mutex_init(&device->lock, NULL);
    for (unsigned i = 0; i < SIM_MAX_DOMAINS; i++)
        sim_mem_init(&device->spaces[i]);
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        sim_core_init(&device->cores[i], i, config->quirks);
    *out = device;
    return 0;
}

void sim_device_destroy(struct sim_device *device)
{
    if (!device)
        return;
    job_queue_fini(&device->queue);
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        sim_core_fini(&device->cores[i]);
    for (unsigned i = 0; i < SIM_MAX_DOMAINS; i++)
        sim_mem_fini(&device->spaces[i]);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

int sim_device_submit(struct sim_device *device, const struct ork_job *job, unsigned domain,
                      uint64_t *ticket)
{
    bool dead;
    pthread_mutex_lock(&device->queue.lock);
    dead = device->config.dead_after && device->queue.n_submitted >= device->config.dead_after;
    pthread_mutex_unlock(&device->queue.lock);
    return dead ? -ENODEV : job_queue_submit(&device->queue, job, domain, ticket);
}

void sim_device_settle(struct sim_device *device)
{
    if (!(device->config.quirks & SIM_QUIRK_LAG))
        return;
    pthread_mutex_lock(&device->lock);
    for (unsigned i = 0; device->looked && i < device->config.n_cores; i++)
        sim_core_settle(&device->cores[i]);
    device->looked = true;
    pthread_mutex_unlock(&device->lock);
}
