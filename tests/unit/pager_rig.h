/*
 * What the pager's tests share: a file whose every byte follows from its offset, a pager on it, and
 * threads that touch extents at random and check what they find. A check reads the store as compute
 * threads do: no locks, faults where something is absent.
 */
#ifndef BMOE_TESTS_PAGER_RIG_H
#define BMOE_TESTS_PAGER_RIG_H

#include "pager/pager.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka 1.1.5 wants these before it */
#include <setjmp.h>

#include <cmocka.h>

/* What the shim does to the reads of a rig; counts down or stays, see rig_pread. */
struct rig_shim {
    _Atomic int open_fails_direct; /* O_DIRECT opens answer EINVAL */
    _Atomic int einval_direct;     /* this many direct reads answer EINVAL */
    _Atomic int eio;               /* this many reads fail after eio_skip more */
    _Atomic int eio_skip;
    _Atomic int eintr;       /* every n-th read is interrupted; 0: none */
    _Atomic int shorten;     /* reads give this many bytes at most; 0: all */
    _Atomic int delay_us;    /* every read takes this long more */
    _Atomic long bad_offset; /* every read that covers this byte fails; 0: none */
    _Atomic unsigned n_reads;
};

struct rig {
    struct pager *pager;
    struct pager_config config;
    char path[256];
    uint64_t file_bytes;
    struct rig_shim shim;
    struct pager_io io;
    int file;
    unsigned n_matrices;
    struct rig_matrix {
        struct pager_matrix spec;
        struct pager_range range;
    } matrix[8];
    uint32_t n_extents;
    char log[4096]; /* everything said, a line each */
    _Atomic int log_lines;
};

/* The byte at an offset of a rig's file. */
static inline uint8_t rig_byte(uint64_t offset)
{
    return (uint8_t)((offset * 0x9E3779B97F4A7C15ull) >> 53);
}

/* A carry that is not a copy. */
void rig_xor(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes);

/* Makes the file in the working directory and fills config with what most tests want: 2 readers,
 * 4 touchers, 64 MiB reserved, budget 16 MiB. */
void rig_init(struct rig *r, uint64_t file_bytes);
/* Creates the pager with the file and the shim. */
void rig_create(struct rig *r);
/* Adds a matrix at file_offset. */
void rig_matrix(struct rig *r, uint64_t file_offset, uint64_t slice_bytes, uint32_t n_slices,
                pager_carry_fn *carry);
/* Three matrices of odd sizes and offsets: 65 824, 30 000 and 4 097 bytes a slice, 40 each. */
void rig_odd_matrices(struct rig *r, pager_carry_fn *carry);
/* Sets the budget to its floor and starts. */
void rig_start_at_floor(struct rig *r);
void rig_start(struct rig *r);
void rig_fini(struct rig *r);

/* Where an extent is, how long it is, and what its byte i has to be. */
const uint8_t *rig_extent(const struct rig *r, uint32_t e, uint64_t *bytes);
uint8_t rig_expected(const struct rig *r, uint32_t e, uint64_t i);
/* Reads the whole extent, or `probes` random bytes of it: the number of wrong ones. */
uint64_t rig_check_all(const struct rig *r, uint32_t e);
uint64_t rig_check_some(const struct rig *r, uint32_t e, unsigned probes, uint64_t *random);
uint64_t rig_random(uint64_t *state);

/* n_threads threads make `touches` touches each at random extents, each pinned first where the
 * pager has no userfaultfd. Answers the number of wrong bytes seen. */
uint64_t rig_touch(struct rig *r, unsigned n_threads, unsigned touches);

struct pager_counters rig_counters(const struct rig *r);

#endif
