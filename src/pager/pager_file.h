/*
 * A file the pager reads: opened for direct reads where the file system has them, else (or from the
 * first refusal on) buffered with the page cache dropped behind each read. Says which, once.
 * Reading is safe from any thread; the rest belongs to the pager's life.
 */
#ifndef BMOE_PAGER_PAGER_FILE_H
#define BMOE_PAGER_PAGER_FILE_H

#include "pager/pager.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct pager_file {
    int number;
    char *path;
    int fd_direct;          /* -1: none */
    atomic_int fd_buffered; /* -1: not open; release when opened, acquire when used */
    atomic_bool direct;     /* reads go to fd_direct; cleared (release) after fd_buffered is set */
    uint32_t align;         /* of offsets and lengths of direct reads */
    uint64_t size;          /* at open */
    struct stat opened;     /* at open */
    pthread_mutex_t fallback;  /* held while going over to buffered reads */
    const struct pager_io *io; /* borrowed */
    const struct log *log;     /* borrowed */
};

/* One pread that was made, for traces and counters. */
typedef void file_read_fn(void *ctx, const struct pager_file *f, uint64_t offset, uint64_t bytes);

int file_open(struct pager_file **out, int number, const char *path, bool buffered,
              const struct pager_io *io, const struct log *log, struct bmoe_error *err);
void file_close(struct pager_file *f);

/* How many bytes of buffer a read of `bytes` may need, at any offset. */
uint64_t file_buffer_bytes(uint64_t bytes);

/* Reads [offset, offset + bytes) into buffer (page aligned, file_buffer_bytes(bytes) large); *data
 * is where the first byte landed. Continues short reads, repeats interrupted ones. note is called
 * after every pread that gave bytes. Fails with IO, also when the file was written to since it was
 * opened. */
int file_read(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer, char **data,
              file_read_fn *note, void *note_ctx, struct bmoe_error *err);

/* The same bytes by the same kind of call, without alignment of its own: for replays. 0 or errno.
 */
int file_read_raw(struct pager_file *f, uint64_t offset, uint64_t bytes, char *buffer);

#endif
