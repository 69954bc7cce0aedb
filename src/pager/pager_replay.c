/*
 * Recording the run's reads and making them again: the same system calls by the same readers into
 * the same bounce buffers, with nothing carried or placed. That is the disk's part of a run.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>

void pager_trace_reads(struct pager *p, bool on)
{
    atomic_store_explicit(&p->tracing, on, memory_order_relaxed);
}

/* A record that finds no memory is left out: the trace is then short, the run goes on. */
void trace_add(struct pager *p, const struct reader *r, const struct pager_file *f, uint64_t offset,
               uint64_t bytes)
{
    if (p->n_trace == p->trace_cap) {
        size_t cap = p->trace_cap ? p->trace_cap * 2 : 1024;
        struct pager_read_record *more = realloc(p->trace, cap * sizeof *more);
        if (!more)
            return;
        p->trace = more;
        p->trace_cap = cap;
    }
    p->trace[p->n_trace++] =
        (struct pager_read_record){.file = f->number, .offset = offset, .bytes = bytes};
    if (r) {
        p->trace[p->n_trace - 1].end_us = clock_now_us();
        p->trace[p->n_trace - 1].latency_us =
            (uint64_t)(p->trace[p->n_trace - 1].end_us - r->read_from_us);
        p->trace[p->n_trace - 1].reader = r->index;
        p->trace[p->n_trace - 1].cause = r->cause;
    }
}

size_t pager_trace_take(struct pager *p, struct pager_read_record **out)
{
    pthread_mutex_lock(p->lock);
    size_t n = p->n_trace;
    *out = p->trace;
    p->trace = NULL;
    p->n_trace = p->trace_cap = 0;
    pthread_mutex_unlock(p->lock);
    return n;
}

bool replay_step(struct pager *p, struct reader *r)
{
    struct replay *y = p->replay;
    if (!y || y->next == y->n)
        return false;
    const struct pager_read_record *record = &y->records[y->next++];
    struct pager_file *f = p->files[record->file];
    pthread_mutex_unlock(p->lock);
    int errnum = file_read_raw(f, record->offset, record->bytes, r->bounce);
    pthread_mutex_lock(p->lock);
    if (errnum && !y->error)
        y->error = errnum;
    if (++y->done == y->n)
        pthread_cond_broadcast(&p->done);
    return true;
}

static int records_check(const struct pager *p, const struct pager_read_record *records, size_t n,
                         struct bmoe_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (records[i].file < 0 || (uint32_t)records[i].file >= p->n_files ||
            records[i].bytes > p->bounce_bytes)
            return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                             "record %zu is not of this pager", i);
    return 0;
}

int64_t pager_replay(struct pager *p, const struct pager_read_record *records, size_t n,
                     struct bmoe_error *err)
{
    struct replay y = {.records = records, .n = n};
    pthread_mutex_lock(p->lock);
    int rc = records_check(p, records, n, err);
    if (rc == 0 && (p->replay || !p->started))
        rc = error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                       "the pager is not running, or already replays");
    int64_t start = clock_now_us();
    if (rc == 0) {
        p->replay = &y;
        pthread_cond_broadcast(&p->work);
        while (y.done < y.n)
            wait_done(p);
        p->replay = NULL;
        if (y.error)
            rc = error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_REQUEST, y.error, "replaying reads");
    }
    int64_t spent = clock_now_us() - start;
    pthread_mutex_unlock(p->lock);
    return rc ? rc : spent;
}
