/*
 * The store's address space: one anonymous NORESERVE reservation. Matrices grow from its base up
 * (registered with userfaultfd), pinned ranges from its end down (never registered), so that both
 * may still be added late. Huge pages are refused before anything is filled: one that spans absent
 * extents would fill them with zeros without a fault, which is the one way this design could give
 * wrong bits silently; mincore proves at registration that no page is there. Memory that comes once
 * and stays is another matter (memory_huge): pinned ranges, frames, the readers' buffers.
 */
#include "pager/pager_internal.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *memory_reserve(uint64_t bytes, int prot)
{
    void *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    /* EINVAL: a kernel without huge pages has nothing to refuse. */
    bool thp = madvise(at, bytes, MADV_NOHUGEPAGE) == 0 || errno == EINVAL;
    if (!thp || madvise(at, bytes, MADV_DONTFORK) != 0) {
        munmap(at, bytes);
        return NULL;
    }
    return at;
}

/* Only where a huge page is 2 MiB: with pages of 64 KiB it is 512. What the kernel does not have or
 * does not want to give is done without. */
bool memory_has_huge(void)
{
    return sysconf(_SC_PAGESIZE) == 4096;
}

void memory_huge(char *from, char *to)
{
    const uintptr_t huge = MEMORY_HUGE_BYTES;
    uintptr_t begin = ((uintptr_t)from + huge - 1) / huge * huge, end = (uintptr_t)to / huge * huge;
    if (begin < end && memory_has_huge())
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *memory_buffer(uint64_t bytes)
{
    if (bytes % MEMORY_HUGE_BYTES)
        return memory_reserve(bytes, PROT_READ | PROT_WRITE);
    char *map = memory_reserve(bytes + MEMORY_HUGE_BYTES, PROT_READ | PROT_WRITE);
    if (!map)
        return NULL;
    uint64_t before = (MEMORY_HUGE_BYTES - (uintptr_t)map % MEMORY_HUGE_BYTES) % MEMORY_HUGE_BYTES;
    if (before)
        munmap(map, before);
    munmap(map + before + bytes, MEMORY_HUGE_BYTES - before);
    memory_huge(map + before, map + before + bytes);
    return map + before;
}

int store_create(struct pager *p, struct bmoe_error *err)
{
    uint64_t bytes;
    if (!checked_align_u64(p->config.reserve_bytes, p->page, &bytes) ||
        !checked_add_u64(bytes, p->page, &p->map_bytes))
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "the store's size overflows");
    p->map = memory_reserve(p->map_bytes, PROT_READ | PROT_WRITE);
    if (!p->map)
        return error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, errno,
                               "cannot reserve %llu bytes of address space",
                               (unsigned long long)p->map_bytes);
    uintptr_t gap = (uintptr_t)p->map % p->page;
    p->base = p->map + (gap ? p->page - gap : 0);
    p->pinned_begin = bytes;
    return 0;
}

void store_destroy(struct pager *p)
{
    if (p->map)
        munmap(p->map, p->map_bytes);
    p->map = NULL;
}

/* Whether no page of [addr, addr + bytes) is there. */
static bool range_empty(const struct pager *p, char *addr, uint64_t bytes)
{
    enum { BLOCK_PAGES = 16384 };
    unsigned char seen[BLOCK_PAGES];
    uint64_t block = BLOCK_PAGES * (uint64_t)p->sys_page;
    for (uint64_t at = 0; at < bytes; at += block) {
        uint64_t len = bytes - at < block ? bytes - at : block;
        if (mincore(addr + at, len, seen) != 0)
            return false;
        for (uint64_t i = 0; i < len / p->sys_page; i++)
            if (seen[i] & 1)
                return false;
    }
    return true;
}

int store_register(struct pager *p, struct bmoe_error *err)
{
    char *from = p->base + p->registered_bytes;
    uint64_t bytes = p->paged_bytes - p->registered_bytes;
    if (bytes == 0)
        return 0;
    if (!range_empty(p, from, bytes))
        return error_set(err, BMOE_E_INTERNAL, BMOE_SCOPE_SESSION,
                         "pages of the store are there before anything was read");
    /* Without faults a reader writes to its place itself, and would be the one to fault there. */
    if (p->uffd >= 0 && p->place != BMOE_PLACE_NONE && uffd_register(p->uffd, from, bytes) != 0)
        return error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, errno,
                               "userfaultfd does not take the store");
    p->registered_bytes = p->paged_bytes;
    return 0;
}

bool store_page_present(const struct pager *p, char *addr)
{
    unsigned char seen = 0;
    char *page = addr - (uintptr_t)addr % p->sys_page;
    return mincore(page, p->sys_page, &seen) == 0 && (seen & 1);
}

uint32_t store_find(const struct pager *p, const char *addr)
{
    uint32_t lo = 0, hi = p->n_matrices;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->matrices[mid]->base <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return EXTENT_NONE;
    const struct matrix *m = p->matrices[lo - 1];
    uint64_t slice = (uint64_t)(addr - m->base) / m->stride;
    return slice < m->n_slices ? m->first_extent + (uint32_t)slice : EXTENT_NONE;
}
