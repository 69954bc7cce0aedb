/*
 * Writes whole buffers, names the file in every error and leaves nothing behind on failure.
 */
#include "mk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const struct mk_file *file, int errnum, struct bmoe_error *error)
{
    return error_set_errno(error, BMOE_E_IO, BMOE_SCOPE_PROCESS, errnum, "Cannot write %s",
                           file->path);
}

int mk_file_open(struct mk_file *file, const char *path, int64_t bytes, struct bmoe_error *error)
{
    struct stat status;
    bool in_place = stat(path, &status) == 0 && !S_ISREG(status.st_mode);

    file->fd = -1;
    file->path = strdup(path);
    if (!file->path || (!in_place && asprintf(&file->part, "%s.part", path) < 0)) {
        file->part = NULL;
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for a file name.");
    }
    file->fd = open(in_place ? path : file->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        int errnum = errno;

        free(file->part); /* not ours to remove */
        file->part = NULL;
        return cannot_write(file, errnum, error);
    }
    /* Other failures only mean that the file system cannot promise the room. */
    if (file->part && fallocate(file->fd, 0, 0, bytes) < 0 && errno == ENOSPC)
        return cannot_write(file, ENOSPC, error);
    return 0;
}

int mk_file_write(struct mk_file *file, const void *data, size_t n, struct bmoe_error *error)
{
    const char *bytes = data;

    while (n > 0) {
        ssize_t written = write(file->fd, bytes, n);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return cannot_write(file, errno, error);
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

int mk_file_close(struct mk_file *file, struct bmoe_error *error)
{
    int fd = file->fd;

    file->fd = -1;
    return close(fd) < 0 ? cannot_write(file, errno, error) : 0;
}

int mk_file_publish(struct mk_file *file, struct bmoe_error *error)
{
    if (!file->part)
        return 0;
    if (rename(file->part, file->path) < 0)
        return cannot_write(file, errno, error);
    free(file->part);
    file->part = NULL;
    return 0;
}

void mk_file_fini(struct mk_file *file)
{
    if (file->path && file->fd >= 0)
        close(file->fd);
    if (file->part)
        unlink(file->part);
    free(file->part);
    free(file->path);
    memset(file, 0, sizeof *file);
    file->fd = -1;
}
