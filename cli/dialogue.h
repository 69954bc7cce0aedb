/*
 * A conversation as a list of messages whose texts it owns.
 */
#ifndef BMOE_CLI_DIALOGUE_H
#define BMOE_CLI_DIALOGUE_H

#include "chat_format.h"

struct dialogue {
    struct chat_message *messages; /* texts are heap, NUL-terminated */
    size_t n, room;
};

/* Appends a copy of the text. Answers 0 or BMOE_E_MEMORY. */
int dialogue_append(struct dialogue *d, enum chat_role role, const char *text, size_t bytes,
                    struct bmoe_error *err);

/* Forgets all messages from number n on. */
void dialogue_cut(struct dialogue *d, size_t n);

/* Forgets the oldest exchange: the first message that is not the system's, and what follows it up
 * to the next user's. False when what is left is the last user's message. */
bool dialogue_drop_oldest(struct dialogue *d);

/* Frees everything; fine on an empty one. */
void dialogue_fini(struct dialogue *d);

#endif
