/*
 * What the pager's files share. Not for anybody outside this folder.
 *
 * One mutex, pager.lock, guards every field of struct pager, struct extent, struct matrix and the
 * counters unless its comment says otherwise; functions that expect it held say "locked". System
 * calls that read, place or evict are made without it: the extents concerned are then READING or
 * EVICTING, and nobody else touches such an extent's pages.
 *
 * Equations that hold whenever the lock is free (bytes(S): padded bytes of the extents in state S):
 *   used_bytes      = bytes(READING) + bytes(RESIDENT) + bytes(EVICTING)
 *   covered_bytes   = bytes of the EVICTING extents whose evictor has its next group READING; that
 *                     reader fills no page before it has emptied these
 *   used_bytes - covered_bytes + staging_bytes <= budget_bytes     (except while a budget shrinks)
 *   evictable_bytes = bytes of extents in the policy = RESIDENT, no pins, order == 0
 *   guarded_bytes   = bytes of extents RESIDENT, no pins, order != 0
 *   pin_bytes       = bytes of extents with pins > 0, in whatever state
 *   queue[q].n      = number of QUEUED extents with extent.queue == q; no other extent is in one
 *   order_passed <= extent.order < order_next, or extent.order == 0
 *
 * Why nothing deadlocks, in pager_room.c.
 */
#ifndef BMOE_PAGER_PAGER_INTERNAL_H
#define BMOE_PAGER_PAGER_INTERNAL_H

#include "pager/pager.h"
#include "pager/pager_file.h"
#include "pager/pager_policy.h"
#include "pager/pager_table.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PAGER_MAX_READERS = 16,
    PAGER_MAX_POOLS = 16,   /* sizes of slices in a model; a matrix of yet another has no pool */
    PAGER_MAX_VICTIMS = 64, /* extents one reader evicts in one go */
    PAGER_MERGE_BYTES = 256 * 1024,
    PAGER_CHUNK_BYTES = 1024 * 1024,
    MEMORY_HUGE_BYTES = 2 * 1024 * 1024
};

/* A run of equal slices: where they lie in the file and in the store. Fixed once added. */
struct matrix {
    struct pager_file *file;
    uint64_t file_offset, slice_bytes, total_bytes;
    uint32_t first_extent, n_slices;
    char *base;
    uint64_t stride;   /* padded bytes of one extent */
    struct pool *pool; /* mode NONE, slices apart: where its extents' frames are; else NULL */
    pager_carry_fn *carry;
    void *carry_ctx;
};

/* Mode NONE: memory in pieces of one size, which stay mapped while extents come and go in them. A
 * frame is taken when its extent is READING and given back when the extent is ABSENT. Frames 0 ..
 * n_used - 1 were taken once. */
struct pool {
    uint64_t stride;
    char *base;
    uint32_t n_used, cap;
    uint32_t *free; /* n_free of them, cap entries */
    uint32_t n_free;
};

/* A range that is read once. next and done count chunks; done == n_chunks: all there. */
struct pinned {
    struct pager_pinned spec;
    struct pager_file *file;
    char *base;
    uint64_t chunk_bytes;
    uint32_t n_chunks, next, done;
    bool failed;
    struct bmoe_error error;
};

/* Address space libllama believes to be a file. Its owner unmaps it. */
struct mapping {
    char *base;
    uint64_t bytes;
    struct pager_file *file;
};

/* Pages of one extent that a reader takes away. */
struct victim {
    char *addr;
    uint64_t bytes;
    uint32_t extent;
    bool kept;   /* its frame, with the memory in it, is what the group wants */
    bool zeroed; /* holds the zero page, which cannot be moved */
};

/* Slices that follow each other and are read together. n == 0: none. */
struct group {
    const struct matrix *m;
    uint32_t first, n; /* extents first .. first + n - 1 */
    uint64_t padded_bytes;
    enum queue_class queue;
};

/* Memory that pages are moved from and recycled into (MOVE), or a plain scratch (COPY). In MOVE the
 * pages [hole, bytes) are there and [0, hole) are not: eviction moves pages in below hole, placing
 * takes them from hole upwards. */
struct slot {
    char *base;
    uint64_t bytes, hole;
};

/* What a reader has spent since its last report, in microseconds and bytes. */
struct reader_costs {
    uint64_t read_us, carry_us, place_us, evict_us, reads, read_bytes, retries, move_fallbacks;
};

/* One reader. Its fields belong to its thread; group and victims are set with the lock held. */
struct reader {
    struct pager *pager;
    unsigned index;
    pthread_t thread;
    char *bounce;
    uint64_t bounce_bytes;
    struct slot slot;
    uint64_t held_bytes; /* of both, as counted in the budget; written with the lock held */
    struct group group;
    struct victim victims[PAGER_MAX_VICTIMS];
    unsigned n_victims;
    bool covered; /* the victims' room is what the group fills */
    struct reader_costs costs;
    int64_t read_from_us; /* when the read call that is under way began */
    unsigned cause;       /* of the reads, as pager_read_record has it */
};

struct replay {
    const struct pager_read_record *records;
    size_t n, next, done;
    int error; /* errno of the first that failed */
};

struct pager {
    struct pager_config config; /* never changes */
    struct pager_io io;         /* never changes */
    size_t page, sys_page;      /* never change */
    enum bmoe_place place;      /* never changes after create */
    int uffd;                   /* -1 in mode NONE */
    double page_us;             /* what placing a page costs; 0: not measured */

    pthread_mutex_t *lock; /* apart from the struct, so that functions on a const pager can lock */
    pthread_cond_t work;   /* active readers wait here: something queued, room made, stop */
    pthread_cond_t parked; /* readers the budget does not feed wait here: sizes changed, stop */
    pthread_cond_t done;   /* everybody else: something resident, a group's end, a failure */

    /* The store: paged ranges grow from its base up, pinned ones from its end down. */
    char *map, *base;
    uint64_t map_bytes, paged_bytes, pinned_begin;
    uint64_t registered_bytes; /* of the paged part, known to userfaultfd */

    struct pool *pools[PAGER_MAX_POOLS];
    unsigned n_pools;
    bool frames_huge;
    struct matrix **matrices; /* ascending by base and by first_extent */
    uint32_t n_matrices;
    struct pinned **pinned;
    uint32_t n_pinned;
    struct pager_file **files;
    uint32_t n_files;
    struct mapping *mappings;
    uint32_t n_mappings;
    struct extent_table extents;
    struct policy policy;

    /* Sizes that follow from the matrices and the budget; see pager_size.c. */
    uint64_t largest_bytes; /* padded, of the largest extent */
    uint64_t chunk_bytes;   /* largest chunk of the pinned ranges still to be read */
    uint64_t merge_bytes, slot_bytes, bounce_bytes;
    bool any_carry;
    unsigned n_active; /* readers 0 .. n_active - 1 may work */

    struct list queue[N_QUEUES];
    struct order_ring order;

    uint64_t budget_bytes, used_bytes, covered_bytes, staging_bytes;
    uint64_t evictable_bytes, ahead_bytes, guarded_bytes, pin_bytes;
    uint32_t n_reading, n_evicting;
    uint32_t n_waiting; /* threads in wait_done */

    struct reader readers[PAGER_MAX_READERS];
    unsigned n_threads, n_idle;
    pthread_t fault_thread;
    bool fault_running, started, stop;
    bool growing; /* a matrix is being added: no reader takes a group */
    int stop_fd;
    char *fault_bounce;
    struct replay *replay;

    atomic_bool failed; /* relaxed: a flag that is polled; error itself is read under the lock */
    struct bmoe_error error;

    atomic_llong pages_placed; /* for skip_page; relaxed */

    atomic_bool tracing; /* relaxed */
    struct pager_read_record *trace;
    size_t n_trace, trace_cap;

    struct pager_counters count;
};

/* Geometry. */
static inline const struct matrix *extent_matrix(const struct pager *p, uint32_t e)
{
    return p->matrices[p->extents.at[e].matrix];
}
static inline char *extent_addr(const struct pager *p, uint32_t e)
{
    const struct matrix *m = extent_matrix(p, e);
    if (m->pool)
        return m->pool->base + p->extents.at[e].frame * m->stride;
    return m->base + (e - m->first_extent) * m->stride;
}
static inline uint64_t slice_offset(const struct matrix *m, uint32_t slice)
{
    return m->file_offset + slice * m->slice_bytes;
}
static inline uint64_t align_up(uint64_t v, uint64_t a)
{
    return (v + a - 1) / a * a;
}

/* pager_store.c */
int store_create(struct pager *p, struct bmoe_error *err);
void store_destroy(struct pager *p);
int store_register(struct pager *p, struct bmoe_error *err); /* locked; what is not yet */
/* The extent an address belongs to, or EXTENT_NONE. Locked. */
uint32_t store_find(const struct pager *p, const char *addr);
bool store_page_present(const struct pager *p, char *addr);
/* Anonymous memory a forked child does not inherit, without huge pages; NULL on failure. */
void *memory_reserve(uint64_t bytes, int prot);
/* Asks for huge pages wherever a whole one fits between the two; nothing may be there yet. */
void memory_huge(char *from, char *to);
bool memory_has_huge(void); /* of MEMORY_HUGE_BYTES, if the system gives any */
/* As memory_reserve, of huge pages where bytes are a multiple of theirs. */
void *memory_buffer(uint64_t bytes);

/* pager_size.c, all locked */
void sizes_update(struct pager *p); /* and lets the readers follow */
uint64_t sizes_ample(const struct pager *p);
uint64_t sizes_floor(const struct pager *p, enum bmoe_place place, uint64_t set_bytes);

/* pager_frame.c, all locked */
struct pool *pool_for(struct pager *p,
                      uint64_t stride); /* NULL: none, the matrix keeps its place */
void pools_destroy(struct pager *p);
void frames_take(struct pager *p, const struct group *g);
void frame_give_back(struct pager *p, uint32_t e);
bool frames_stay(const struct pager *p); /* an emptied frame may keep its memory */
void frames_huge(struct pager *p); /* before the first is filled: larger pages, if affordable */
/* Before memory of a frame is given back: what is there stays, but the kernel must not fill the
 * hole to make a huge page of what is around it. */
void frames_small(struct pager *p);

/* pager_state.c, all locked */
void extent_become(struct pager *p, uint32_t e, enum extent_state to);
void extent_settle(struct pager *p, uint32_t e); /* into the policy or out, as its fields say */
void extent_asked(struct pager *p, uint32_t e);  /* no mere guess any more */
void extent_guess(struct pager *p, uint32_t e);  /* the next layer may want it */
void guesses_expire(struct pager *p);            /* it did not */
void extent_guard(struct pager *p, uint32_t e);  /* next place in the order of ROUTED hints */
void extent_unguard(struct pager *p, uint32_t e);
void order_pass(struct pager *p, uint64_t before); /* the graph has passed what is before it */
uint32_t order_last_resident(const struct pager *p);
void extent_evicted(struct pager *p, uint32_t e, bool covered);
void extent_placed(struct pager *p, uint32_t e, bool zeroed);
void failure_keep(struct pager *p, const struct bmoe_error *err);
void wait_done(struct pager *p); /* until something ends; the caller tests its condition again */

/* pager_queue.c, all locked */
void queue_push(struct pager *p, uint32_t e, enum queue_class q);
void queue_promote(struct pager *p, uint32_t e, enum queue_class q);
void queue_cancel(struct pager *p, uint32_t e);
void queue_cancel_all(struct pager *p, enum queue_class q);
void readers_wake(struct pager *p);

/* pager_room.c, all locked */
bool room_take(struct pager *p, struct reader *r); /* a group, victims, or both */
bool room_more(const struct pager *p);             /* whether room_take would find a group */
uint64_t room_pin_limit(const struct pager *p);
/* `for_m`: the matrix whose extents want the room, or NULL. */
uint32_t room_victim(struct pager *p, enum queue_class q, const struct matrix *for_m);
uint32_t room_in_hand(const struct pager *p); /* latest arrivals left alone; in NONE those in use
                                                 are pinned */
int64_t room_free(const struct pager *p);
void room_shrink(struct pager *p); /* waits until the budget holds */
/* RESIDENT -> ABSENT by the calling thread; keep: its frame may keep its memory. */
void room_empty(struct pager *p, uint32_t e, bool keep);

/* pager_reader.c */
int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);
int readers_start(struct pager *p, struct bmoe_error *err);
void readers_stop(struct pager *p);

/* pager_place.c; no lock, by the reader that owns r */
void place_evict(struct reader *r);
int place_group(struct reader *r, char *data);
void place_zeros(struct reader *r);
void slot_fini(struct slot *s);

/* pager_uffd.c */
int uffd_open(enum bmoe_place want, enum bmoe_place *got, int *errnum);
int uffd_register(int fd, void *addr, uint64_t bytes);
int uffd_copy(int fd, char *dst, const char *src, uint64_t bytes);
int uffd_zero(int fd, char *dst, uint64_t bytes);
/* On failure any of the pages may be on either side: Linux 6.18 reports fewer than it has moved
 * when one of them was being migrated (docs/pager.md). */
int uffd_move(int fd, char *dst, char *src, uint64_t bytes);
/* What a page costs by each way, its first use included; 0: not measured. Takes milliseconds. */
struct page_costs {
    double move_us, copy_us;
};
void uffd_trial(int fd, size_t page, bool can_move, struct page_costs *out);
void uffd_wake(int fd, char *addr, uint64_t bytes);

/* pager_fault.c */
int fault_start(struct pager *p, struct bmoe_error *err);
void fault_stop(struct pager *p);

/* pager_mapping.c */
uint64_t mapping_bounce_bytes(const struct pager *p);
bool mapping_answer(struct pager *p, char *addr); /* by the fault thread, no lock */

/* pager_pinned.c, locked */
bool pinned_step(struct pager *p, struct reader *r); /* reads a chunk; false: there is none */
int pinned_wait(struct pager *p, void (*progress)(void *, float), void *user,
                struct bmoe_error *err);

/* pager_replay.c, locked */
bool replay_step(struct pager *p, struct reader *r); /* false: nothing to replay */
/* r: the reader that read, or NULL. */
void trace_add(struct pager *p, const struct reader *r, const struct pager_file *f, uint64_t offset,
               uint64_t bytes);

/* Reads into r's bounce buffer, twice if need be; *data points at the first byte. Not locked. */
int reader_read(struct reader *r, struct pager_file *f, uint64_t offset, uint64_t bytes,
                char **data, struct bmoe_error *err);
void costs_report(struct pager *p, struct reader *r); /* locked */

#endif
