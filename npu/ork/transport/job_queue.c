/* Tickets and per-core threads; see job_queue.h. */
#include "transport/job_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Runs the first job of a line. The lock is held on entry and exit. */
static void run_first(struct job_queue *queue, unsigned core)
{
    struct job_line *line = &queue->lines[core];
    struct job_ticket *ticket = line->first;
    line->first = ticket->next;
    ticket->state = JOB_RUNNING;
    if (queue->threads)
        pthread_mutex_unlock(&queue->lock);
    queue->hooks.run(queue->hooks.context, ticket);
    if (queue->threads)
        pthread_mutex_lock(&queue->lock);
    ticket->state = JOB_DONE;
    pthread_cond_broadcast(&queue->done);
}

struct worker {
    struct job_queue *queue;
    unsigned core;
};

static void *worker_main(void *argument)
{
    struct worker worker = *(struct worker *)argument;
    struct job_queue *queue = worker.queue;
    free(argument);
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->lines[worker.core].first && !queue->stop)
            pthread_cond_wait(&queue->work, &queue->lock);
        if (!queue->lines[worker.core].first)
            break;
        run_first(queue, worker.core);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static int start_worker(struct job_queue *queue, unsigned core)
{
    struct worker *worker = malloc(sizeof *worker);
    int err;
    if (!worker)
        return -ENOMEM;
    *worker = (struct worker){queue, core};
    err = -pthread_create(&queue->workers[core], NULL, worker_main, worker);
    if (err)
        free(worker);
    else
        queue->n_workers++;
    return err;
}

static int init_tickets(struct job_queue *queue)
{
    queue->tickets = calloc(JOB_QUEUE_SLOTS, sizeof *queue->tickets);
    if (!queue->tickets)
        return -ENOMEM;
    for (size_t i = JOB_QUEUE_SLOTS; i-- > 0;) {
        queue->tickets[i].id = i;
        queue->tickets[i].next = queue->free_tickets;
        queue->free_tickets = &queue->tickets[i];
    }
    return 0;
}

int job_queue_init(struct job_queue *queue, const struct job_hooks *hooks, unsigned n_cores,
                   bool threads)
{
    pthread_condattr_t monotonic;
    int err;
    memset(queue, 0, sizeof *queue);
    queue->hooks = *hooks;
    queue->n_cores = n_cores;
    queue->threads = threads;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    err = init_tickets(queue);
    for (unsigned i = 0; !err && threads && i < n_cores; i++)
        err = start_worker(queue, i);
    if (err)
        job_queue_fini(queue);
    return err;
}

void job_queue_fini(struct job_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->n_workers; i++)
        pthread_join(queue->workers[i], NULL);
    for (size_t i = 0; queue->tickets && i < JOB_QUEUE_SLOTS; i++)
        free(queue->tickets[i].programs);
    free(queue->tickets);
    queue->tickets = NULL;
    pthread_cond_destroy(&queue->done);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
}

/* How many cores have work: every ticket that is out learns of it. */
static void note_peers(struct job_queue *queue)
{
    unsigned active = 0;
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        active += queue->lines[i].outstanding > 0;
    for (size_t i = 0; i < JOB_QUEUE_SLOTS; i++)
        if (queue->tickets[i].state != JOB_FREE && queue->tickets[i].peers < active)
            queue->tickets[i].peers = active;
}

static void enqueue(struct job_queue *queue, struct job_ticket *ticket)
{
    struct job_line *line = &queue->lines[ticket->core];
    if (line->first)
        line->last->next = ticket;
    else
        line->first = ticket;
    line->last = ticket;
    ticket->state = JOB_QUEUED;
    ticket->sequence = ++queue->n_submitted;
    ticket->peers = 1;
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        ticket->peers += i != ticket->core && queue->lines[i].outstanding > 0;
    if (!line->outstanding++)
        note_peers(queue);
}

/* A free ticket with the job in it; NULL: none is left. */
static struct job_ticket *take_ticket(struct job_queue *queue, const struct ork_job *job,
                                      struct ork_program_ref *programs, unsigned domain)
{
    struct job_ticket *ticket = queue->free_tickets;
    if (!ticket)
        return NULL;
    queue->free_tickets = ticket->next;
    *ticket = (struct job_ticket){.id = ticket->id + JOB_QUEUE_SLOTS,
                                  .core = job->core,
                                  .domain = domain,
                                  .chained = job->chained,
                                  .timeout_ms = job->timeout_ms,
                                  .programs = programs,
                                  .n_programs = job->n_programs};
    return ticket;
}

int job_queue_submit(struct job_queue *queue, const struct ork_job *job, unsigned domain,
                     uint64_t *ticket)
{
    struct ork_program_ref *programs = malloc(job->n_programs * sizeof *programs);
    struct job_ticket *taken;
    if (!programs)
        return -ENOMEM;
    memcpy(programs, job->programs, job->n_programs * sizeof *programs);
    pthread_mutex_lock(&queue->lock);
    taken = take_ticket(queue, job, programs, domain);
    if (taken) {
        *ticket = taken->id;
        enqueue(queue, taken);
        pthread_cond_broadcast(&queue->work);
        if (!queue->threads)
            run_first(queue, taken->core);
    }
    pthread_mutex_unlock(&queue->lock);
    if (taken)
        return 0;
    free(programs);
    return -EAGAIN;
}

static void retire(struct job_queue *queue, struct job_ticket *ticket)
{
    free(ticket->programs);
    ticket->programs = NULL;
    ticket->state = JOB_FREE;
    ticket->next = queue->free_tickets;
    queue->free_tickets = ticket;
    queue->lines[ticket->core].outstanding--;
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

int job_queue_wait(struct job_queue *queue, uint64_t id, int64_t timeout_us,
                   struct ork_job_result *out)
{
    struct job_ticket *ticket = &queue->tickets[id % JOB_QUEUE_SLOTS];
    struct timespec deadline = deadline_in(timeout_us < 0 ? 0 : timeout_us);
    int err = 0;
    pthread_mutex_lock(&queue->lock);
    if (ticket->id != id || ticket->state == JOB_FREE)
        err = -ENOENT;
    while (!err && ticket->state != JOB_DONE) {
        if (timeout_us < 0)
            pthread_cond_wait(&queue->done, &queue->lock);
        else
            err = -pthread_cond_timedwait(&queue->done, &queue->lock, &deadline);
    }
    if (err == -ETIMEDOUT && ticket->state == JOB_DONE)
        err = 0;
    if (!err) {
        if (queue->hooks.finish)
            queue->hooks.finish(queue->hooks.context, ticket);
        *out = ticket->result;
        retire(queue, ticket);
    }
    pthread_mutex_unlock(&queue->lock);
    return err;
}

int job_domain(const struct ork_job *job, unsigned *domain)
{
    const struct ork_bo *first = NULL;
    for (uint32_t i = 0; i < job->n_reads + job->n_writes; i++) {
        const struct ork_bo *bo = i < job->n_reads ? job->reads[i] : job->writes[i - job->n_reads];
        if (!first)
            first = bo;
        if (bo->domain != first->domain)
            return -EINVAL;
    }
    *domain = first ? first->domain : 0;
    return 0;
}

int job_check(const struct ork_job *job, const struct ork_transport_info *info)
{
    if (job->size != sizeof *job || !job->n_programs || job->n_programs > info->max_programs ||
        job->core >= info->n_cores)
        return -EINVAL;
    for (uint32_t i = 0; i < job->n_programs; i++)
        if (job->programs[i].n_entries <= 4 || job->programs[i].iova % 16)
            return -EINVAL;
    if (job->n_programs == 1 || info->chain == ORK_CHAIN_EITHER)
        return 0;
    return job->chained == (info->chain == ORK_CHAIN_REQUIRED) ? 0 : -EINVAL;
}
