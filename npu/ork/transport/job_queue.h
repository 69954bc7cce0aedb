/* Jobs in flight: tickets, one queue per core, and a thread per core that runs them.
 *
 * Serves every world whose way to run a job is a call that returns when the job is done: the
 * simulator, and the vendor kernel, whose blocking submit is the proven one.
 * Threads: submit and wait from any thread; one thread waits for one ticket. The mutex guards
 * tickets and queues, and is not held while a job runs unless the queue has no threads: then jobs
 * run inside submit, one at a time. */
#ifndef ORK_JOB_QUEUE_H
#define ORK_JOB_QUEUE_H

#include <pthread.h>

#include "timemodel.h"
#include "transport/transport.h"

enum { JOB_QUEUE_SLOTS = 4096 };

enum job_state { JOB_FREE, JOB_QUEUED, JOB_RUNNING, JOB_DONE };

/* One submitted job. id % JOB_QUEUE_SLOTS is its slot; states go round in the order above. */
struct job_ticket {
    uint64_t id;
    enum job_state state;
    uint64_t sequence; /* of all jobs of the queue, from 1 */
    unsigned core, domain;
    unsigned peers; /* most cores with work while this ticket was out */
    bool chained;
    uint32_t timeout_ms;
    struct ork_program_ref *programs; /* owned */
    uint32_t n_programs;
    struct ork_job_result result; /* run fills it in */
    struct ork_work work;         /* run may count in it; zero else */
    struct job_ticket *next;      /* in its core's queue, or among the free */
};

struct job_hooks {
    void *context;
    /* Runs the job and fills ticket->result. Per core one call at a time. */
    void (*run)(void *context, struct job_ticket *ticket);
    /* Before a wait returns the result; under the lock. NULL: nothing. */
    void (*finish)(void *context, struct job_ticket *ticket);
};

struct job_line {
    struct job_ticket *first, *last;
    unsigned outstanding; /* queued, running or done, not waited for */
};

struct job_queue {
    struct job_hooks hooks;
    unsigned n_cores;
    bool threads;
    pthread_t workers[ORK_MAX_CORES];
    unsigned n_workers;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;  /* a line grew, or stop was set */
    pthread_cond_t done;  /* a ticket is done */
    struct job_line lines[ORK_MAX_CORES];
    struct job_ticket *tickets; /* JOB_QUEUE_SLOTS of them */
    struct job_ticket *free_tickets;
    uint64_t n_submitted;
    bool stop;
};

/* On failure the queue is fini'd already. */
int job_queue_init(struct job_queue *queue, const struct job_hooks *hooks, unsigned n_cores,
                   bool threads);
/* Runs what is queued to its end first. */
void job_queue_fini(struct job_queue *queue);

/* -EAGAIN: all slots are taken. Limits of the job are the caller's to check. */
int job_queue_submit(struct job_queue *queue, const struct ork_job *job, unsigned domain,
                     uint64_t *ticket);
/* As wait in transport.h; id is the ticket. */
int job_queue_wait(struct job_queue *queue, uint64_t id, int64_t timeout_us,
                   struct ork_job_result *out);

/* Every bo of a job lives in one domain: 0 and *domain (0 for a job without any), or -EINVAL. */
int job_domain(const struct ork_job *job, unsigned *domain);

/* Whether a job keeps to the limits of *info: 0 or -EINVAL. */
int job_check(const struct ork_job *job, const struct ork_transport_info *info);

#endif
