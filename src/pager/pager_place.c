/*
 * From a reader's buffers into the store and back: the carry and the three ways to place, and
 * eviction, which in MOVE brings the pages home into the reader's slot so that they are used again
 * without being freed, zeroed and charged anew.
 *
 * A page of an extent becomes visible to touching threads only with its final bytes: in MOVE and
 * COPY by one system call, in NONE because nobody touches an extent before pager_pin has said that
 * it is there. The padding behind a slice has unspecified contents.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

void slot_fini(struct slot *s)
{
    if (s->base)
        munmap(s->base, s->bytes);
    *s = (struct slot){0};
}

/* Moves a victim's pages in below the hole's end, as many as there is place for. */
static void slot_recycle(struct reader *r, const struct victim *v)
{
    struct slot *s = &r->slot;
    uint64_t bytes = v->bytes < s->hole ? v->bytes : s->hole;
    if (bytes == 0)
        return;
    char *dst = s->base + s->hole - bytes;
    if (uffd_move(r->pager->uffd, dst, v->addr, bytes) == 0)
        s->hole -= bytes;
    else /* pages with a gap behind them are of no use */
        madvise(dst, bytes, MADV_DONTNEED);
}

void place_evict(struct reader *r)
{
    if (r->n_victims == 0)
        return;
    int64_t start = clock_now_us();
    for (unsigned i = 0; i < r->n_victims; i++) {
        const struct victim *v = &r->victims[i];
        uint64_t kept = 0;
        if (v->kept)
            continue;
        if (r->pager->place == BMOE_PLACE_MOVE && !v->zeroed) {
            uint64_t hole = r->slot.hole;
            slot_recycle(r, v);
            kept = hole - r->slot.hole;
        }
        if (kept < v->bytes)
            madvise(v->addr + kept, v->bytes - kept, MADV_DONTNEED);
    }
    r->costs.evict_us += (uint64_t)(clock_now_us() - start);
}

/* The test hook: zeros for page number skip_page of the run, as if it had been left out on the way.
 * laid: the group as it is about to be placed, its slices `step` bytes apart. */
static void page_skip(struct reader *r, char *laid, uint64_t step)
{
    struct pager *p = r->pager;
    if (p->config.skip_page < 0)
        return;
    uint64_t stride = r->group.m->stride, page = p->page;
    long long n = (long long)(r->group.padded_bytes / page);
    long long at =
        p->config.skip_page - atomic_fetch_add_explicit(&p->pages_placed, n, memory_order_relaxed);
    if (at < 0 || at >= n)
        return;
    uint64_t slice = (uint64_t)at * page / stride, in = (uint64_t)at * page % stride;
    memset(laid + slice * step + in, 0, step - in < page ? step - in : page);
}

/* The carry of one slice of m from its file bytes at src. */
static void slice_carry(const struct matrix *m, uint32_t slice, char *dst, const char *src)
{
    uint64_t at = slice * m->slice_bytes;
    uint64_t bytes = m->total_bytes - at < m->slice_bytes ? m->total_bytes - at : m->slice_bytes;
    if (m->carry)
        m->carry(m->carry_ctx, slice, dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

/* The carry of every slice of the group into dst, stride bytes apart. */
static void group_carry(struct reader *r, char *dst, const char *data)
{
    const struct matrix *m = r->group.m;
    int64_t start = clock_now_us();
    for (uint32_t i = 0; i < r->group.n; i++)
        slice_carry(m, r->group.first - m->first_extent + i, dst + i * m->stride,
                    data + i * m->slice_bytes);
    page_skip(r, dst, m->stride);
    r->costs.carry_us += (uint64_t)(clock_now_us() - start);
}

/* COPY without a scratch: each slice straight from the bounce buffer, whole pages, so up to a page
 * is read past a slice (the buffer has it). Slices that are whole pages go in one call. */
static int copy_from_bounce(struct reader *r, char *addr, char *data)
{
    const struct matrix *m = r->group.m;
    page_skip(r, data, m->slice_bytes);
    int64_t start = clock_now_us();
    int rc = 0;
    if (m->slice_bytes == m->stride)
        rc = uffd_copy(r->pager->uffd, addr, data, r->group.padded_bytes);
    for (uint32_t i = 0; m->slice_bytes != m->stride && i < r->group.n && rc == 0; i++)
        rc = uffd_copy(r->pager->uffd, addr + i * m->stride, data + i * m->slice_bytes, m->stride);
    r->costs.place_us += (uint64_t)(clock_now_us() - start);
    return rc;
}

static int copy_by_scratch(struct reader *r, char *addr, const char *data)
{
    group_carry(r, r->slot.base, data);
    int64_t start = clock_now_us();
    int rc = uffd_copy(r->pager->uffd, addr, r->slot.base, r->group.padded_bytes);
    r->costs.place_us += (uint64_t)(clock_now_us() - start);
    return rc;
}

/* Makes the first `bytes` above the hole be there. Fresh pages come by COPY of whatever the bounce
 * buffer holds: cheaper than a fault for each. */
static int slot_fill(struct reader *r, uint64_t bytes)
{
    struct slot *s = &r->slot;
    if (s->bytes - s->hole >= bytes)
        return 0;
    uint64_t missing = bytes - (s->bytes - s->hole);
    int rc = uffd_copy(r->pager->uffd, s->base + s->hole - missing, r->bounce, missing);
    if (rc == 0)
        s->hole -= missing;
    return rc;
}

/* The group anew by COPY of what was read, where MOVE gave up: nothing on either side is kept. */
static int place_again(struct reader *r, char *addr, const char *data)
{
    struct slot *s = &r->slot;
    uint64_t bytes = r->group.padded_bytes;
    r->costs.move_fallbacks++;
    madvise(addr, bytes, MADV_DONTNEED);
    madvise(s->base, s->bytes, MADV_DONTNEED);
    s->hole = s->bytes;
    int rc = slot_fill(r, bytes);
    if (rc)
        return rc;
    char *window = s->base + s->hole;
    group_carry(r, window, data);
    return uffd_copy(r->pager->uffd, addr, window, bytes);
}

static int place_move(struct reader *r, char *addr, char *data)
{
    struct slot *s = &r->slot;
    uint64_t bytes = r->group.padded_bytes;
    if (!r->group.m->carry && s->bytes - s->hole < bytes)
        return copy_from_bounce(r, addr, data); /* the store still grows: nothing to recycle */
    int rc = slot_fill(r, bytes);
    if (rc)
        return rc;
    char *window = s->base + s->hole;
    group_carry(r, window, data);
    int64_t start = clock_now_us();
    if (uffd_move(r->pager->uffd, addr, window, bytes) == 0)
        s->hole += bytes;
    else
        rc = place_again(r, addr, data);
    r->costs.place_us += (uint64_t)(clock_now_us() - start);
    return rc;
}

/* Mode NONE: each slice straight to where its extent is. */
static void place_here(struct reader *r, char *data)
{
    const struct group *g = &r->group;
    const struct matrix *m = g->m;
    page_skip(r, data, m->slice_bytes);
    int64_t start = clock_now_us();
    for (uint32_t i = 0; i < g->n; i++)
        slice_carry(m, g->first - m->first_extent + i, extent_addr(r->pager, g->first + i),
                    data + i * m->slice_bytes);
    r->costs.carry_us += (uint64_t)(clock_now_us() - start);
}

int place_group(struct reader *r, char *data)
{
    struct pager *p = r->pager;
    char *addr = extent_addr(p, r->group.first);
    int rc = 0;
    if (p->place == BMOE_PLACE_NONE)
        place_here(r, data);
    else if (p->place == BMOE_PLACE_MOVE)
        rc = place_move(r, addr, data);
    else if (r->group.m->carry)
        rc = copy_by_scratch(r, addr, data);
    else
        rc = copy_from_bounce(r, addr, data);
    return rc;
}

void place_zeros(struct reader *r)
{
    struct pager *p = r->pager;
    for (uint32_t e = r->group.first; e < r->group.first + r->group.n; e++) {
        char *addr = extent_addr(p, e);
        madvise(addr, r->group.m->stride, MADV_DONTNEED);
        if (p->uffd >= 0)
            uffd_zero(p->uffd, addr, r->group.m->stride);
    }
}
