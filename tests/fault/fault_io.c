/* The real calls with a fault in front. */
#include "fault_io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int fault_open(void *ctx, const char *path, int flags)
{
    struct fault_io *f = ctx;
    if (f->no_direct && (flags & O_DIRECT)) {
        atomic_fetch_add(&f->n_faults, 1);
        errno = EINVAL;
        return -1;
    }
    return open(path, flags);
}

static ssize_t refuse(struct fault_io *f, int errnum)
{
    atomic_fetch_add(&f->n_faults, 1);
    errno = errnum;
    return -1;
}

static ssize_t fault_pread(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    enum { SECTOR = 4096 };
    struct fault_io *f = ctx;
    static _Thread_local unsigned own_calls;
    unsigned call = atomic_fetch_add(&f->n_calls, 1);
    switch (atomic_load(&f->kind)) {
    case FAULT_EIO:
        return refuse(f, EIO);
    case FAULT_EIO_ONCE:
        /* Counted by thread: the retry is the thread's next read, whatever others do meanwhile. */
        if (own_calls++ % 7 == 0)
            return refuse(f, EIO);
        break;
    case FAULT_SHORT:
        if (bytes >= 2 * SECTOR) {
            atomic_fetch_add(&f->n_faults, 1);
            bytes = bytes / 2 / SECTOR * SECTOR;
        }
        break;
    case FAULT_INTERRUPTED:
        if (call % 2 == 0)
            return refuse(f, EINTR);
        break;
    case FAULT_SLOW:
        atomic_fetch_add(&f->n_faults, 1);
        usleep(3000);
        break;
    default:
        break;
    }
    return pread(fd, buf, bytes, offset);
}

void fault_io_init(struct fault_io *f)
{
    *f = (struct fault_io){.io = {.open = fault_open, .pread = fault_pread, .ctx = f}};
}
