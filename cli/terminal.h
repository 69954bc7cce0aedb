/*
 * Standard error: what people read. Lines begin with "bmoe:"; a progress line is rewritten in place
 * and exists, like colours, only on a terminal. Lines may come from any thread.
 */
#ifndef BMOE_CLI_TERMINAL_H
#define BMOE_CLI_TERMINAL_H

#include "bmoe.h"

#include <pthread.h>

/* mutex guards shown_bytes and the order of what is written. */
struct terminal {
    pthread_mutex_t mutex;
    bool is_terminal; /* standard error is one, and can rewrite a line */
    bool colours;
    size_t shown_bytes; /* width of the progress line on the screen, 0: none */
};

/* Reads TERM and NO_COLOR once. */
void terminal_init(struct terminal *t);

/* One line "bmoe: ..."; a progress line on the screen gives way to it. */
void terminal_line(struct terminal *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Rewrites the progress line; nothing where standard error is no terminal. */
void terminal_progress(struct terminal *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the progress line off the screen. */
void terminal_clear(struct terminal *t);

/* Text that is not a line of its own: a prompt mark, a piece of a thinking span. */
enum terminal_style { TERMINAL_PLAIN, TERMINAL_DIM, TERMINAL_MARK };
void terminal_text(struct terminal *t, enum terminal_style style, const char *text, size_t bytes);

/* The library's log: info and warnings become lines. user is the struct terminal. */
void terminal_log(void *user, enum bmoe_log_level level, const char *line);

#endif
