/*
 * The userfaultfd calls, each with the retries its contract asks for. MOVE right after a device has
 * written a page may answer EAGAIN or EBUSY for a moment: tried again with a yield, then left to
 * the caller. All answer 0 or errno; none needs a lock.
 */
#include "pager/pager_internal.h"
#include "pager/uffd_abi.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 16 };

/* A descriptor with the features wanted, or -1. */
static int open_with(uint64_t features, int *errnum)
{
    int flags = O_CLOEXEC | O_NONBLOCK;
    int fd = (int)syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
    if (fd < 0 && errno == EINVAL) /* before Linux 5.11 */
        fd = (int)syscall(SYS_userfaultfd, flags);
    if (fd < 0) {
        *errnum = errno;
        return -1;
    }
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    if (ioctl(fd, UFFDIO_API, &api) != 0) {
        *errnum = errno;
        close(fd);
        return -1;
    }
    return fd;
}

int uffd_open(enum bmoe_place want, enum bmoe_place *got, int *errnum)
{
    int fd = -1;
    if (want == BMOE_PLACE_AUTO || want == BMOE_PLACE_MOVE) {
        fd = open_with(UFFD_FEATURE_MOVE, errnum);
        *got = BMOE_PLACE_MOVE;
    }
    if (fd < 0 && (want == BMOE_PLACE_AUTO || want == BMOE_PLACE_COPY)) {
        fd = open_with(0, errnum);
        *got = BMOE_PLACE_COPY;
    }
    if (fd < 0)
        *got = BMOE_PLACE_NONE;
    return fd;
}

int uffd_register(int fd, void *addr, uint64_t bytes)
{
    struct uffdio_register reg = {.range = {.start = (uintptr_t)addr, .len = bytes},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl(fd, UFFDIO_REGISTER, &reg) == 0 ? 0 : errno;
}

void uffd_wake(int fd, char *addr, uint64_t bytes)
{
    struct uffdio_range range = {.start = (uintptr_t)addr, .len = bytes};
    ioctl(fd, UFFDIO_WAKE, &range);
}

/* One COPY or ZEROPAGE of [dst, dst + bytes): bytes done, or -errno. */
typedef int64_t fill_fn(int fd, char *dst, const char *src, uint64_t bytes);

static int64_t fill_copy(int fd, char *dst, const char *src, uint64_t bytes)
{
    struct uffdio_copy c = {.dst = (uintptr_t)dst, .src = (uintptr_t)src, .len = bytes};
    if (ioctl(fd, UFFDIO_COPY, &c) == 0)
        return (int64_t)bytes;
    return c.copy > 0 ? c.copy : -errno;
}

static int64_t fill_zero(int fd, char *dst, const char *src, uint64_t bytes)
{
    (void)src;
    struct uffdio_zeropage z = {.range = {.start = (uintptr_t)dst, .len = bytes}};
    if (ioctl(fd, UFFDIO_ZEROPAGE, &z) == 0)
        return (int64_t)bytes;
    return z.zeropage > 0 ? z.zeropage : -errno;
}

/* A page that is already there (EEXIST) has unknown contents: dropped and filled again. */
static int fill(fill_fn *fn, int fd, char *dst, const char *src, uint64_t bytes)
{
    int tries = 0;
    for (uint64_t at = 0; at < bytes;) {
        int64_t done = fn(fd, dst + at, src ? src + at : NULL, bytes - at);
        if (done > 0) {
            at += (uint64_t)done;
            tries = 0;
            continue;
        }
        if (++tries > TRIES || (done != -EAGAIN && done != -EEXIST))
            return (int)-done;
        if (done == -EEXIST)
            madvise(dst + at, (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED);
        else
            sched_yield();
    }
    return 0;
}

int uffd_copy(int fd, char *dst, const char *src, uint64_t bytes)
{
    return fill(fill_copy, fd, dst, src, bytes);
}

int uffd_zero(int fd, char *dst, uint64_t bytes)
{
    return fill(fill_zero, fd, dst, NULL, bytes);
}

int uffd_move(int fd, char *dst, char *src, uint64_t bytes)
{
    int tries = 0;
    for (uint64_t at = 0; at < bytes;) {
        struct uffdio_move m = {
            .dst = (uintptr_t)dst + at, .src = (uintptr_t)src + at, .len = bytes - at};
        if (ioctl(fd, UFFDIO_MOVE, &m) == 0)
            return 0;
        int errnum = errno;
        if (m.move > 0) {
            at += (uint64_t)m.move;
            tries = 0;
            continue;
        }
        if (++tries > TRIES || (errnum != EAGAIN && errnum != EBUSY))
            return errnum;
        sched_yield();
    }
    return 0;
}

/*
 * Where the processor walks the page tables itself, moving pages round is cheaper than making,
 * copying and freeing them. Where a hypervisor keeps shadow tables, each moved page costs a trap at
 * its next use (7 us a page against 0.1, seen under PVM), and copying into fresh ones wins, because
 * the readers' buffers then stay mapped. No feature bit tells, so both are tried.
 */
enum { TRIAL_PAGES = 64, TRIAL_ROUNDS = 4 };

struct trial {
    int fd;
    char *store, *slot, *bounce;
    uint64_t bytes;
};

/* The first touch of each page is part of what placing costs. */
static void trial_touch(const struct trial *t)
{
    volatile const char *at = t->store;
    for (uint64_t i = 0; i < t->bytes; i += t->bytes / TRIAL_PAGES)
        (void)at[i];
}

/* One extent out and one in, as MOVE does it and as COPY does it: microseconds. */
static int64_t trial_move(const struct trial *t)
{
    int64_t start = clock_now_us();
    if (uffd_move(t->fd, t->slot, t->store, t->bytes) != 0)
        return INT64_MAX;
    memcpy(t->slot, t->bounce, t->bytes);
    if (uffd_move(t->fd, t->store, t->slot, t->bytes) != 0)
        return INT64_MAX;
    trial_touch(t);
    return clock_now_us() - start;
}

static int64_t trial_copy(const struct trial *t)
{
    int64_t start = clock_now_us();
    madvise(t->store, t->bytes, MADV_DONTNEED);
    if (uffd_copy(t->fd, t->store, t->bounce, t->bytes) != 0)
        return INT64_MAX;
    trial_touch(t);
    return clock_now_us() - start;
}

static void trial_run(const struct trial *t, bool can_move, struct page_costs *out)
{
    int64_t move = INT64_MAX, copy = INT64_MAX;
    if (uffd_register(t->fd, t->store, 2 * t->bytes) != 0 || trial_copy(t) == INT64_MAX)
        return;
    for (int i = 0; i < TRIAL_ROUNDS; i++) {
        int64_t us = trial_copy(t);
        copy = us < copy ? us : copy;
        us = can_move ? trial_move(t) : INT64_MAX;
        move = us < move ? us : move;
    }
    out->copy_us = (double)copy / TRIAL_PAGES;
    if (move != INT64_MAX)
        out->move_us = (double)move / TRIAL_PAGES;
}

void uffd_trial(int fd, size_t page, bool can_move, struct page_costs *out)
{
    uint64_t bytes = TRIAL_PAGES * (uint64_t)page;
    *out = (struct page_costs){0};
    char *at = memory_reserve(3 * bytes, PROT_READ | PROT_WRITE);
    if (!at)
        return;
    struct trial t = {fd, at, at + bytes, at + 2 * bytes, bytes};
    memset(t.bounce, 1, bytes);
    trial_run(&t, can_move, out);
    munmap(at, 3 * bytes);
}
