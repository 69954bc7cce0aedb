/*
 * Opening and reading files. Direct reads are widened to the file system's blocks, so *data lies
 * somewhere in the first block of the buffer. A file system that refuses direct reads, at open or
 * at any read (EINVAL, EFAULT), gets buffered ones from then on, with POSIX_FADV_RANDOM so that
 * nothing is read ahead and POSIX_FADV_DONTNEED behind each read, and one line says so.
 *
 * A first block is read at open: that is what proves the mode which is reported.
 */
#include "pager/pager_file.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096, NO_PROGRESS_MAX = 8 };

static int real_open(void *ctx, const char *path, int flags)
{
    (void)ctx;
    return open(path, flags);
}

static ssize_t real_pread(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    (void)ctx;
    return pread(fd, buf, bytes, offset);
}

static int io_open(const struct pager_file *f, int flags)
{
    int (*fn)(void *, const char *, int) = f->io->open ? f->io->open : real_open;
    return fn(f->io->ctx, f->path, flags);
}

static ssize_t io_pread(const struct pager_file *f, int fd, void *buf, size_t bytes, uint64_t off)
{
    ssize_t (*fn)(void *, int, void *, size_t, off_t) = f->io->pread ? f->io->pread : real_pread;
    ssize_t got;
    do
        got = fn(f->io->ctx, fd, buf, bytes, (off_t)off);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Block size of direct reads of an open file; 0 when its file system says it has none. */
static uint32_t direct_align(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx sx;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 && (sx.stx_mask & STATX_DIOALIGN)) {
        uint32_t align = sx.stx_dio_offset_align;
        if (align == 0 || sx.stx_dio_mem_align > BLOCK_BYTES)
            return 0;
        if (align <= BLOCK_BYTES && (align & (align - 1)) == 0)
            return align;
    }
#endif
    return BLOCK_BYTES;
}

static int file_stat(struct pager_file *f, int fd, struct bmoe_error *err)
{
    if (fstat(fd, &f->opened) != 0)
        return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errno, "cannot stat %s",
                               f->path);
    if (!S_ISREG(f->opened.st_mode) && !S_ISBLK(f->opened.st_mode))
        return error_set(err, BMOE_E_IO, BMOE_SCOPE_SESSION, "%s is not a regular file", f->path);
    f->size = (uint64_t)f->opened.st_size;
    return 0;
}

/* Goes over to buffered reads; the first caller says so. Answers 0 or errno. */
static int file_go_buffered(struct pager_file *f, const char *why)
{
    int rc = 0;
    pthread_mutex_lock(&f->fallback);
    if (atomic_load_explicit(&f->fd_buffered, memory_order_relaxed) < 0) {
        int fd = io_open(f, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            rc = errno ? errno : EIO;
        } else {
            posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
            atomic_store_explicit(&f->fd_buffered, fd, memory_order_release);
            if (why)
                log_line(f->log, BMOE_LOG_WARN,
                         "%s refuses direct reads (%s): reading it through the page cache, dropped "
                         "behind",
                         f->path, why);
        }
    }
    if (rc == 0)
        atomic_store_explicit(&f->direct, false, memory_order_release);
    pthread_mutex_unlock(&f->fallback);
    return rc;
}

/* Tries one direct block, the proof of the mode. */
static void file_prove(struct pager_file *f)
{
    if (f->size == 0 || !atomic_load(&f->direct))
        return;
    char *block =
        mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return;
    ssize_t got = io_pread(f, f->fd_direct, block, BLOCK_BYTES, 0);
    int errnum = errno;
    munmap(block, BLOCK_BYTES);
    if (got < 0 && (errnum == EINVAL || errnum == EFAULT || errnum == EOPNOTSUPP))
        file_go_buffered(f, strerror(errnum));
}

static int file_open_fds(struct pager_file *f, bool buffered, struct bmoe_error *err)
{
    const char *why = NULL;
    if (!buffered) {
        f->fd_direct = io_open(f, O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (f->fd_direct < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
            why = "at open";
        else if (f->fd_direct < 0)
            return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errno, "cannot open %s",
                                   f->path);
        else if ((f->align = direct_align(f->fd_direct)) == 0)
            why = "the file system has none";
        else
            atomic_store(&f->direct, true);
    }
    if (!atomic_load(&f->direct)) {
        int rc = file_go_buffered(f, why);
        if (rc)
            return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, rc, "cannot open %s",
                                   f->path);
    }
    int fd = f->fd_direct >= 0 ? f->fd_direct : atomic_load(&f->fd_buffered);
    return file_stat(f, fd, err);
}

int file_open(struct pager_file **out, int number, const char *path, bool buffered,
              const struct pager_io *io, const struct log *log, struct bmoe_error *err)
{
    struct pager_file *f = calloc(1, sizeof *f);
    if (!f)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
    f->number = number;
    f->fd_direct = -1;
    atomic_init(&f->fd_buffered, -1);
    atomic_init(&f->direct, false);
    f->align = BLOCK_BYTES;
    f->io = io;
    f->log = log;
    pthread_mutex_init(&f->fallback, NULL);
    f->path = strdup(path);
    int rc = f->path ? file_open_fds(f, buffered, err)
                     : error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
    if (rc) {
        file_close(f);
        return rc;
    }
    file_prove(f);
    *out = f;
    return 0;
}

void file_close(struct pager_file *f)
{
    if (!f)
        return;
    int fd = atomic_load(&f->fd_buffered);
    if (fd >= 0)
        close(fd);
    if (f->fd_direct >= 0)
        close(f->fd_direct);
    pthread_mutex_destroy(&f->fallback);
    free(f->path);
    free(f);
}

uint64_t file_buffer_bytes(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES + 2 * BLOCK_BYTES;
}

/* The sentence for a read that gave `errnum`, or 0 at an end of file that came too early. */
static int read_error(const struct pager_file *f, int fd, uint64_t offset, uint64_t bytes,
                      int errnum, struct bmoe_error *err)
{
    struct stat now, named;
    if (errnum)
        return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_REQUEST, errnum,
                               "reading %llu bytes at %llu of %s failed", (unsigned long long)bytes,
                               (unsigned long long)offset, f->path);
    if (fstat(fd, &now) == 0 && (uint64_t)now.st_size != f->size)
        return error_set(err, BMOE_E_IO, BMOE_SCOPE_REQUEST,
                         "%s changed while in use: it had %llu bytes when opened and has %llu now",
                         f->path, (unsigned long long)f->size, (unsigned long long)now.st_size);
    if (stat(f->path, &named) == 0 &&
        (named.st_ino != f->opened.st_ino || named.st_dev != f->opened.st_dev))
        return error_set(err, BMOE_E_IO, BMOE_SCOPE_REQUEST, "%s was replaced while in use",
                         f->path);
    return error_set(err, BMOE_E_IO, BMOE_SCOPE_REQUEST,
                     "%s ends at %llu, before the %llu bytes at %llu that should be read", f->path,
                     (unsigned long long)f->size, (unsigned long long)bytes,
                     (unsigned long long)offset);
}

static bool refuses_direct(int errnum)
{
    return errnum == EINVAL || errnum == EFAULT || errnum == EOPNOTSUPP;
}

struct span {
    uint64_t start, end; /* of the file, what is read */
    uint64_t need;       /* bytes from start that must come */
};

/* Reads s into buffer from fd; offsets stay multiples of align. Answers 0, errno, or -1 at an early
 * end of file. */
static int span_read(struct pager_file *f, int fd, const struct span *s, uint32_t align,
                     char *buffer, file_read_fn *note, void *note_ctx)
{
    uint64_t have = 0;
    int stuck = 0;
    while (have < s->need) {
        uint64_t want = s->end - s->start - have;
        ssize_t got = io_pread(f, fd, buffer + have, want, s->start + have);
        if (got < 0)
            return errno ? errno : EIO;
        if (got == 0)
            return -1;
        if (note)
            note(note_ctx, f, s->start + have, (uint64_t)got);
        if (have + (uint64_t)got >= s->need)
            return 0;
        uint64_t step = (uint64_t)got / align * align;
        if (step == 0 && ++stuck == NO_PROGRESS_MAX)
            return align > 1 ? EINVAL : -1;
        have += step;
    }
    return 0;
}

static int read_direct(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer,
                       char **data, file_read_fn *note, void *note_ctx)
{
    uint64_t a = f->align, start = offset / a * a;
    struct span s = {start, (offset + bytes + a - 1) / a * a, offset + bytes - start};
    *data = buffer + (offset - start);
    return span_read(f, f->fd_direct, &s, f->align, buffer, note, note_ctx);
}

static int read_buffered(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer,
                         char **data, file_read_fn *note, void *note_ctx)
{
    int fd = atomic_load_explicit(&f->fd_buffered, memory_order_acquire);
    struct span s = {offset, offset + bytes, bytes};
    *data = buffer;
    int rc = span_read(f, fd, &s, 1, buffer, note, note_ctx);
    uint64_t start = offset / BLOCK_BYTES * BLOCK_BYTES;
    uint64_t end = (offset + bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    posix_fadvise(fd, (off_t)start, (off_t)(end - start), POSIX_FADV_DONTNEED);
    return rc;
}

/* Whether somebody wrote to the file since it was opened: then what was read before and what is
 * read now need not belong together, and neither is an answer made of both. */
static bool was_written(const struct pager_file *f, int fd)
{
    struct stat now;
    if (!S_ISREG(f->opened.st_mode) || fstat(fd, &now) != 0)
        return false;
    return now.st_mtim.tv_sec != f->opened.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != f->opened.st_mtim.tv_nsec;
}

int file_read(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer, char **data,
              file_read_fn *note, void *note_ctx, struct bmoe_error *err)
{
    bool direct = atomic_load_explicit(&f->direct, memory_order_acquire);
    int rc = 0;
    if (direct) {
        rc = read_direct(f, offset, bytes, buffer, data, note, note_ctx);
        if (rc > 0 && refuses_direct(rc) && file_go_buffered(f, strerror(rc)) == 0)
            direct = false;
    }
    if (!direct)
        rc = read_buffered(f, offset, bytes, buffer, data, note, note_ctx);
    int fd = direct ? f->fd_direct : atomic_load(&f->fd_buffered);
    if (rc == 0 && was_written(f, fd))
        return error_set(err, BMOE_E_IO, BMOE_SCOPE_REQUEST,
                         "%s was written to while in use; open the model again", f->path);
    if (rc == 0)
        return 0;
    return read_error(f, fd, offset, bytes, rc > 0 ? rc : 0, err);
}

int file_read_raw(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer)
{
    bool direct = atomic_load_explicit(&f->direct, memory_order_acquire);
    int fd = direct ? f->fd_direct : atomic_load_explicit(&f->fd_buffered, memory_order_acquire);
    /* The last read of a file came back shorter than it was asked for. */
    uint64_t asked = direct ? (bytes + f->align - 1) / f->align * f->align : bytes;
    ssize_t got = io_pread(f, fd, buffer, asked, offset);
    int errnum = got < 0 ? errno : 0;
    if (!direct)
        posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    return errnum;
}
