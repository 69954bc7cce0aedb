/*
 * Reading a GGUF header through one buffer: no mapping (a file that shrinks meanwhile must not kill
 * us), little-endian fields whatever the host is, no read-ahead into gigabytes of tensor data.
 */
#include "model/gguf_file.h"

#include "base/error.h"
#include "model/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define PATH_SHOWN   160

/* ---- refusals ---- */

/* Bytes of the UTF-8 character at s, or 0 when it is not one. */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] >= 0xf5 || (s[0] >= 0x80 && s[0] < 0xc2))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* A name in a hostile file may hold anything; a sentence may not. */
static void make_printable(char *text)
{
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        size_t n = utf8_length(s);
        if (n == 0 || *s < 0x20 || *s == 0x7f) {
            *s = '?';
            n = 1;
        }
        s += n;
    }
}

/* Writes the path, or "..." and its end. */
static void show_path(char *out, size_t bytes, const char *path)
{
    size_t n = strlen(path);
    if (n <= PATH_SHOWN)
        snprintf(out, bytes, "%s", path);
    else
        snprintf(out, bytes, "...%s", path + n - PATH_SHOWN);
}

int gguf_refuse(struct bmoe_error *err, const char *path, const char *format, ...)
{
    char shown[PATH_SHOWN + 8], text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    show_path(shown, sizeof shown, path);
    error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION, "%s: %s", shown, text);
    if (err)
        make_printable(err->text);
    return BMOE_E_MODEL;
}

int gguf_io_failed(struct bmoe_error *err, const char *path, int errnum, const char *what)
{
    char shown[PATH_SHOWN + 8];
    show_path(shown, sizeof shown, path);
    error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errnum, "%s: %s", shown, what);
    if (err)
        make_printable(err->text);
    return BMOE_E_IO;
}

/* ---- the file ---- */

int gguf_file_open(struct gguf_file *f, const char *path, struct bmoe_error *err)
{
    struct stat st;
    *f = (struct gguf_file){.fd = -1, .path = path};
    /* A FIFO would block in open; fstat below refuses it. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return gguf_io_failed(err, path, errno, "cannot be opened");
    int rc = 0;
    if (fstat(f->fd, &st) != 0)
        rc = gguf_io_failed(err, path, errno, "cannot be examined");
    else if (S_ISDIR(st.st_mode))
        rc = gguf_refuse(err, path, "is a folder, a GGUF file is needed");
    else if (!S_ISREG(st.st_mode))
        rc = gguf_refuse(err, path, "is not a regular file");
    else if (st.st_size == 0)
        rc = gguf_refuse(err, path, "is empty");
    else if (!(f->buffer = malloc(BUFFER_BYTES)))
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory to read a model header");
    if (rc < 0) {
        gguf_file_close(f);
        return rc;
    }
    f->bytes = (uint64_t)st.st_size;
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
    return 0;
}

void gguf_file_close(struct gguf_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->buffer);
    f->fd = -1;
    f->buffer = NULL;
}

static int truncated(const struct gguf_file *f, struct bmoe_error *err)
{
    return gguf_refuse(err, f->path, "ends inside its header, at byte %llu: it is truncated",
                       (unsigned long long)f->bytes);
}

int gguf_file_pread(struct gguf_file *f, void *out, size_t bytes, uint64_t offset,
                    struct bmoe_error *err)
{
    if (offset > f->bytes || bytes > f->bytes - offset)
        return truncated(f, err);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gguf_io_failed(err, f->path, errno, "cannot be read");
        if (n == 0) /* it shrank since it was opened */
            return truncated(f, err);
        done += (size_t)n;
    }
    return 0;
}

/* Fills the buffer from the position on. */
static int refill(struct gguf_file *f, struct bmoe_error *err)
{
    uint64_t left = f->bytes - f->at;
    size_t n = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
    f->buffer_bytes = 0;
    int rc = gguf_file_pread(f, f->buffer, n, f->at, err);
    if (rc < 0)
        return rc;
    f->buffer_at = f->at;
    f->buffer_bytes = n;
    return 0;
}

int gguf_file_read(struct gguf_file *f, void *out, size_t bytes, struct bmoe_error *err)
{
    if (bytes > f->bytes - f->at)
        return truncated(f, err);
    for (char *to = out; bytes > 0;) {
        if (f->at < f->buffer_at || f->at >= f->buffer_at + f->buffer_bytes) {
            int rc = refill(f, err);
            if (rc < 0)
                return rc;
        }
        size_t skip = (size_t)(f->at - f->buffer_at);
        size_t n = f->buffer_bytes - skip;
        if (n > bytes)
            n = bytes;
        memcpy(to, f->buffer + skip, n);
        to += n;
        f->at += n;
        bytes -= n;
    }
    return 0;
}

int gguf_file_skip(struct gguf_file *f, uint64_t bytes, struct bmoe_error *err)
{
    if (bytes > f->bytes - f->at)
        return truncated(f, err);
    f->at += bytes;
    return 0;
}

int gguf_file_u32(struct gguf_file *f, uint32_t *out, struct bmoe_error *err)
{
    unsigned char b[4];
    int rc = gguf_file_read(f, b, sizeof b, err);
    if (rc == 0)
        *out = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return rc;
}

int gguf_file_u64(struct gguf_file *f, uint64_t *out, struct bmoe_error *err)
{
    unsigned char b[8];
    int rc = gguf_file_read(f, b, sizeof b, err);
    if (rc < 0)
        return rc;
    *out = 0;
    for (int i = 7; i >= 0; i--)
        *out = *out << 8 | b[i];
    return 0;
}

int gguf_file_skip_string(struct gguf_file *f, struct bmoe_error *err)
{
    uint64_t bytes;
    int rc = gguf_file_u64(f, &bytes, err);
    return rc < 0 ? rc : gguf_file_skip(f, bytes, err);
}

int gguf_file_string(struct gguf_file *f, struct strings *keep, uint64_t max_bytes,
                     const char *what, const char **out, struct bmoe_error *err)
{
    uint64_t bytes;
    int rc = gguf_file_u64(f, &bytes, err);
    if (rc < 0)
        return rc;
    if (bytes > f->bytes - f->at)
        return truncated(f, err);
    if (bytes > max_bytes)
        return gguf_refuse(err, f->path, "%s of %llu bytes is too long, at most %llu are possible",
                           what, (unsigned long long)bytes, (unsigned long long)max_bytes);
    char *text = strings_alloc(keep, (size_t)bytes + 1);
    if (!text)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a model's names");
    rc = gguf_file_read(f, text, (size_t)bytes, err);
    if (rc < 0)
        return rc;
    text[bytes] = '\0';
    if (memchr(text, '\0', (size_t)bytes))
        return gguf_refuse(err, f->path, "%s contains a zero byte", what);
    *out = text;
    return 0;
}
