/* Buffers of the simulated NPU: a sorted table and a bounds-checked lookup.
 *
 * The simulator never turns a device address into a pointer anywhere else, so this file is the
 * place where "never outside its buffers" is decided. */
#include "sim_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIM_ADDRESS_END (UINT64_C(1) << 32)

int sim_mem_init(struct sim_mem *mem)
{
    memset(mem, 0, sizeof *mem);
    mem->next_serial = 1;
    return -pthread_rwlock_init(&mem->lock, NULL);
}

void sim_mem_fini(struct sim_mem *mem)
{
    free(mem->ranges);
    mem->ranges = NULL;
    pthread_rwlock_destroy(&mem->lock);
}

/* Index of the first range that ends after iova. */
static size_t range_at(const struct sim_mem *mem, uint64_t iova)
{
    size_t low = 0, high = mem->n_ranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mem->ranges[middle].iova + mem->ranges[middle].size_bytes <= iova)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(struct sim_mem *mem)
{
    size_t wanted = mem->n_allocated ? mem->n_allocated * 2 : 16;
    struct sim_range *ranges;
    if (mem->n_ranges < mem->n_allocated)
        return 0;
    ranges = realloc(mem->ranges, wanted * sizeof *ranges);
    if (!ranges)
        return -ENOMEM;
    mem->ranges = ranges;
    mem->n_allocated = wanted;
    return 0;
}

static int insert_range(struct sim_mem *mem, uint64_t iova, void *host, uint64_t size_bytes)
{
    size_t at = range_at(mem, iova);
    int err;
    if (at < mem->n_ranges && mem->ranges[at].iova < iova + size_bytes)
        return -EEXIST;
    err = grow(mem);
    if (err)
        return err;
    memmove(mem->ranges + at + 1, mem->ranges + at, (mem->n_ranges - at) * sizeof *mem->ranges);
    mem->ranges[at] = (struct sim_range){iova, size_bytes, host, mem->next_serial++};
    mem->n_ranges++;
    return 0;
}

int sim_mem_add(struct sim_mem *mem, uint64_t iova, void *host, uint64_t size_bytes)
{
    int err;
    if (!host || !size_bytes || iova % 16 || iova >= SIM_ADDRESS_END ||
        size_bytes > SIM_ADDRESS_END - iova)
        return -EINVAL;
    pthread_rwlock_wrlock(&mem->lock);
    err = insert_range(mem, iova, host, size_bytes);
    pthread_rwlock_unlock(&mem->lock);
    return err;
}

/* Lowest page-aligned gap at or above base; SIM_ADDRESS_END if there is none. */
static uint64_t find_gap(const struct sim_mem *mem, uint64_t base, uint64_t size_bytes)
{
    uint64_t at = base;
    for (size_t i = range_at(mem, base); i < mem->n_ranges; i++) {
        const struct sim_range *range = &mem->ranges[i];
        if (range->iova >= at && range->iova - at >= size_bytes)
            break;
        at = (range->iova + range->size_bytes + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES *
             SIM_PAGE_BYTES;
    }
    return at < SIM_ADDRESS_END && size_bytes <= SIM_ADDRESS_END - at ? at : SIM_ADDRESS_END;
}

int sim_mem_place(struct sim_mem *mem, uint64_t base, void *host, uint64_t size_bytes,
                  uint32_t *iova)
{
    int err = -ENOMEM;
    uint64_t at;
    pthread_rwlock_wrlock(&mem->lock);
    at = find_gap(mem, base, size_bytes);
    if (at < SIM_ADDRESS_END)
        err = insert_range(mem, at, host, size_bytes);
    if (!err)
        *iova = (uint32_t)at;
    pthread_rwlock_unlock(&mem->lock);
    return err;
}

int sim_mem_remove(struct sim_mem *mem, uint64_t iova)
{
    int err = -ENOENT;
    size_t at;
    pthread_rwlock_wrlock(&mem->lock);
    at = range_at(mem, iova);
    if (at < mem->n_ranges && mem->ranges[at].iova == iova) {
        mem->n_ranges--;
        memmove(mem->ranges + at, mem->ranges + at + 1, (mem->n_ranges - at) * sizeof *mem->ranges);
        err = 0;
    }
    pthread_rwlock_unlock(&mem->lock);
    return err;
}

void sim_mem_enter(struct sim_mem *mem)
{
    pthread_rwlock_rdlock(&mem->lock);
}

void sim_mem_leave(struct sim_mem *mem)
{
    pthread_rwlock_unlock(&mem->lock);
}

const struct sim_range *sim_mem_find(const struct sim_mem *mem, int64_t first, int64_t size_bytes)
{
    const struct sim_range *range;
    size_t at;
    if (first < 0 || size_bytes <= 0 || (uint64_t)first >= SIM_ADDRESS_END)
        return NULL;
    at = range_at(mem, (uint64_t)first);
    if (at == mem->n_ranges)
        return NULL;
    range = &mem->ranges[at];
    if ((uint64_t)first < range->iova)
        return NULL;
    if ((uint64_t)size_bytes > range->iova + range->size_bytes - (uint64_t)first)
        return NULL;
    return range;
}
