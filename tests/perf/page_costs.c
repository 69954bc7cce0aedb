/*
 * What pages cost on this machine, per MiB, the least of 200 rounds: placing, evicting, and the
 * first use of a page that has just been mapped. The last is what tells a processor that walks the
 * page tables itself (a few us per MiB) from a hypervisor with shadow tables (a millisecond), and
 * with it whether moving or copying pages is the faster way; the pager finds out by itself at
 * create.
 */
#include "base/clock.h"
#include "pager/pager_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { BYTES = 256 << 10, ROUNDS = 200 };

enum cost {
    COPY,
    USE_AFTER_COPY,
    MOVE_OUT,
    WRITE_AFTER_MOVE,
    WRITE_AGAIN,
    MOVE_IN,
    USE_AFTER_MOVE,
    DROP,
    POPULATE,
    WRITE_AFTER_POPULATE,
    N_COSTS
};

static const char *const names[] = {"UFFDIO_COPY into absent pages", "first use after COPY",
                                    "UFFDIO_MOVE store to slot",     "memcpy into moved pages",
                                    "memcpy into them again",        "UFFDIO_MOVE slot to store",
                                    "first use after MOVE",          "MADV_DONTNEED",
                                    "MADV_POPULATE_WRITE",           "memcpy into populated pages"};

static int64_t best[N_COSTS];

static void note(enum cost c, int64_t since)
{
    int64_t us = clock_now_us() - since;
    if (best[c] == 0 || us < best[c])
        best[c] = us;
}

static void use(const char *at)
{
    const volatile char *v = at;
    for (int i = 0; i < BYTES; i += 4096)
        (void)v[i];
}

/* One round; false when a call is refused. */
static bool round_run(int fd, char *store, char *slot, const char *bounce)
{
    int64_t t = clock_now_us();
    if (uffd_copy(fd, store, bounce, BYTES) != 0)
        return false;
    note(COPY, t), t = clock_now_us(), use(store), note(USE_AFTER_COPY, t), t = clock_now_us();
    if (uffd_move(fd, slot, store, BYTES) != 0)
        return false;
    note(MOVE_OUT, t), t = clock_now_us(), memcpy(slot, bounce, BYTES), note(WRITE_AFTER_MOVE, t);
    t = clock_now_us(), memcpy(slot, bounce, BYTES), note(WRITE_AGAIN, t), t = clock_now_us();
    if (uffd_move(fd, store, slot, BYTES) != 0)
        return false;
    note(MOVE_IN, t), t = clock_now_us(), use(store), note(USE_AFTER_MOVE, t), t = clock_now_us();
    madvise(store, BYTES, MADV_DONTNEED);
    note(DROP, t);
    return true;
}

static void populate_run(const char *bounce)
{
    char *plain = memory_reserve(BYTES, PROT_READ | PROT_WRITE);
    if (!plain)
        return;
    int64_t t = clock_now_us();
    madvise(plain, BYTES, MADV_POPULATE_WRITE);
    note(POPULATE, t), t = clock_now_us(), memcpy(plain, bounce, BYTES);
    note(WRITE_AFTER_POPULATE, t);
    munmap(plain, BYTES);
}

int main(void)
{
    enum bmoe_place got;
    int errnum = 0, fd = uffd_open(BMOE_PLACE_MOVE, &got, &errnum);
    char *at = memory_reserve(3ull * BYTES, PROT_READ | PROT_WRITE);
    if (fd < 0 || !at || uffd_register(fd, at, 2ull * BYTES) != 0) {
        printf("no UFFDIO_MOVE here\n");
        return 77;
    }
    memset(at + 2ull * BYTES, 1, BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        if (!round_run(fd, at, at + BYTES, at + 2ull * BYTES))
            return 1;
        populate_run(at + 2ull * BYTES);
    }
    for (int i = 0; i < N_COSTS; i++)
        printf("%-32s %8.1f us/MiB\n", names[i], (double)best[i] * (1 << 20) / BYTES);
    struct page_costs cost;
    uffd_trial(fd, (size_t)sysconf(_SC_PAGESIZE), true, &cost);
    printf("a page, as the pager measures it: %.2f us by move, %.2f by copy\n", cost.move_us,
           cost.copy_us);
    close(fd);
    return 0;
}
