/*
 * A text that grows. Once memory is short it is `failed` and takes nothing more.
 */
#ifndef BMOE_CLI_TEXT_BUFFER_H
#define BMOE_CLI_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct text_buffer {
    char *text; /* heap, NUL-terminated; NULL while empty */
    size_t bytes, room;
    bool failed;
};

/* False when there was no memory, now or before. */
bool text_buffer_add(struct text_buffer *b, const char *text, size_t bytes);
void text_buffer_fini(struct text_buffer *b);

#endif
