/* The memory a simulated NPU sees: buffers at 32-bit addresses, backed by host memory.
 *
 * Threads: add and remove take the write side of a lock; the cores hold the read side from
 * sim_mem_enter to sim_mem_leave, once per program. So a buffer is never taken away under a
 * running program, and a program never sees memory that is not a buffer.
 * Invariants: buffers are sorted by iova, do not overlap, and iova + size <= 2^32. */
#ifndef ORK_SIM_MEM_H
#define ORK_SIM_MEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_PAGE_BYTES = 4096 };

struct sim_range {
    uint64_t iova;
    uint64_t size_bytes;
    uint8_t *host;   /* borrowed: the owner removes the range before it frees this */
    uint64_t serial; /* never reused: tells a new buffer at an old address from the old one */
};

struct sim_mem {
    pthread_rwlock_t lock; /* guards the three below */
    struct sim_range *ranges;
    size_t n_ranges;
    size_t n_allocated;
    uint64_t next_serial;
};

int sim_mem_init(struct sim_mem *mem);
void sim_mem_fini(struct sim_mem *mem);

/* -EINVAL: empty, not 16-byte aligned, beyond 2^32; -EEXIST: overlaps; -ENOMEM. */
int sim_mem_add(struct sim_mem *mem, uint64_t iova, void *host, uint64_t size_bytes);
/* Places the buffer at the lowest free page at or above base and tells where. size_bytes is a
 * multiple of SIM_PAGE_BYTES. -ENOMEM: no gap is large enough. */
int sim_mem_place(struct sim_mem *mem, uint64_t base, void *host, uint64_t size_bytes,
                  uint32_t *iova);
/* -ENOENT if no buffer starts at iova. Waits for programs that run now. */
int sim_mem_remove(struct sim_mem *mem, uint64_t iova);

void sim_mem_enter(struct sim_mem *mem);
void sim_mem_leave(struct sim_mem *mem);

/* The buffer that holds all of [first, first + size_bytes), or NULL. Only between enter and
 * leave. first may be any number: strides of a hostile program reach below 0 and above 2^32. */
const struct sim_range *sim_mem_find(const struct sim_mem *mem, int64_t first, int64_t size_bytes);

#endif
