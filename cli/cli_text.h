/*
 * Texts given to the program: whole files, standard input, and whether they are UTF-8.
 */
#ifndef BMOE_CLI_TEXT_H
#define BMOE_CLI_TEXT_H

#include "bmoe.h"

struct cli_text {
    char *text; /* NUL-terminated, heap; cli_text_free */
    size_t bytes;
};

/* Reads a file whole ("-" is standard input); one line end at its end is not part of the text, as
 * editors add it. Refuses what is empty, not UTF-8 or larger than 1 GiB. `what` names the use in
 * messages: "the prompt". Answers 0, BMOE_E_IO, BMOE_E_MEMORY or BMOE_E_CONTEXT (empty). */
int cli_text_read(struct cli_text *out, const char *path, const char *what, struct bmoe_error *err);

/* Copies a string given on the command line, with the same refusals. */
int cli_text_copy(struct cli_text *out, const char *text, const char *what, struct bmoe_error *err);

/* Frees the text and empties the struct; fine on an empty one. */
void cli_text_free(struct cli_text *t);

/* Bytes at the beginning of text that are well-formed UTF-8 (no surrogates, no overlong forms, no
 * code point above U+10FFFF); `bytes` when all are. */
size_t cli_text_utf8_prefix(const char *text, size_t bytes);

#endif
