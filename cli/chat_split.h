/*
 * Splits the text of an answer, as it streams in, into its thinking span and the answer proper, by
 * the marks of the chat format. A mark may be cut anywhere between two pieces; what could be its
 * beginning is held back until it is known.
 */
#ifndef BMOE_CLI_CHAT_SPLIT_H
#define BMOE_CLI_CHAT_SPLIT_H

#include "chat_format.h"

/* Receives a piece of the answer; false ends the request. */
typedef bool chat_split_fn(void *user, bool thinking, const char *text, size_t bytes);

enum chat_split_state {
    SPLIT_START,   /* nothing but blanks so far */
    SPLIT_THINK,   /* in the thinking span */
    SPLIT_BETWEEN, /* the span is closed, blanks before the answer are skipped */
    SPLIT_ANSWER
};

struct chat_split {
    const struct chat_format *format;
    chat_split_fn *emit;
    void *user;
    enum chat_split_state state;
    char held[64]; /* a beginning of a mark; longer than any mark */
    size_t n_held;
};

void chat_split_init(struct chat_split *s, const struct chat *chat, chat_split_fn *emit,
                     void *user);

/* The next piece. Answers what emit answered, true when it was not called. */
bool chat_split_feed(struct chat_split *s, const char *text, size_t bytes);

/* The end of the text: what is still held back goes out. */
bool chat_split_end(struct chat_split *s);

#endif
