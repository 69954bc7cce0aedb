/*
 * Lines typed at a terminal, read so that a signal can interrupt the waiting.
 */
#ifndef BMOE_CLI_LINE_INPUT_H
#define BMOE_CLI_LINE_INPUT_H

#include <stddef.h>

enum line_event { LINE_READY, LINE_END, LINE_WOKEN, LINE_FAILED };

/* Bytes read from fd and not yet taken. */
struct line_input {
    int fd;
    int wake; /* readable when the waiting is to end */
    char *text;
    size_t bytes, room;
    size_t taken; /* length of the line given out last, line end included */
};

void line_input_init(struct line_input *in, int fd, int wake);
void line_input_fini(struct line_input *in);

/* Waits for a line. LINE_READY: *line is its text without the line end, NUL-terminated, good until
 * the next call. A last line without line end counts. LINE_FAILED: out of memory or a read error.
 */
enum line_event line_input_next(struct line_input *in, char **line);

/* Forgets what was typed and not yet taken. */
void line_input_drop(struct line_input *in);

#endif
