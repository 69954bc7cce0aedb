/*
 * What the pager costs on this machine: for each way of placing, MB/s through the pager against the
 * same reads replayed raw, and CPU seconds per GB in all and in each step. Three loads: hints only
 * (nothing touches), one thread that touches behind hints, and one that only faults.
 *
 *   pager_bench FILE [READ_MB] [EXTENT_KB] [BUDGET_MB] [READERS]
 *
 * FILE is made (4 GiB of noise) when it is not there. Not a test: it asserts nothing.
 */
#include "base/clock.h"
#include "pager/pager.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BATCH = 24, WINDOW = 3 };

struct bench {
    const char *path;
    uint64_t read_bytes, extent_bytes, budget_bytes, file_bytes;
    unsigned readers;
    struct pager *pager;
    struct pager_range range;
    uint32_t n_extents;
    uint64_t random;
};

struct mark {
    int64_t us, cpu_us;
    struct pager_counters c;
};

static void die(const char *what, const struct bmoe_error *err)
{
    fprintf(stderr, "pager_bench: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(1);
}

static int64_t cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000ll + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

static void make_file(const char *path, uint64_t bytes)
{
    static uint64_t block[1 << 17];
    uint64_t x = 88172645463325252ull;
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (fd < 0)
        die("cannot make the file", NULL);
    for (uint64_t at = 0; at < bytes; at += sizeof block) {
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            block[i] = x;
        }
        if (write(fd, block, sizeof block) != sizeof block)
            die("cannot write the file", NULL);
    }
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void bench_open(struct bench *b, enum bmoe_place place, pager_carry_fn *carry)
{
    struct bmoe_error err = {0};
    struct pager_config c = {.reserve_bytes = b->file_bytes + (64 << 20),
                             .budget_bytes = b->budget_bytes,
                             .n_readers = b->readers,
                             .n_touchers = 2,
                             .place = place,
                             .skip_page = -1};
    if (pager_create(&b->pager, &c, &err) || pager_file_add(b->pager, b->path, &err) < 0)
        die("create", &err);
    b->n_extents = (uint32_t)(b->file_bytes / b->extent_bytes);
    struct pager_matrix m = {
        .slice_bytes = b->extent_bytes, .n_slices = b->n_extents, .carry = carry};
    if (pager_matrix_add(b->pager, &m, &b->range, &err) || pager_start(b->pager, NULL, NULL, &err))
        die("start", &err);
    b->random = 99;
}

static uint32_t next_extent(struct bench *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return (uint32_t)(b->random % b->n_extents);
}

static struct mark mark_now(const struct bench *b)
{
    struct mark m = {.us = clock_now_us(), .cpu_us = cpu_us()};
    pager_counters_read(b->pager, &m.c);
    return m;
}

static void report(const struct bench *b, const char *what, const struct mark *from)
{
    struct mark to = mark_now(b);
    double gb = (double)(to.c.bytes_useful - from->c.bytes_useful) / 1e9, s = 1e-6 / gb;
    printf("  %-22s %6.0f MB/s  cpu %.3f s/GB (wall of carry %.3f place %.3f evict %.3f read %.3f)"
           "  faults %llu wait %.0f us, fallbacks %llu\n",
           what, 1000 * gb / (1e-6 * (double)(to.us - from->us)),
           (double)(to.cpu_us - from->cpu_us) * s, (double)(to.c.carry_us - from->c.carry_us) * s,
           (double)(to.c.place_us - from->c.place_us) * s,
           (double)(to.c.evict_us - from->c.evict_us) * s,
           (double)(to.c.read_us - from->c.read_us) * s,
           (unsigned long long)(to.c.faults - from->c.faults),
           to.c.faults > from->c.faults ? (double)(to.c.fault_wait_us - from->c.fault_wait_us) /
                                              (double)(to.c.faults - from->c.faults)
                                        : 0.0,
           (unsigned long long)(to.c.move_fallbacks - from->c.move_fallbacks));
}

static uint64_t useful(const struct bench *b)
{
    struct pager_counters c;
    pager_counters_read(b->pager, &c);
    return c.bytes_useful;
}

/* Batches of hints, WINDOW of them ahead of what is there. */
static void hints_only(struct bench *b, uint64_t bytes)
{
    uint32_t batch[WINDOW][BATCH];
    uint64_t until = useful(b) + bytes;
    for (unsigned k = 0; useful(b) < until; k++) {
        uint32_t *now = batch[k % WINDOW];
        if (k >= WINDOW) {
            for (int i = 0; i < BATCH; i++)
                while (!pager_extent_resident(b->pager, now[i]))
                    usleep(100);
            pager_used(b->pager, now, BATCH);
        }
        for (int i = 0; i < BATCH; i++)
            now[i] = next_extent(b);
        pager_hint(b->pager, PAGER_ROUTED, now, BATCH, false);
    }
}

static void touch(const struct bench *b, uint32_t e)
{
    const volatile char *at = (const char *)b->range.base + e * b->range.stride;
    for (uint64_t i = 0; i < b->extent_bytes; i += 4096)
        (void)at[i];
}

/* Touches the hinted extents one batch behind, as a graph would. */
static void hints_and_touches(struct bench *b, uint64_t bytes)
{
    uint32_t batch[2][BATCH];
    uint64_t until = useful(b) + bytes;
    for (unsigned k = 0; useful(b) < until; k++) {
        for (int i = 0; i < BATCH; i++)
            batch[k % 2][i] = next_extent(b);
        pager_hint(b->pager, PAGER_ROUTED, batch[k % 2], BATCH, false);
        for (int i = 0; k && i < BATCH; i++)
            touch(b, batch[(k + 1) % 2][i]);
    }
}

static void touches_only(struct bench *b, uint64_t bytes)
{
    uint64_t until = useful(b) + bytes;
    while (useful(b) < until)
        touch(b, next_extent(b));
}

static void raw(struct bench *b)
{
    struct pager_read_record *records;
    struct bmoe_error err = {0};
    size_t n = pager_trace_take(b->pager, &records);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += records[i].bytes;
    int64_t cpu = cpu_us(), us = pager_replay(b->pager, records, n, &err);
    if (us < 0)
        die("replay", &err);
    printf("  %-22s %6.0f MB/s  cpu %.3f s/GB, %zu reads\n", "raw replay",
           (double)bytes / (double)us, (double)(cpu_us() - cpu) * 1e3 / (double)bytes, n);
    free(records);
}

static void xor_carry(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes)
{
    (void)ctx;
    (void)slice;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)dst)[i] = ((const uint8_t *)src)[i] ^ 0x5a;
}

static void bench_place(struct bench *b, enum bmoe_place place, const char *name,
                        pager_carry_fn *carry)
{
    printf("%s\n", name);
    bench_open(b, place, carry);
    hints_only(b, b->budget_bytes + b->budget_bytes / 4); /* until every read evicts */
    pager_trace_reads(b->pager, true);
    struct mark m = mark_now(b);
    hints_only(b, b->read_bytes);
    report(b, "hints only", &m);
    pager_trace_reads(b->pager, false);
    raw(b);
    if (place != BMOE_PLACE_NONE) {
        m = mark_now(b);
        hints_and_touches(b, b->read_bytes);
        report(b, "hints and touches", &m);
        m = mark_now(b);
        touches_only(b, b->read_bytes / 4);
        report(b, "touches only", &m);
    }
    pager_destroy(b->pager);
}

static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
    return i < argc ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: pager_bench FILE [READ_MB] [EXTENT_KB] [BUDGET_MB] [READERS]\n");
        return 2;
    }
    struct bench b = {.path = argv[1],
                      .read_bytes = number(argc, argv, 2, 4096) << 20,
                      .extent_bytes = number(argc, argv, 3, 864) << 10,
                      .budget_bytes = number(argc, argv, 4, 700) << 20,
                      .readers = (unsigned)number(argc, argv, 5, 4),
                      .file_bytes = 4ull << 30};
    if (access(b.path, R_OK) != 0)
        make_file(b.path, b.file_bytes);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_place(&b, BMOE_PLACE_MOVE, "move, copied", NULL);
    bench_place(&b, BMOE_PLACE_MOVE, "move, carried", xor_carry);
    bench_place(&b, BMOE_PLACE_COPY, "copy", NULL);
    bench_place(&b, BMOE_PLACE_NONE, "none", NULL);
    return 0;
}
