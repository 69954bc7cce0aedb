/*
 * The weights' memory. A pager owns one anonymous NORESERVE reservation (the store), in which
 * every extent (one expert of one matrix, or one block of a large table) has its place for good;
 * what changes is whether its pages are there. Reader threads fill absent extents from files,
 * eviction by budget empties others, and with userfaultfd a touch of an absent extent sleeps until
 * the extent is there: so hints need no waiting, and a missing hint is slow, never wrong.
 *
 * It knows nothing of ggml or llama: files, offsets, bytes, and a carry function given in that
 * turns a slice's file bytes into the bytes the compute threads want (a copy when NULL).
 *
 * Life. create -> file_add -> matrix_add, pinned_add -> start -> requests -> destroy. matrix_add
 * and pinned_add are also allowed later (a tensor captured late).
 *
 * Extent states: absent -> queued -> reading -> resident -> (evicting) -> absent. Only the
 * functions of pager_state.c change a state. An extent with pins > 0 is never evicted.
 *
 * Threads. Every function below may be called from any thread after start unless it says otherwise;
 * create, start and destroy belong to one thread.
 *
 * Fork. The store and the staging memory are not inherited by a child (MADV_DONTFORK).
 */
#ifndef BMOE_PAGER_PAGER_H
#define BMOE_PAGER_PAGER_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pager;

/* Turns `bytes` file bytes at src into `bytes` bytes at dst (not overlapping). slice: which slice
 * of the matrix, or which chunk of the pinned range. Called by reader threads, several at once. */
typedef void pager_carry_fn(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes);

/* The system calls the pager makes on files, so that tests can make them slow, short or failing.
 * NULL members mean the real ones. */
struct pager_io {
    int (*open)(void *ctx, const char *path, int flags);
    ssize_t (*pread)(void *ctx, int fd, void *buf, size_t bytes, off_t offset);
    void *ctx;
};

struct pager_config {
    uint64_t reserve_bytes;    /* size of the store: sum of all padded extents and pinned ranges */
    uint64_t budget_bytes;     /* pages of paged extents and all staging memory together */
    size_t page_bytes;         /* 0: the system's; else a multiple of it (tests: 64 KiB) */
    unsigned n_readers;        /* 1..16 */
    unsigned n_touchers;       /* threads that touch extents at once: part of the floor */
    bool buffered;             /* no O_DIRECT; drops the page cache behind itself */
    enum bmoe_place place;     /* AUTO: of MOVE and COPY the faster, as measured; else NONE */
    const struct pager_io *io; /* NULL: the system's; copied */
    struct log log;
    /* Test hook: placing an extent leaves out its page number skip_page (counted over the run), so
     * that a test of the tests can see the loss; -1: none. */
    int64_t skip_page;
};

/* Fails with MISUSE or MEMORY. Nothing is read, no thread started. */
int pager_create(struct pager **out, const struct pager_config *config, struct bmoe_error *err);

/* Stops the threads, releases everything. NULL and half-built pagers are fine. No thread may touch
 * the store any more. */
void pager_destroy(struct pager *p);

/* Registers a file; answers its number (0, 1, ...) or a negative code. Opens it (O_DIRECT unless
 * buffered; a file system that refuses gets buffered reads, said once) and checks its size. */
int pager_file_add(struct pager *p, const char *path, struct bmoe_error *err);

/* A run of n_slices equal slices that follow each other in the file. */
struct pager_matrix {
    int file;
    uint64_t file_offset; /* of slice 0; any alignment */
    uint64_t slice_bytes;
    uint32_t n_slices;
    bool
        contiguous; /* slices follow each other in memory too (slice_bytes must be a multiple of the
                       page; the last may be shorter: total_bytes), else each begins on a page */
    uint64_t total_bytes;  /* contiguous: bytes of the whole run; else ignored */
    pager_carry_fn *carry; /* NULL: copy */
    void *carry_ctx;
};

struct pager_range {
    void *base;            /* in the store */
    size_t stride;         /* bytes from slice to slice */
    uint32_t first_extent; /* slice i is extent first_extent + i */
};

/* Gives the slices their places and extent numbers; reads nothing. */
int pager_matrix_add(struct pager *p, const struct pager_matrix *m, struct pager_range *out,
                     struct bmoe_error *err);

/* A range that is read once and stays: dense weights. Read by pager_start (or at once when already
 * started), in chunks of chunk_bytes, by all readers. Outside the budget. */
struct pager_pinned {
    int file;
    uint64_t file_offset, bytes;
    uint64_t chunk_bytes; /* 0: the pager's choice */
    pager_carry_fn *carry;
    void *carry_ctx;
};
int pager_pinned_add(struct pager *p, const struct pager_pinned *r, void **base,
                     struct bmoe_error *err);

/* The least budget that can make progress: with userfaultfd (n_touchers + n_readers) of the largest
 * extents and the staging of one reader; without it also the caller's largest set that one
 * operation needs, given as set_bytes (padded). Valid once the matrices are added. */
uint64_t pager_floor_bytes(const struct pager *p, enum bmoe_place place, uint64_t set_bytes);

/* A budget at which every extent stays once it is read: all of them, and all readers' staging. */
uint64_t pager_ample_bytes(const struct pager *p);

/* Checks that no page of the store is there (mincore), registers it with userfaultfd, starts the
 * readers and the fault thread, reads the pinned ranges. progress may be NULL. */
int pager_start(struct pager *p, void (*progress)(void *user, float part), void *user,
                struct bmoe_error *err);

/* Microseconds that placing one page takes by the mode in force, its first use included, as
 * measured at create with AUTO; 0: not measured. A tenth where the processor walks the page tables,
 * several where a hypervisor keeps shadows of them. */
double pager_page_us(const struct pager *p);

/* Goes over to mode NONE, whose frames cost nothing per page. Before the first matrix is added,
 * else MISUSE. */
int pager_place_frames(struct pager *p);

/* What is in force after start. */
enum bmoe_place pager_place(const struct pager *p);
bool pager_file_direct(const struct pager *p, int file);

/* A range that libllama believes to be a mapped file (see mapping.h for how it comes by it):
 * `bytes` of address space, no memory behind; a touch is answered from the file, by the pager (with
 * userfaultfd) or by the kernel's page cache (without). Allowed before start; NULL on failure. The
 * range becomes the caller's: libllama unmaps it, whole or by pieces, and nobody may touch it after
 * pager_destroy. */
void *pager_mapping_create(struct pager *p, int file, uint64_t bytes, struct bmoe_error *err);

/* Urgency of a hint. */
enum pager_class {
    PAGER_ROUTED = 0, /* the graph will use these next, in this order */
    PAGER_AHEAD = 1   /* a guess: read when nothing else is wanted; never evicts what a ROUTED hint
                         asked for   and the graph has not used yet */
};

/* Another graph begins: what was asked for in earlier ones counts a little less (retention). */
void pager_graph_begins(struct pager *p);

/* Queues the absent ones among n extents in the given order. Never waits. What an AHEAD hint names,
 * resident or not, is guessed: it goes last when room is made, until it is asked for or a ROUTED
 * hint with cancel_ahead gives the guesses up. A ROUTED hint counts as a use and protects its
 * extents from eviction by other hints until the graph has passed them: a fault on a later one of
 * the order, or pager_used, says so. When the budget cannot hold all of them, readers wait for
 * that. Hits and misses are counted here. A ROUTED hint cancels queued AHEAD reads, and gives up
 * guesses, not in it only if cancel_ahead. */
void pager_hint(struct pager *p, enum pager_class cls, const uint32_t *extents, size_t n,
                bool cancel_ahead);

/* The graph is done with these: protection ends. n == 0: with everything hinted so far. */
void pager_used(struct pager *p, const uint32_t *extents, size_t n);

/* Pins n extents and waits until all are resident (without userfaultfd: before each operation; for
 * a driver's own access: always). They are read at the front of the queue. Answers 0, or the error
 * of the failed read (then nothing is pinned). Fails with MEMORY at once when they cannot be in the
 * budget together. */
int pager_pin(struct pager *p, const uint32_t *extents, size_t n, struct bmoe_error *err);
/* Pins n extents without waiting, if all are resident and at most half of what may be pinned would
 * be: true then. */
bool pager_pin_resident(struct pager *p, const uint32_t *extents, size_t n);
void pager_unpin(struct pager *p, const uint32_t *extents, size_t n);

/* Where a pinned extent lies: at its range's base + frame * stride. In modes MOVE and COPY that is
 * the slice's own number, for good. In mode NONE memory stays mapped and slices come and go in it,
 * so that a read costs no page faults: the frame holds until the extent is unpinned, and several
 * matrices of one stride share a base. */
uint32_t pager_frame(const struct pager *p, uint32_t extent);

/* For filling other memory than the store. pager_direct_read reads `bytes` of a file, as readers
 * do, into a page-aligned buffer of the caller's of pager_direct_buffer_bytes(bytes); *data is
 * where the first byte landed. pager_lend pins an extent that is resident now and answers where it
 * lies (end it with pager_unpin), or NULL without waiting when it is not, or when too much is
 * pinned. */
uint64_t pager_direct_buffer_bytes(uint64_t bytes);
int pager_direct_read(struct pager *p, int file, uint64_t offset, uint64_t bytes, void *buffer,
                      const void **data, struct bmoe_error *err);
const void *pager_lend(struct pager *p, uint32_t extent);

/* Buffers for pager_direct_read, number i at base + i * step, in huge pages where there are some:
 * the disk then writes to memory that lies together. bytes is what they take, rounded up. False: no
 * memory. A forked child does not have them. */
struct pager_buffers {
    char *base;
    uint64_t step, bytes;
};
uint64_t pager_buffers_bytes(unsigned n, uint64_t each_bytes);
bool pager_buffers_init(struct pager_buffers *b, unsigned n, uint64_t each_bytes);
void pager_buffers_fini(struct pager_buffers *b);

/* True as soon as a read has failed for good; wait-free (an atomic flag): for abort callbacks. */
bool pager_failed(const struct pager *p);

/* After a failed or cancelled graph, when no thread touches the store: empties the queue, waits for
 * the reads in flight, makes every extent that holds zeros instead of data absent again, ends all
 * protection, and hands out and clears the error (its code, or 0 when there was none). */
int pager_recover(struct pager *p, struct bmoe_error *err);

/* Changes the budget; evicts down to it. Below the floor: MEMORY. */
int pager_budget_set(struct pager *p, uint64_t bytes, struct bmoe_error *err);

/* Makes every unpinned extent absent. For measurements. */
void pager_drop_all(struct pager *p);

/* Whether an extent's pages are there now (it may change at once unless pinned). */
bool pager_extent_resident(const struct pager *p, uint32_t extent);

/* The run's own reads, for replaying them raw. Off unless enabled. One record per read system call.
 */
struct pager_read_record {
    int file;
    uint64_t offset, bytes, latency_us;
    uint32_t reader;
    uint32_t cause; /* 0: none of the following; 1: a fault or a wait, 2: routed, 3: ahead */
    int64_t end_us; /* clock_now_us when it returned */
};
void pager_trace_reads(struct pager *p, bool on);
/* Takes what was recorded; the caller frees *out. */
size_t pager_trace_take(struct pager *p, struct pager_read_record **out);
/* Reads the records again with this pager's readers and bounce buffers, placing nothing:
 * microseconds, or a negative code. */
int64_t pager_replay(struct pager *p, const struct pager_read_record *records, size_t n,
                     struct bmoe_error *err);

/* Counters since start; see bmoe.h for those that are public. Microseconds and bytes. */
struct pager_counters {
    uint64_t bytes_useful, bytes_widened,
        reads; /* widened: read beyond the useful ones, for alignment */
    uint64_t hits, misses, evictions, rereads;
    uint64_t ahead_reads, ahead_used; /* extents read for a guess; and of them asked for later */
    uint64_t faults, fault_wait_us;   /* fault_wait: from the event until the pages were placed */
    uint64_t pin_wait_us, queue_wait_us, read_us, carry_us, place_us, evict_us;
    uint64_t retries, move_fallbacks, lost_pages, mapping_faults, failed_reads;
    uint64_t pinned_bytes, resident_bytes, resident_extents, staging_bytes, peak_budget_bytes;
};
void pager_counters_read(const struct pager *p, struct pager_counters *out);

#endif
