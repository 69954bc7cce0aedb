/* A crew that sleeps between calls. Threads start with the first call: a program that only lists
 * devices starts none. */
#include "workers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct crew_member {
    struct workers *crew;
    pthread_t thread;
    uint32_t number;
};

struct workers {
    pthread_mutex_t turn; /* held by the caller for the length of its call */
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t work;  /* next < n_parts, or stop */
    pthread_cond_t done;  /* running = 0 and next = n_parts */
    workers_part *part;
    void *user;
    size_t n_parts, next, running;
    bool stop;
    uint32_t n, n_started;
    struct crew_member *members;
};

static void *member_main(void *arg)
{
    const struct crew_member *me = arg;
    struct workers *w = me->crew;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        size_t part;

        while (!w->stop && w->next == w->n_parts)
            pthread_cond_wait(&w->work, &w->lock);
        if (w->stop)
            break;
        part = w->next++;
        w->running++;
        pthread_mutex_unlock(&w->lock);
        w->part(w->user, part, me->number);
        pthread_mutex_lock(&w->lock);
        if (!--w->running && w->next == w->n_parts)
            pthread_cond_signal(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int workers_create(uint32_t n, struct workers **out)
{
    struct workers *w = calloc(1, sizeof(*w));

    if (!w)
        return -ENOMEM;
    w->n = n;
    w->members = calloc(n, sizeof(*w->members));
    if (!w->members) {
        free(w);
        return -ENOMEM;
    }
    pthread_mutex_init(&w->turn, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    *out = w;
    return 0;
}

void workers_destroy(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_started; i++)
        pthread_join(w->members[i].thread, NULL);
    pthread_mutex_destroy(&w->turn);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    free(w->members);
    free(w);
}

uint32_t workers_count(const struct workers *w)
{
    return w->n;
}

/* Signals are for the program's own threads. Fewer threads than wanted is slower, nothing else. */
static void start_crew(struct workers *w)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (w->n_started < w->n) {
        struct crew_member *m = &w->members[w->n_started];

        *m = (struct crew_member){.crew = w, .number = w->n_started};
        if (pthread_create(&m->thread, NULL, member_main, m) != 0)
            break;
        w->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void workers_run(struct workers *w, size_t n_parts, workers_part *part, void *user)
{
    pthread_mutex_lock(&w->turn);
    if (!w->n_started)
        start_crew(w);
    if (!w->n_started) { /* no thread at all: then here */
        for (size_t i = 0; i < n_parts; i++)
            part(user, i, 0);
        pthread_mutex_unlock(&w->turn);
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->part = part;
    w->user = user;
    w->next = 0;
    w->n_parts = n_parts;
    pthread_cond_broadcast(&w->work);
    while (w->running || w->next < w->n_parts)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_unlock(&w->turn);
}
