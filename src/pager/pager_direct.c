/*
 * Reads for somebody else's memory: a prefill device is filled past the store, by threads that are
 * not the pager's readers. What is resident already is lent instead, pinned for the time of a copy.
 */
#include "pager/pager_internal.h"

#include <sys/mman.h>

uint64_t pager_direct_buffer_bytes(uint64_t bytes)
{
    return file_buffer_bytes(bytes);
}

uint64_t pager_buffers_bytes(unsigned n, uint64_t each_bytes)
{
    return align_up(n * align_up(each_bytes, 4096), MEMORY_HUGE_BYTES);
}

bool pager_buffers_init(struct pager_buffers *b, unsigned n, uint64_t each_bytes)
{
    *b = (struct pager_buffers){.step = align_up(each_bytes, 4096)};
    b->bytes = pager_buffers_bytes(n, each_bytes);
    b->base = memory_buffer(b->bytes);
    return b->base != NULL;
}

void pager_buffers_fini(struct pager_buffers *b)
{
    if (b->base && b->bytes)
        munmap(b->base, b->bytes);
    *b = (struct pager_buffers){0};
}

static void note_direct(void *ctx, const struct pager_file *f, uint64_t offset, uint64_t bytes)
{
    struct pager *p = ctx;
    if (!atomic_load_explicit(&p->tracing, memory_order_relaxed))
        return;
    pthread_mutex_lock(p->lock);
    trace_add(p, NULL, f, offset, bytes);
    pthread_mutex_unlock(p->lock);
}

int pager_direct_read(struct pager *p, int file, uint64_t offset, uint64_t bytes, void *buffer,
                      const void **data, struct bmoe_error *err)
{
    char *at = NULL;
    struct pager_file *f = p->files[file];
    int rc = file_read(f, offset, bytes, buffer, &at, note_direct, p, err);
    if (rc)
        rc = file_read(f, offset, bytes, buffer, &at, note_direct, p, err);
    if (rc == 0)
        *data = at;
    return rc;
}

const void *pager_lend(struct pager *p, uint32_t e)
{
    const void *at = NULL;
    pthread_mutex_lock(p->lock);
    struct extent *x = e < p->extents.n ? &p->extents.at[e] : NULL;
    if (x && x->state == EXTENT_RESIDENT && !(x->flags & EXTENT_ZEROED) && x->pins < UINT16_MAX) {
        uint64_t more = x->pins ? 0 : extent_matrix(p, e)->stride;
        if (p->pin_bytes + more <= room_pin_limit(p)) {
            x->pins++;
            p->pin_bytes += more;
            extent_settle(p, e);
            at = extent_addr(p, e);
        }
    }
    pthread_mutex_unlock(p->lock);
    return at;
}
