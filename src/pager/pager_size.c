/*
 * Sizes that follow from matrices and budget: what one read may merge, the readers' buffers, how
 * many readers the budget feeds, the floor. All memory a reader holds counts in the budget, so a
 * small budget has fewer readers at work rather than fewer extents.
 */
#include "pager/pager_internal.h"

static uint64_t slot_bytes_of(const struct pager *p, enum bmoe_place place, uint64_t group_bytes)
{
    if (place == BMOE_PLACE_NONE || (place == BMOE_PLACE_COPY && !p->any_carry))
        return 0;
    return group_bytes;
}

/* The bounce buffer of a group: padding is read past the last slice when pages are copied whole. */
static uint64_t bounce_bytes_of(const struct pager *p, uint64_t group_bytes)
{
    return align_up(file_buffer_bytes(group_bytes) + p->page, p->page);
}

/* Of whole huge pages where the budget does not miss what that takes: a direct read into them is
 * one piece of memory for the disk instead of one for each page. */
static uint64_t bounce_bytes_within(const struct pager *p, uint64_t group_bytes, uint64_t budget)
{
    uint64_t bytes = bounce_bytes_of(p, group_bytes), huge = align_up(bytes, MEMORY_HUGE_BYTES);
    bool ample = p->config.n_readers * (huge - bytes) <= budget / 16;
    return ample && memory_has_huge() ? huge : bytes;
}

uint64_t sizes_floor(const struct pager *p, enum bmoe_place place, uint64_t set_bytes)
{
    if (p->extents.n == 0)
        return 0;
    uint64_t staging =
        slot_bytes_of(p, place, p->largest_bytes) + bounce_bytes_of(p, p->largest_bytes);
    uint64_t extents = p->config.n_readers * p->largest_bytes;
    if (place == BMOE_PLACE_NONE)
        return staging + extents + (set_bytes > p->largest_bytes ? set_bytes : p->largest_bytes);
    return staging + extents + p->config.n_touchers * p->largest_bytes;
}

uint64_t sizes_ample(const struct pager *p)
{
    uint64_t group = p->largest_bytes > PAGER_MERGE_BYTES ? p->largest_bytes : PAGER_MERGE_BYTES;
    uint64_t one =
        slot_bytes_of(p, p->place, group) + align_up(bounce_bytes_of(p, group), MEMORY_HUGE_BYTES);
    return p->paged_bytes + p->config.n_readers * one;
}

static uint64_t merge_bytes_of(const struct pager *p)
{
    uint64_t bytes = p->budget_bytes / 64 / p->page * p->page;
    if (bytes > PAGER_MERGE_BYTES)
        bytes = PAGER_MERGE_BYTES;
    return bytes > p->largest_bytes ? bytes : p->largest_bytes;
}

/* The most readers whose buffers take at most a quarter of the budget and leave it its extents. */
static unsigned active_of(const struct pager *p, uint64_t one)
{
    uint64_t extents = (p->config.n_touchers + p->config.n_readers) * p->largest_bytes;
    unsigned n = 1;
    while (n < p->config.n_readers && (n + 1) * one <= p->budget_bytes / 4 &&
           extents + (n + 1) * one <= p->budget_bytes)
        n++;
    return n;
}

void sizes_update(struct pager *p)
{
    if (p->extents.n == 0) {
        /* Pinned ranges only: all readers, and nothing to keep within. */
        p->bounce_bytes = bounce_bytes_within(p, PAGER_CHUNK_BYTES, UINT64_MAX);
        p->n_active = p->config.n_readers;
    } else {
        p->merge_bytes = merge_bytes_of(p);
        p->slot_bytes = slot_bytes_of(p, p->place, p->merge_bytes);
        p->bounce_bytes = bounce_bytes_within(p, p->merge_bytes, p->budget_bytes);
        p->n_active = active_of(p, p->slot_bytes + p->bounce_bytes);
        policy_pace(&p->policy, (double)p->budget_bytes / (double)p->paged_bytes);
    }
    uint64_t chunk = p->chunk_bytes ? bounce_bytes_within(p, p->chunk_bytes, p->budget_bytes) : 0;
    if (p->bounce_bytes < chunk)
        p->bounce_bytes = chunk;
    p->staging_bytes = 0;
    for (unsigned i = 0; i < p->config.n_readers; i++) {
        uint64_t target = i < p->n_active ? p->slot_bytes + p->bounce_bytes : 0;
        uint64_t held = p->readers[i].held_bytes;
        p->staging_bytes += held > target ? held : target;
    }
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->parked);
}
