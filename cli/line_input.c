/*
 * Line reading over poll: see line_input.h.
 */
#include "line_input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void line_input_init(struct line_input *in, int fd, int wake)
{
    memset(in, 0, sizeof(*in));
    in->fd = fd;
    in->wake = wake;
}

void line_input_fini(struct line_input *in)
{
    free(in->text);
    in->text = NULL;
}

void line_input_drop(struct line_input *in)
{
    in->bytes = 0;
    in->taken = 0;
}

/* Reads once. Answers the bytes read, 0 at the end, -1 on failure. */
static ssize_t fill(struct line_input *in)
{
    ssize_t n;

    if (in->room - in->bytes < 1024) {
        size_t room = in->room + 4096;
        char *grown = realloc(in->text, room);

        if (grown == NULL)
            return -1;
        in->text = grown;
        in->room = room;
    }
    do
        n = read(in->fd, in->text + in->bytes, in->room - in->bytes - 1);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        in->bytes += (size_t)n;
    return n;
}

static enum line_event give(struct line_input *in, size_t length, size_t taken, char **line)
{
    in->text[length] = '\0';
    in->taken = taken;
    *line = in->text;
    return LINE_READY;
}

enum line_event line_input_next(struct line_input *in, char **line)
{
    struct pollfd polled[2] = {{in->fd, POLLIN, 0}, {in->wake, POLLIN, 0}};

    if (in->taken > 0) {
        in->bytes -= in->taken;
        memmove(in->text, in->text + in->taken, in->bytes);
        in->taken = 0;
    }
    for (;;) {
        char *end = in->bytes > 0 ? memchr(in->text, '\n', in->bytes) : NULL;
        ssize_t n;

        if (end != NULL)
            return give(in, (size_t)(end - in->text), (size_t)(end - in->text) + 1, line);
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return LINE_FAILED;
        if (polled[1].revents != 0)
            return LINE_WOKEN;
        if (polled[0].revents == 0)
            continue;
        n = fill(in);
        if (n < 0)
            return errno == EIO ? LINE_END : LINE_FAILED; /* EIO: the terminal is gone */
        if (n == 0)
            return in->bytes > 0 ? give(in, in->bytes, in->bytes, line) : LINE_END;
    }
}
