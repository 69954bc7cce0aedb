/*
 * The reads of a prompt and the copies behind them, without a graph, an order or anybody who waits:
 * what filling a device's slots takes on this machine, however well it is arranged.
 */
#include "device_filling.h"

#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64 };

struct filling {
    struct pager *pager;
    const struct pager_read_record *records;
    size_t n;
    atomic_size_t next; /* record that nobody has taken */
    char *slots;
    uint64_t slot_bytes;
    atomic_uint_least64_t at;
    struct pager_buffers buffers;
    atomic_uint n_started;
    atomic_int rc;
};

static void *fill(void *arg)
{
    struct filling *f = arg;
    unsigned me = atomic_fetch_add(&f->n_started, 1);
    char *buffer = f->buffers.base + me * f->buffers.step;
    for (size_t i; (i = atomic_fetch_add(&f->next, 1)) < f->n;) {
        const struct pager_read_record *r = &f->records[i];
        const void *data;
        struct bmoe_error ignored;
        int rc = pager_direct_read(f->pager, r->file, r->offset, r->bytes, buffer, &data, &ignored);
        uint64_t at = atomic_fetch_add(&f->at, r->bytes) % (f->slot_bytes - r->bytes);
        if (rc < 0)
            atomic_store(&f->rc, rc);
        else
            memcpy(f->slots + at, data, r->bytes);
    }
    return NULL;
}

static int64_t run(struct filling *f, unsigned n_threads)
{
    pthread_t threads[MOST_THREADS];
    unsigned n = 0;
    int64_t start = clock_now_us();
    while (n < n_threads && n < MOST_THREADS && pthread_create(&threads[n], NULL, fill, f) == 0)
        n++;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return n ? clock_now_us() - start : BMOE_E_MEMORY;
}

int64_t filling_time(struct pager *pager, const struct pager_read_record *records, size_t n,
                     unsigned n_threads, uint64_t slot_bytes, struct bmoe_error *err)
{
    struct filling f = {.pager = pager, .records = records, .n = n, .slot_bytes = slot_bytes};
    uint64_t most = 0;
    int64_t us = BMOE_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        most = records[i].bytes > most ? records[i].bytes : most;
    f.slots = most < slot_bytes ? malloc(slot_bytes) : NULL;
    if (f.slots && pager_buffers_init(&f.buffers, n_threads, pager_direct_buffer_bytes(most))) {
        memset(f.slots, 0, slot_bytes);
        us = run(&f, n_threads);
        us = atomic_load(&f.rc) < 0 ? atomic_load(&f.rc) : us;
    }
    pager_buffers_fini(&f.buffers);
    free(f.slots);
    if (us < 0)
        error_set(err, (int)us, BMOE_SCOPE_REQUEST, "the reads could not be made again");
    return us;
}
