/*
 * Lines for programs: "BMOE_<TAG> {json}", one write per line, so that a slow reader only makes us
 * wait. Any thread may write; lines never mix. After the first failed write (a reader that went
 * away) nothing more is written, and output->errnum says why.
 */
#ifndef BMOE_CLI_LINE_WRITER_H
#define BMOE_CLI_LINE_WRITER_H

#include "output.h"

#include <jansson.h>
#include <pthread.h>

/* mutex guards output and the order of lines. */
struct line_writer {
    struct output *output; /* borrowed */
    pthread_mutex_t mutex;
};

void line_writer_init(struct line_writer *w, struct output *output);
void line_writer_fini(struct line_writer *w);

/* Digits of a number: enough for a figure, or all of a double. */
enum { LINE_FIGURES = 9, LINE_EXACT = 17 };

/* Writes a line and takes body, even when it fails. NULL as body: there was no memory for it. False
 * when the line is not out. */
bool line_write(struct line_writer *w, const char *tag, json_t *body, int digits);

#endif
