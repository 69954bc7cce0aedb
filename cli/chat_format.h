/*
 * Chat formats: how a conversation becomes a prompt. A model's template (Jinja in the GGUF) is not
 * interpreted; marks in it say which of a few formats it is, and the format's row in a table says
 * the rest. Pure: no I/O.
 *
 * No format writes the token that begins a text (bos): the tokenizer adds it where the model wants
 * one.
 */
#ifndef BMOE_CLI_CHAT_FORMAT_H
#define BMOE_CLI_CHAT_FORMAT_H

#include "bmoe.h"

#include <stdbool.h>
#include <stddef.h>

enum chat_id { CHAT_CHATML, CHAT_GEMMA, CHAT_GEMMA4, CHAT_GPT_OSS, CHAT_NEMOTRON, CHAT_COUNT };

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLE_COUNT };

enum { CHAT_STOP_MAX = 2 };

struct chat_format {
    const char *name;
    const char *marks[2];                    /* all that are not NULL must be in the template */
    const char *turn_begin[CHAT_ROLE_COUNT]; /* NULL for system: it goes before the first user
                                                turn's text, a blank line between */
    const char *turn_end[CHAT_ROLE_COUNT];
    const char *past_answer;    /* after an earlier assistant turn's beginning */
    const char *head;           /* text before the first turn; NULL: none */
    const char *system_if_none; /* turn written when there is no system text; NULL: none */
    const char *system_think;   /* begins the system turn when the model is to think */
    const char *begin_plain;    /* begins the new answer of a model that does not think */
    const char *begin_think;    /* ... of one that is to think */
    const char *begin_no_think; /* ... of one that is not to */
    const char *think_open;     /* marks in the answer's text around the thinking span */
    const char *think_close;
    const char *answer_open; /* mark before an answer without thinking; NULL: none */
    const char *stop[CHAT_STOP_MAX];
    bool always_thinks; /* the format has a span whatever the template says */
};

/* How a format is used with one model. */
struct chat {
    const struct chat_format *format;
    bool can_think; /* the template has a thinking span */
    bool opens;     /* the prompt opens the span itself */
    bool think;     /* thinking is wanted */
};

struct chat_message {
    enum chat_role role;
    const char *text;
    size_t bytes;
};

/* The format of that index (enum chat_id), or NULL. */
const struct chat_format *chat_format_get(int id);

/* Picks the format: `id` when it is 0 or more, else by marks in the template (which may be NULL).
 * Answers 0, or BMOE_E_MODEL with a sentence that lists the formats. */
int chat_choose(struct chat *out, const char *template_text, int id, bool think,
                struct bmoe_error *err);

/* A rendered conversation, heap. */
struct chat_prompt {
    char *text; /* NUL-terminated */
    size_t bytes;
    struct bmoe_span *words; /* where the messages' texts are in it, as bmoe_generate wants them */
    size_t n_words;
    size_t stable_bytes; /* its beginning that stays when the conversation goes on */
};

/* Renders the messages and the beginning of the assistant's next turn. On success the caller ends
 * *out with chat_prompt_fini. Answers 0 or BMOE_E_MEMORY. */
int chat_render(const struct chat *chat, const struct chat_message *messages, size_t n,
                struct chat_prompt *out, struct bmoe_error *err);
void chat_prompt_fini(struct chat_prompt *prompt);

/* True when the answer's text starts within the thinking span. */
bool chat_starts_thinking(const struct chat *chat);

#endif
