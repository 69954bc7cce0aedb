/* Jobs of the simulated NPU: queued per core, run in order, waited for by ticket.
 *
 * A ticket's modelled time is computed when it is waited for, with the number of cores that had
 * work while it was out: the cores share the memory bandwidth. */
#include "sim_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "timemodel.h"

static void describe_failure(struct sim_ticket *ticket, int err, const struct sim_fault *fault)
{
    struct ork_job_result *result = &ticket->result;
    result->error = err;
    if (fault->kind != SIM_FAULT_NONE)
        snprintf(result->text, sizeof result->text, "program %u: %.140s", fault->program,
                 fault->text);
    else
        snprintf(result->text, sizeof result->text, "program %u: no memory to simulate it",
                 fault->program);
}

/* Runs one ticket; called without the lock, by the core's only user. */
static void run_ticket(struct sim_device *device, struct sim_ticket *ticket)
{
    struct sim_core *core = &device->cores[ticket->core];
    struct sim_fault fault = {.kind = SIM_FAULT_NONE};
    int err;
    if (ticket->fail) {
        ticket->result.error = -ETIMEDOUT;
        snprintf(ticket->result.text, sizeof ticket->result.text,
                 "the job never finished and the core was reset (asked for by fail_job)");
        return;
    }
    sim_core_settle(core);
    err =
        sim_core_run(core, &device->spaces[ticket->domain], &ticket->job, &ticket->counts, &fault);
    ticket->type = ticket->counts.programs ? core->last.type : NULL;
    ticket->result.programs_done = ticket->counts.programs;
    ticket->result.status = core->status;
    ticket->result.saturated = ticket->counts.saturated_cells;
    if (err) {
        ticket->result.bad_iova = core->program_address;
        describe_failure(ticket, err, &fault);
    }
}

/* Takes the first queued ticket of a core and runs it. The lock is held on entry and exit, and
 * let go meanwhile where the core has a thread of its own. */
static void run_first(struct sim_device *device, unsigned core)
{
    struct sim_queue *queue = &device->queues[core];
    struct sim_ticket *ticket = queue->first;
    queue->first = ticket->next;
    ticket->state = SIM_TICKET_RUNNING;
    if (device->config.threads)
        pthread_mutex_unlock(&device->lock);
    run_ticket(device, ticket);
    if (device->config.threads)
        pthread_mutex_lock(&device->lock);
    ticket->state = SIM_TICKET_DONE;
    pthread_cond_broadcast(&device->done);
}

struct worker {
    struct sim_device *device;
    unsigned core;
};

static void *worker_main(void *argument)
{
    struct worker worker = *(struct worker *)argument;
    struct sim_device *device = worker.device;
    free(argument);
    pthread_mutex_lock(&device->lock);
    for (;;) {
        while (!device->queues[worker.core].first && !device->stop)
            pthread_cond_wait(&device->work, &device->lock);
        if (!device->queues[worker.core].first)
            break;
        run_first(device, worker.core);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static int start_worker(struct sim_device *device, unsigned core)
{
    struct worker *worker = malloc(sizeof *worker);
    int err;
    if (!worker)
        return -ENOMEM;
    *worker = (struct worker){device, core};
    err = -pthread_create(&device->workers[core], NULL, worker_main, worker);
    if (err)
        free(worker);
    else
        device->n_workers++;
    return err;
}

static int init_tickets(struct sim_device *device)
{
    device->tickets = calloc(SIM_MAX_JOBS, sizeof *device->tickets);
    if (!device->tickets)
        return -ENOMEM;
    for (size_t i = SIM_MAX_JOBS; i-- > 0;) {
        device->tickets[i].id = i;
        device->tickets[i].next = device->free_tickets;
        device->free_tickets = &device->tickets[i];
    }
    return 0;
}

int sim_device_create(const struct sim_config *config, struct sim_device **out)
{
    struct sim_device *device = calloc(1, sizeof *device);
    pthread_condattr_t monotonic;
    int err;
    if (!device)
        return -ENOMEM;
    device->config = *config;
    pthread_mutex_init(&device->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->work, NULL);
    pthread_cond_init(&device->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (unsigned i = 0; i < SIM_MAX_DOMAINS; i++)
        sim_mem_init(&device->spaces[i]);
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        sim_core_init(&device->cores[i], i, config->quirks);
    err = init_tickets(device);
    for (unsigned i = 0; !err && config->threads && i < config->n_cores; i++)
        err = start_worker(device, i);
    if (err) {
        sim_device_destroy(device);
        return err;
    }
    *out = device;
    return 0;
}

void sim_device_destroy(struct sim_device *device)
{
    if (!device)
        return;
    pthread_mutex_lock(&device->lock);
    device->stop = true;
    pthread_cond_broadcast(&device->work);
    pthread_mutex_unlock(&device->lock);
    for (unsigned i = 0; i < device->n_workers; i++)
        pthread_join(device->workers[i], NULL);
    for (size_t i = 0; device->tickets && i < SIM_MAX_JOBS; i++)
        free(device->tickets[i].programs);
    free(device->tickets);
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        sim_core_fini(&device->cores[i]);
    for (unsigned i = 0; i < SIM_MAX_DOMAINS; i++)
        sim_mem_fini(&device->spaces[i]);
    pthread_cond_destroy(&device->done);
    pthread_cond_destroy(&device->work);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static int check_job(const struct sim_device *device, const struct ork_job *job, unsigned domain)
{
    if (job->size != sizeof *job || !job->n_programs || job->n_programs > SIM_MAX_PROGRAMS ||
        job->core >= device->config.n_cores || domain >= device->config.n_domains)
        return -EINVAL;
    if (job->n_programs == 1)
        return 0;
    if (device->config.chain == ORK_CHAIN_NONE && job->chained)
        return -EINVAL;
    return device->config.chain == ORK_CHAIN_REQUIRED && !job->chained ? -EINVAL : 0;
}

/* Cores that have work now; every ticket that is out learns of it. */
static void note_peers(struct sim_device *device)
{
    unsigned active = 0;
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        active += device->queues[i].outstanding > 0;
    for (size_t i = 0; i < SIM_MAX_JOBS; i++)
        if (device->tickets[i].state != SIM_TICKET_FREE && device->tickets[i].peers < active)
            device->tickets[i].peers = active;
}

static void enqueue(struct sim_device *device, struct sim_ticket *ticket)
{
    struct sim_queue *queue = &device->queues[ticket->core];
    if (queue->first)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
    ticket->state = SIM_TICKET_QUEUED;
    device->looked = false;
    ticket->fail = ++device->n_submitted == device->config.fail_job;
    ticket->peers = 1;
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        ticket->peers += i != ticket->core && device->queues[i].outstanding > 0;
    if (!queue->outstanding++)
        note_peers(device);
}

/* A ticket from the free list with the job copied into it; NULL: none is left. */
static struct sim_ticket *take_ticket(struct sim_device *device, const struct ork_job *job,
                                      struct ork_program_ref *programs, unsigned domain)
{
    struct sim_ticket *ticket = device->free_tickets;
    if (!ticket)
        return NULL;
    device->free_tickets = ticket->next;
    *ticket = (struct sim_ticket){.id = ticket->id + SIM_MAX_JOBS,
                                  .core = job->core,
                                  .domain = domain,
                                  .programs = programs,
                                  .job = {programs, job->n_programs, job->chained}};
    return ticket;
}

int sim_device_submit(struct sim_device *device, const struct ork_job *job, unsigned domain,
                      uint64_t *ticket)
{
    struct ork_program_ref *programs;
    struct sim_ticket *taken = NULL;
    int err = check_job(device, job, domain);
    if (err)
        return err;
    programs = malloc(job->n_programs * sizeof *programs);
    if (!programs)
        return -ENOMEM;
    memcpy(programs, job->programs, job->n_programs * sizeof *programs);
    pthread_mutex_lock(&device->lock);
    if (device->config.dead_after && device->n_submitted >= device->config.dead_after)
        err = -ENODEV;
    else if (!(taken = take_ticket(device, job, programs, domain)))
        err = -EAGAIN;
    if (!err) {
        *ticket = taken->id;
        enqueue(device, taken);
        pthread_cond_broadcast(&device->work);
        if (!device->config.threads)
            run_first(device, taken->core);
    }
    pthread_mutex_unlock(&device->lock);
    if (err)
        free(programs);
    return err;
}

static enum ork_type type_of(const struct sim_type *type)
{
    if (type->in_bits == 8)
        return ORK_I8_I32;
    if (type->in_bits == 4)
        return ORK_I4_I16;
    return type->out_bytes == 2 ? ORK_F16_F16 : ORK_F16_F32;
}

/* Device time of one job while `peers` cores share the memory with work like its own. */
static double model_us(const struct sim_device *device, const struct sim_ticket *ticket)
{
    const struct sim_counts *counts = &ticket->counts;
    struct ork_time time;
    struct ork_work work = {.n_cores = ticket->peers,
                            .n_jobs = ticket->peers,
                            .n_programs = counts->programs * ticket->peers,
                            .n_programs_core = counts->programs,
                            .chained = ticket->job.chained,
                            .macs = counts->macs * ticket->peers,
                            .macs_core = counts->macs,
                            .feature_bytes = counts->feature_bytes * ticket->peers,
                            .weight_bytes = counts->weight_bytes * ticket->peers,
                            .output_bytes = counts->output_bytes * ticket->peers,
                            .cbuf_fills = counts->cbuf_fills * ticket->peers};
    if (!ticket->type)
        return 0;
    work.type = type_of(ticket->type);
    ork_timemodel_predict(device->config.kernel, &work, &time);
    return time.total_us;
}

static void retire(struct sim_device *device, struct sim_ticket *ticket)
{
    free(ticket->programs);
    ticket->programs = NULL;
    ticket->state = SIM_TICKET_FREE;
    ticket->next = device->free_tickets;
    device->free_tickets = ticket;
    device->queues[ticket->core].outstanding--;
}

static struct timespec deadline_in(int64_t timeout_us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_us / 1000000;
    at.tv_nsec += timeout_us % 1000000 * 1000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

int sim_device_wait(struct sim_device *device, uint64_t id, int64_t timeout_us,
                    struct ork_job_result *out)
{
    struct sim_ticket *ticket = &device->tickets[id % SIM_MAX_JOBS];
    struct timespec deadline = deadline_in(timeout_us < 0 ? 0 : timeout_us);
    int err = 0;
    pthread_mutex_lock(&device->lock);
    if (ticket->id != id || ticket->state == SIM_TICKET_FREE)
        err = -ENOENT;
    while (!err && ticket->state != SIM_TICKET_DONE) {
        if (timeout_us < 0)
            pthread_cond_wait(&device->done, &device->lock);
        else
            err = -pthread_cond_timedwait(&device->done, &device->lock, &deadline);
    }
    if (err == -ETIMEDOUT && ticket->state == SIM_TICKET_DONE)
        err = 0;
    if (!err) {
        *out = ticket->result;
        out->device_us = model_us(device, ticket);
        retire(device, ticket);
    }
    pthread_mutex_unlock(&device->lock);
    return err;
}

void sim_device_settle(struct sim_device *device)
{
    bool second;
    if (!(device->config.quirks & SIM_QUIRK_LAG))
        return;
    pthread_mutex_lock(&device->lock);
    second = device->looked;
    device->looked = true;
    for (unsigned i = 0; second && i < device->config.n_cores; i++)
        if (!device->queues[i].outstanding)
            sim_core_settle(&device->cores[i]);
    pthread_mutex_unlock(&device->lock);
}
