/*
 * The answer as it grows: pieces of tokens in, whole UTF-8 characters out, stop strings held back
 * across token borders and never part of the answer. Bytes that can never become UTF-8 come out as
 * U+FFFD.
 */
#ifndef BMOE_ENGINE_TEXT_H
#define BMOE_ENGINE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    const char *const *stop;
    size_t n_stop;
    char *held; /* bytes that came in and are not out yet */
    size_t n_held, cap_held;
    char *out; /* all that is out */
    size_t n_out, cap_out;
    bool stopped; /* a stop string was met: nothing more comes out */
};

/* Takes bytes; what may go out is appended to out. False: no memory. */
bool text_add(struct text *t, const char *bytes, size_t n);
/* The end: lets out what is held. False: no memory. */
bool text_flush(struct text *t);
void text_fini(struct text *t);

#endif
