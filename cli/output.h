/*
 * Standard output: the answer and nothing else. A failed write (closed, full, broken pipe) is kept,
 * so that the request can be ended and the program fails with one sentence.
 */
#ifndef BMOE_CLI_OUTPUT_H
#define BMOE_CLI_OUTPUT_H

#include "bmoe.h"

struct output {
    int errnum;   /* errno of the first failed write, 0: none */
    char last;    /* the last byte written */
    bool written; /* anything was */
};

/* Makes the three standard descriptors exist, so that no file opened later takes their place.
 * Answers 0, or BMOE_E_IO when standard output is closed. */
int output_init(struct output *out, struct bmoe_error *err);

/* Writes all bytes; false once a write has failed. */
bool output_write(struct output *out, const char *text, size_t bytes);

/* Ends the last line if the text did not. Answers 0, or BMOE_E_IO when any write failed. */
int output_end(struct output *out, struct bmoe_error *err);

#endif
