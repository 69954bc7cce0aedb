/* A simulated NPU: address spaces, up to three cores, the queue that runs their jobs.
 *
 * Threads: as transport.h says of submit and wait. A core is used by its line of the queue only;
 * the lock here guards what sim_device_settle looks at. */
#ifndef ORK_SIM_DEVICE_H
#define ORK_SIM_DEVICE_H

#include <pthread.h>

#include "sim_core.h"
#include "transport/job_queue.h"

enum { SIM_MAX_DOMAINS = 16, SIM_MAX_PROGRAMS = 4095 };

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

struct sim_device {
    struct sim_config config;
    struct sim_mem spaces[SIM_MAX_DOMAINS];
    struct sim_core cores[ORK_MAX_CORES];
    struct job_queue queue;
    pthread_mutex_t lock; /* guards cores[].late and looked */
    bool looked;          /* sim_device_settle was called since the last job */
};

int sim_device_create(const struct sim_config *config, struct sim_device **out);
/* Runs what is queued to its end first. NULL is fine. */
void sim_device_destroy(struct sim_device *device);

/* -ENODEV after dead_after jobs, else as job_queue_submit. */
int sim_device_submit(struct sim_device *device, const struct ork_job *job, unsigned domain,
                      uint64_t *ticket);

/* The host looked at device memory: what SIM_QUIRK_LAG holds back lands at the second look. */
void sim_device_settle(struct sim_device *device);

#endif
