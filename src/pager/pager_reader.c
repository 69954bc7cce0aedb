/*
 * The reader threads: take what is most urgent and fits the budget, empty its victims, read, carry,
 * place, report. A reader owns a bounce buffer and (MOVE, COPY with a carry) a slot; it never
 * spins, and it waits for room only while it holds none. Extents of a failed read that nothing
 * asked for become absent again; others are filled with zeros, so that the threads which sleep on
 * them go on to the end the error makes for them.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"
#include "base/error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Buffers. */

static uint64_t slot_target(const struct reader *r)
{
    return r->index < r->pager->n_active ? r->pager->slot_bytes : 0;
}

static uint64_t bounce_target(const struct reader *r)
{
    return r->index < r->pager->n_active ? r->pager->bounce_bytes : 0;
}

/* Locked, by r's own thread. */
static bool reader_fits(const struct reader *r)
{
    return r->slot.bytes == slot_target(r) && r->bounce_bytes == bounce_target(r);
}

static int reader_bounce(struct reader *r, uint64_t bytes)
{
    if (r->bounce_bytes == bytes)
        return 0;
    if (r->bounce)
        munmap(r->bounce, r->bounce_bytes);
    r->bounce = bytes ? memory_buffer(bytes) : NULL;
    r->bounce_bytes = r->bounce ? bytes : 0;
    return bytes && !r->bounce ? -1 : 0;
}

static int reader_slot(struct reader *r, uint64_t bytes)
{
    if (r->slot.bytes == bytes)
        return 0;
    slot_fini(&r->slot);
    if (bytes == 0)
        return 0;
    char *base = memory_reserve(bytes, PROT_READ | PROT_WRITE);
    if (!base)
        return -1;
    r->slot = (struct slot){.base = base, .bytes = bytes, .hole = bytes};
    if (r->pager->place != BMOE_PLACE_MOVE)
        return 0;
    return uffd_register(r->pager->uffd, base, bytes);
}

/* Locked; lets the lock go while it maps. False: there is no memory for it. */
static bool reader_refit(struct pager *p, struct reader *r)
{
    uint64_t slot = slot_target(r), bounce = bounce_target(r);
    pthread_mutex_unlock(p->lock);
    bool ok = reader_slot(r, slot) == 0 && reader_bounce(r, bounce) == 0;
    pthread_mutex_lock(p->lock);
    uint64_t held = r->slot.bytes + r->bounce_bytes;
    if (held != r->held_bytes) { /* it wakes the others: two without memory would never rest */
        r->held_bytes = held;
        sizes_update(p);
    }
    if (!ok) {
        struct bmoe_error err;
        error_set(&err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a reader's buffers");
        failure_keep(p, &err);
    }
    pthread_cond_broadcast(&p->done);
    return ok;
}

/* Reading. */

static void note_read(void *ctx, const struct pager_file *f, uint64_t offset, uint64_t bytes)
{
    struct reader *r = ctx;
    r->costs.reads++;
    r->costs.read_bytes += bytes;
    if (atomic_load_explicit(&r->pager->tracing, memory_order_relaxed)) {
        pthread_mutex_lock(r->pager->lock);
        trace_add(r->pager, r, f, offset, bytes);
        pthread_mutex_unlock(r->pager->lock);
        r->read_from_us = clock_now_us();
    }
}

int reader_read(struct reader *r, struct pager_file *f, uint64_t offset, uint64_t bytes,
                char **data, struct bmoe_error *err)
{
    int64_t start = r->read_from_us = clock_now_us();
    int rc = file_read(f, offset, bytes, r->bounce, data, note_read, r, err);
    if (rc) {
        r->costs.retries++;
        rc = file_read(f, offset, bytes, r->bounce, data, note_read, r, err);
    }
    r->costs.read_us += (uint64_t)(clock_now_us() - start);
    return rc;
}

static uint64_t group_bytes(const struct group *g)
{
    const struct matrix *m = g->m;
    uint64_t at = (g->first - m->first_extent) * m->slice_bytes, bytes = g->n * m->slice_bytes;
    return m->total_bytes - at < bytes ? m->total_bytes - at : bytes;
}

static int group_read(struct reader *r, struct bmoe_error *err)
{
    const struct group *g = &r->group;
    char *data;
    r->cause = (unsigned)g->queue + 1;
    int rc = reader_read(r, g->m->file, slice_offset(g->m, g->first - g->m->first_extent),
                         group_bytes(g), &data, err);
    r->cause = 0;
    if (rc)
        return rc;
    rc = place_group(r, data);
    if (rc)
        return error_set_errno(err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST, rc,
                               "what was read of %s could not be placed", g->m->file->path);
    return 0;
}

/* Reporting, locked. */

void costs_report(struct pager *p, struct reader *r)
{
    struct reader_costs *c = &r->costs;
    p->count.read_us += c->read_us;
    p->count.carry_us += c->carry_us;
    p->count.place_us += c->place_us;
    p->count.evict_us += c->evict_us;
    p->count.reads += c->reads;
    p->count.retries += c->retries;
    p->count.move_fallbacks += c->move_fallbacks;
    *c = (struct reader_costs){0};
}

static void victims_report(struct pager *p, struct reader *r)
{
    for (unsigned i = 0; i < r->n_victims; i++)
        extent_evicted(p, r->victims[i].extent, r->covered);
    r->n_victims = 0;
}

/* Whether somebody waits for, or was promised, an extent of the group. */
static bool group_wanted(const struct pager *p, const struct group *g)
{
    for (uint32_t e = g->first; e < g->first + g->n; e++) {
        const struct extent *x = &p->extents.at[e];
        if ((x->flags & EXTENT_FAULTED) || x->pins || x->order)
            return true;
    }
    return g->queue != QUEUE_AHEAD;
}

static void group_failed(struct pager *p, struct reader *r, const struct bmoe_error *err)
{
    const struct group *g = &r->group;
    p->count.failed_reads++;
    if (!group_wanted(p, g)) {
        for (uint32_t e = g->first; e < g->first + g->n; e++) {
            p->extents.at[e].flags &= (uint8_t)~EXTENT_GUESSED;
            extent_become(p, e, EXTENT_ABSENT);
        }
        return;
    }
    failure_keep(p, err); /* before the zeros can be seen */
    pthread_mutex_unlock(p->lock);
    place_zeros(r);
    pthread_mutex_lock(p->lock);
    for (uint32_t e = g->first; e < g->first + g->n; e++)
        extent_placed(p, e, true);
}

static void group_report(struct pager *p, struct reader *r, int rc, const struct bmoe_error *err)
{
    const struct group *g = &r->group;
    uint64_t useful = rc == 0 ? group_bytes(g) : 0;
    p->count.bytes_useful += useful;
    if (r->costs.read_bytes > useful)
        p->count.bytes_widened += r->costs.read_bytes - useful;
    costs_report(p, r);
    if (rc)
        group_failed(p, r, err);
    for (uint32_t e = g->first; rc == 0 && e < g->first + g->n; e++)
        extent_placed(p, e, false);
    r->group.n = 0;
}

/* Locked; lets the lock go while it works. */
static void reader_work(struct pager *p, struct reader *r)
{
    struct bmoe_error err;
    int rc = 0;
    if (r->n_victims) {
        pthread_mutex_unlock(p->lock);
        place_evict(r);
        pthread_mutex_lock(p->lock);
        victims_report(p, r);
    }
    if (r->group.n) {
        frames_take(p, &r->group);
        if (room_more(p) && p->n_idle)
            pthread_cond_signal(&p->work);
        pthread_mutex_unlock(p->lock);
        rc = group_read(r, &err);
        pthread_mutex_lock(p->lock);
        group_report(p, r, rc, &err);
    }
    if (p->n_waiting)
        pthread_cond_broadcast(&p->done);
}

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    struct pager *p = r->pager;
    pthread_mutex_lock(p->lock);
    while (!p->stop) {
        /* The sizes may have changed meanwhile, after the call that wakes the parked. */
        if (!reader_fits(r) && reader_refit(p, r))
            continue;
        if (r->index >= p->n_active || !reader_fits(r)) {
            pthread_cond_wait(&p->parked, p->lock);
        } else if (pinned_step(p, r) || replay_step(p, r)) {
            continue;
        } else if (room_take(p, r)) {
            reader_work(p, r);
        } else {
            p->n_idle++;
            pthread_cond_wait(&p->work, p->lock);
            p->n_idle--;
        }
    }
    pthread_mutex_unlock(p->lock);
    return NULL;
}

int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the program's own threads */
    int rc = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        pthread_setname_np(*thread, name);
    return rc;
}

int readers_start(struct pager *p, struct bmoe_error *err)
{
    for (unsigned i = 0; i < p->config.n_readers; i++) {
        struct reader *r = &p->readers[i];
        char name[16];
        snprintf(name, sizeof name, "bmoe-read%u", i % PAGER_MAX_READERS);
        int rc = thread_start(&r->thread, name, reader_main, r);
        if (rc)
            return error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, rc,
                                   "cannot start a reader thread");
        pthread_mutex_lock(p->lock);
        p->n_threads++;
        pthread_mutex_unlock(p->lock);
    }
    return 0;
}

void readers_stop(struct pager *p)
{
    pthread_mutex_lock(p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->parked);
    pthread_mutex_unlock(p->lock);
    for (unsigned i = 0; i < p->n_threads; i++)
        pthread_join(p->readers[i].thread, NULL);
    for (unsigned i = 0; i < PAGER_MAX_READERS; i++) {
        slot_fini(&p->readers[i].slot);
        reader_bounce(&p->readers[i], 0);
    }
    p->n_threads = 0;
}
