/*
 * Pinned ranges: read once by all readers, in chunks, carried straight to their place (outside what
 * userfaultfd watches) and never evicted. pager_start waits for them, or pager_pinned_add when the
 * pager already runs. While chunks larger than a group are to be read, the readers' bounce buffers
 * are as large, and shrink again after.
 */
#include "pager/pager_internal.h"

#include "base/checked.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static uint64_t chunk_end(const struct pinned *k, uint32_t chunk)
{
    uint64_t end = (chunk + 1ull) * k->chunk_bytes;
    return end < k->spec.bytes ? end : k->spec.bytes;
}

/* Not locked. */
static int chunk_read(struct reader *r, const struct pinned *k, uint32_t chunk,
                      struct bmoe_error *err)
{
    uint64_t at = chunk * k->chunk_bytes, bytes = chunk_end(k, chunk) - at;
    char *data;
    int rc = reader_read(r, k->file, k->spec.file_offset + at, bytes, &data, err);
    if (rc)
        return rc;
    if (k->spec.carry)
        k->spec.carry(k->spec.carry_ctx, chunk, k->base + at, data, bytes);
    else
        memcpy(k->base + at, data, bytes);
    return 0;
}

static void chunk_sizes(struct pager *p)
{
    p->chunk_bytes = 0;
    for (uint32_t i = 0; i < p->n_pinned; i++) {
        const struct pinned *k = p->pinned[i];
        if (k->done < k->n_chunks && k->chunk_bytes > p->chunk_bytes)
            p->chunk_bytes = k->chunk_bytes;
    }
    sizes_update(p);
}

bool pinned_step(struct pager *p, struct reader *r)
{
    struct pinned *k = NULL;
    for (uint32_t i = 0; i < p->n_pinned && !k; i++)
        if (p->pinned[i]->next < p->pinned[i]->n_chunks)
            k = p->pinned[i];
    if (!k)
        return false;
    uint32_t chunk = k->next++;
    struct bmoe_error err;
    pthread_mutex_unlock(p->lock);
    int rc = chunk_read(r, k, chunk, &err);
    pthread_mutex_lock(p->lock);
    costs_report(p, r);
    if (rc == 0)
        p->count.pinned_bytes += chunk_end(k, chunk) - chunk * k->chunk_bytes;
    else if (!k->failed) {
        k->failed = true;
        k->error = err;
        p->count.failed_reads++;
    }
    if (++k->done == k->n_chunks)
        chunk_sizes(p);
    pthread_cond_broadcast(&p->done);
    return true;
}

/* Chunks read and chunks in all, and one range that failed, or NULL. Locked. */
static const struct pinned *pinned_count(const struct pager *p, uint64_t *done, uint64_t *all)
{
    const struct pinned *failed = NULL;
    *done = *all = 0;
    for (uint32_t i = 0; i < p->n_pinned; i++) {
        *all += p->pinned[i]->n_chunks;
        *done += p->pinned[i]->done;
        failed = p->pinned[i]->failed ? p->pinned[i] : failed;
    }
    return failed;
}

int pinned_wait(struct pager *p, void (*progress)(void *, float), void *user,
                struct bmoe_error *err)
{
    uint64_t done, all, told = UINT64_MAX;
    for (;;) {
        const struct pinned *failed = pinned_count(p, &done, &all);
        if (progress && told != done) {
            told = done;
            pthread_mutex_unlock(p->lock);
            progress(user, all ? (float)((double)done / (double)all) : 1.0f);
            pthread_mutex_lock(p->lock);
            continue; /* the last chunk may have come in the meantime, with nobody waiting */
        }
        if (done == all) {
            if (failed && err)
                *err = failed->error;
            return failed ? failed->error.code : 0;
        }
        if (p->error.code == BMOE_E_MEMORY) { /* of readers without buffers nothing will come */
            if (err)
                *err = p->error;
            return p->error.code;
        }
        wait_done(p);
    }
}

static int spec_check(const struct pager *p, const struct pager_pinned *r, struct bmoe_error *err)
{
    uint64_t end;
    if (r->file < 0 || (uint32_t)r->file >= p->n_files || r->bytes == 0)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "no such file, or nothing to pin");
    const struct pager_file *f = p->files[r->file];
    if (!checked_add_u64(r->file_offset, r->bytes, &end) || end > f->size)
        return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                         "%s ends before the %llu bytes at %llu", f->path,
                         (unsigned long long)r->bytes, (unsigned long long)r->file_offset);
    if (r->chunk_bytes && r->bytes / r->chunk_bytes >= UINT32_MAX)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "too many chunks");
    return 0;
}

/* Gives the range its place at the end of the store. */
static struct pinned *pinned_make(struct pager *p, const struct pager_pinned *r)
{
    uint64_t padded = align_up(r->bytes, p->page);
    if (padded > p->pinned_begin - p->paged_bytes)
        return NULL;
    struct pinned *k = calloc(1, sizeof *k);
    struct pinned **more = realloc(p->pinned, (p->n_pinned + 1) * sizeof *more);
    if (more)
        p->pinned = more;
    if (!k || !more) {
        free(k);
        return NULL;
    }
    p->pinned_begin -= padded;
    k->spec = *r;
    k->file = p->files[r->file];
    k->base = p->base + p->pinned_begin;
    k->chunk_bytes = r->chunk_bytes ? r->chunk_bytes : PAGER_CHUNK_BYTES;
    k->n_chunks = (uint32_t)((r->bytes + k->chunk_bytes - 1) / k->chunk_bytes);
    p->pinned[p->n_pinned++] = k;
    return k;
}

int pager_pinned_add(struct pager *p, const struct pager_pinned *r, void **base,
                     struct bmoe_error *err)
{
    pthread_mutex_lock(p->lock);
    int rc = spec_check(p, r, err);
    struct pinned *k = rc ? NULL : pinned_make(p, r);
    if (rc == 0 && !k)
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                       "the store has no room for %llu pinned bytes", (unsigned long long)r->bytes);
    if (rc == 0) {
        chunk_sizes(p);
        if (p->started)
            rc = pinned_wait(p, NULL, NULL, err);
    }
    if (rc == 0)
        *base = k->base;
    pthread_mutex_unlock(p->lock);
    return rc;
}
