/*
 * See dialogue.h.
 */
#include "dialogue.h"

#include "cli_error.h"

#include <stdlib.h>
#include <string.h>

/* The texts are ours; messages only promise the renderer not to change them. */
static void free_text(const struct chat_message *m)
{
    free((void *)(uintptr_t)m->text);
}

int dialogue_append(struct dialogue *d, enum chat_role role, const char *text, size_t bytes,
                    struct bmoe_error *err)
{
    struct chat_message *grown = d->messages;
    char *copy = malloc(bytes + 1);

    if (d->n == d->room) {
        grown = realloc(d->messages, (d->room * 2 + 16) * sizeof(*grown));
        if (grown != NULL) {
            d->messages = grown;
            d->room = d->room * 2 + 16;
        }
    }
    if (grown == NULL || copy == NULL) {
        free(copy);
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the conversation");
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    d->messages[d->n++] = (struct chat_message){role, copy, bytes};
    return 0;
}

void dialogue_cut(struct dialogue *d, size_t n)
{
    while (d->n > n)
        free_text(&d->messages[--d->n]);
}

bool dialogue_drop_oldest(struct dialogue *d)
{
    size_t first = d->n > 0 && d->messages[0].role == CHAT_SYSTEM ? 1 : 0;
    size_t next = first + 1;

    while (next < d->n && d->messages[next].role != CHAT_USER)
        next++;
    if (next >= d->n)
        return false;
    for (size_t i = first; i < next; i++)
        free_text(&d->messages[i]);
    memmove(d->messages + first, d->messages + next, (d->n - next) * sizeof(*d->messages));
    d->n -= next - first;
    return true;
}

void dialogue_fini(struct dialogue *d)
{
    dialogue_cut(d, 0);
    free(d->messages);
    *d = (struct dialogue){0};
}
