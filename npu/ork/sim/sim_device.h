/* A simulated NPU: address spaces, up to three cores, a queue of jobs, tickets.
 *
 * Threads: any thread may submit and wait; with threads = true each core runs its jobs on a thread
 * of its own, without the lock; else they run inside submit, under it. One mutex guards tickets
 * and queues. */
#ifndef ORK_SIM_DEVICE_H
#define ORK_SIM_DEVICE_H

#include <pthread.h>

#include "sim_core.h"
#include "transport/transport.h"

enum { SIM_MAX_DOMAINS = 16, SIM_MAX_JOBS = 4096, SIM_MAX_PROGRAMS = 4095 };

struct sim_config {
    enum ork_kernel kernel;
    enum ork_chain chain;
    unsigned n_cores;
    unsigned n_domains;
    bool threads;
    uint64_t iova_base;
    unsigned quirks;     /* enum sim_quirk */
    bool noncoherent;    /* cached buffers reach the device only through sync, and back */
    uint64_t fail_job;   /* this job, counted from 1, times out without running; 0 = none */
    uint64_t dead_after; /* so many jobs are taken, then the device is gone; 0 = never */
};

enum sim_ticket_state { SIM_TICKET_FREE, SIM_TICKET_QUEUED, SIM_TICKET_RUNNING, SIM_TICKET_DONE };

/* One submitted job. id % SIM_MAX_JOBS is its slot; programs are owned. */
struct sim_ticket {
    uint64_t id;
    enum sim_ticket_state state;
    unsigned core, domain;
    unsigned peers; /* most cores that had work while this ticket was out */
    struct ork_program_ref *programs;
    struct sim_job job;
    bool fail;
    struct sim_counts counts;
    struct ork_job_result result; /* device_us is filled by wait */
    const struct sim_type *type;  /* of the last program that ran; NULL = none did */
    struct sim_ticket *next;      /* in its core's queue, or in the free list */
};

struct sim_queue {
    struct sim_ticket *first, *last;
    unsigned outstanding; /* queued, running or done, not waited for */
};

struct sim_device {
    struct sim_config config;
    struct sim_mem spaces[SIM_MAX_DOMAINS];
    struct sim_core cores[ORK_MAX_CORES];
    pthread_t workers[ORK_MAX_CORES];
    unsigned n_workers;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;  /* a queue grew, or stop was set */
    pthread_cond_t done;  /* a ticket is done */
    struct sim_queue queues[ORK_MAX_CORES];
    struct sim_ticket *tickets; /* SIM_MAX_JOBS of them */
    struct sim_ticket *free_tickets;
    uint64_t n_submitted;
    bool stop;
    bool looked; /* sim_device_settle was called since the last submit */
};

int sim_device_create(const struct sim_config *config, struct sim_device **out);
/* Runs what is queued to its end first. NULL is fine. */
void sim_device_destroy(struct sim_device *device);

/* Contracts as in transport.h. */
int sim_device_submit(struct sim_device *device, const struct ork_job *job, unsigned domain,
                      uint64_t *ticket);
int sim_device_wait(struct sim_device *device, uint64_t ticket, int64_t timeout_us,
                    struct ork_job_result *out);

/* The host looked at device memory: what SIM_QUIRK_LAG holds back lands after a second look. */
void sim_device_settle(struct sim_device *device);

#endif
