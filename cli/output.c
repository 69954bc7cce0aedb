/*
 * Unbuffered writing to standard output: see output.h. SIGPIPE is ignored by the program, so a
 * reader that went away is EPIPE here.
 */
#include "output.h"

#include "cli_error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int output_init(struct output *out, struct bmoe_error *err)
{
    bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;

    memset(out, 0, sizeof(*out));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return cli_error_set(err, BMOE_E_IO,
                                 "descriptor %d is closed and /dev/null did not "
                                 "open in its place",
                                 fd);
    }
    if (closed)
        return cli_error_set(err, BMOE_E_IO,
                             "standard output is closed; there is no place for the answer");
    return 0;
}

bool output_write(struct output *out, const char *text, size_t bytes)
{
    while (bytes > 0 && out->errnum == 0) {
        ssize_t n = write(STDOUT_FILENO, text, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            out->errnum = errno;
            return false;
        }
        out->written = out->written || n > 0;
        if (n > 0)
            out->last = text[n - 1];
        text += n;
        bytes -= (size_t)n;
    }
    return out->errnum == 0;
}

int output_end(struct output *out, struct bmoe_error *err)
{
    if (out->errnum == 0 && out->written && out->last != '\n')
        output_write(out, "\n", 1);
    if (out->errnum != 0)
        return cli_error_set(err, BMOE_E_IO, "writing to standard output failed: %s",
                             strerror(out->errnum));
    return 0;
}
