/*
 * See text_buffer.h.
 */
#include "text_buffer.h"

#include <stdlib.h>
#include <string.h>

bool text_buffer_add(struct text_buffer *b, const char *text, size_t bytes)
{
    if (!b->failed && b->room - b->bytes <= bytes) {
        size_t room = (b->bytes + bytes) * 2 + 256;
        char *grown = room > bytes ? realloc(b->text, room) : NULL;

        b->failed = grown == NULL;
        if (b->failed)
            return false;
        b->text = grown;
        b->room = room;
    }
    if (b->failed)
        return false;
    memcpy(b->text + b->bytes, text, bytes);
    b->bytes += bytes;
    b->text[b->bytes] = '\0';
    return true;
}

void text_buffer_fini(struct text_buffer *b)
{
    free(b->text);
    *b = (struct text_buffer){0};
}
