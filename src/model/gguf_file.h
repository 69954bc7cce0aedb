/*
 * One open GGUF file read from its front: a small buffer, a position, and the one place where a
 * refusal's sentence is made. Every read is checked against the file's real size, so that a count
 * or a length in the file can at worst make the reader stop.
 *
 * Calls answer 0 or the code they put into *err.
 */
#ifndef BMOE_MODEL_GGUF_FILE_H
#define BMOE_MODEL_GGUF_FILE_H

#include "bmoe.h"

#include <sys/types.h>

struct strings;

struct gguf_file {
    int fd;           /* -1: closed */
    const char *path; /* borrowed */
    uint64_t bytes;   /* size of the file */
    uint64_t at;      /* next byte; at <= bytes */
    dev_t dev;
    ino_t ino;
    unsigned char *buffer; /* owned; holds [buffer_at, buffer_at + buffer_bytes) of the file */
    uint64_t buffer_at;
    size_t buffer_bytes;
};

/* Opens a regular file that holds at least one byte. IO when it cannot be read, MODEL when it is
 * not a file that could be a model. */
int gguf_file_open(struct gguf_file *f, const char *path, struct bmoe_error *err);
/* A closed or zeroed-with-fd -1 file is fine. */
void gguf_file_close(struct gguf_file *f);

int gguf_file_read(struct gguf_file *f, void *out, size_t bytes, struct bmoe_error *err);
int gguf_file_skip(struct gguf_file *f, uint64_t bytes, struct bmoe_error *err);
int gguf_file_u32(struct gguf_file *f, uint32_t *out, struct bmoe_error *err);
int gguf_file_u64(struct gguf_file *f, uint64_t *out, struct bmoe_error *err);
/* A length and its bytes, kept in `keep` with a 0 behind; a 0 inside or more than max_bytes is
 * refused, named as `what`. */
int gguf_file_string(struct gguf_file *f, struct strings *keep, uint64_t max_bytes,
                     const char *what, const char **out, struct bmoe_error *err);
int gguf_file_skip_string(struct gguf_file *f, struct bmoe_error *err);
/* Reads bytes from anywhere without moving the position. */
int gguf_file_pread(struct gguf_file *f, void *out, size_t bytes, uint64_t offset,
                    struct bmoe_error *err);

/* Sets BMOE_E_MODEL with "PATH: sentence", control characters and broken UTF-8 replaced, a long
 * path cut at its front. Answers BMOE_E_MODEL. */
int gguf_refuse(struct bmoe_error *err, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a system call's failure on the file: BMOE_E_IO. */
int gguf_io_failed(struct bmoe_error *err, const char *path, int errnum, const char *what);

#endif
