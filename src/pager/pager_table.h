/*
 * The pager's bookkeeping per extent, the intrusive lists it is linked into and the order of what
 * the graph has announced. Pure data structures: no threads, no system calls, so that policies and
 * lists can be tested and replayed alone.
 *
 * An extent is in one list at most (a queue while QUEUED, the policy's while evictable), so one
 * pair of links serves. 56 bytes an extent here, 8 in the order ring, 4 in the policy's heap.
 */
#ifndef BMOE_PAGER_PAGER_TABLE_H
#define BMOE_PAGER_PAGER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define EXTENT_NONE UINT32_MAX

enum extent_state {
    EXTENT_ABSENT,
    EXTENT_QUEUED,
    EXTENT_READING,
    EXTENT_RESIDENT,
    EXTENT_EVICTING
};

/* Most urgent first. DEMAND: a thread sleeps on it, in a fault or in pager_pin. */
enum queue_class { QUEUE_DEMAND, QUEUE_ROUTED, QUEUE_AHEAD, N_QUEUES };

enum extent_flag {
    EXTENT_READ_ONCE = 1, /* was read before: the next read is a re-read */
    EXTENT_FAULTED = 2,   /* a thread sleeps on it since fault_us */
    EXTENT_ZEROED = 4,    /* its read failed: holds zeros, not data */
    EXTENT_GUESSED = 8,   /* an AHEAD hint named it, and it was not asked for or given up since */
    EXTENT_IN_POLICY = 16,
    EXTENT_IN_GUARD = 32,
    EXTENT_IN_HEAP = 64,    /* of the policy */
    EXTENT_READ_AHEAD = 128 /* was read for a guess and not asked for since */
};

struct extent {
    uint64_t order; /* place among what ROUTED hints announced and is not used yet; 0: none */
    double score;   /* the policy's: how often it was asked for, lately */
    uint32_t prev, next;
    uint32_t matrix;
    uint32_t frame; /* in mode NONE, while counted: which frame of the matrix's pool */
    uint32_t queued_us, fault_us; /* low 32 bits of the clock */
    uint16_t pins;
    uint8_t state; /* enum extent_state, set by extent_become only */
    uint8_t queue; /* enum queue_class while QUEUED */
    uint8_t flags; /* enum extent_flag */
};

struct extent_table {
    struct extent *at;
    uint32_t n, cap;
};

struct list {
    uint32_t head, tail, n;
};

void list_init(struct list *l);
void list_push_tail(struct extent_table *t, struct list *l, uint32_t e);
void list_push_head(struct extent_table *t, struct list *l, uint32_t e);
void list_remove(struct extent_table *t, struct list *l, uint32_t e);

/* Adds n zeroed extents of a matrix; false when out of memory or of numbers. */
bool extent_table_grow(struct extent_table *t, uint32_t n, uint32_t matrix);

/* Which extent has which order number: at[number % cap]. An entry is valid while the extent's own
 * `order` says the same number. passed .. next - 1 may be valid. Numbers begin with 1. */
struct order_ring {
    uint32_t *at;
    uint64_t cap, next, passed;
};

/* Makes room for at least n numbers, keeping the valid ones. */
bool order_ring_reserve(struct order_ring *r, uint64_t n);

#endif
