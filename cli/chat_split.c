/*
 * The splitter of chat_split.h: a small state machine. Text that cannot be part of a mark
 * passes in one piece; the rest is fed byte by byte and compared with the marks that the state
 * allows.
 */
#include "chat_split.h"

#include <string.h>

void chat_split_init(struct chat_split *s, const struct chat *chat, chat_split_fn *emit, void *user)
{
    memset(s, 0, sizeof(*s));
    s->format = chat->format;
    s->emit = emit;
    s->user = user;
    s->state = SPLIT_START;
    if (chat_starts_thinking(chat))
        s->state = SPLIT_THINK;
    else if (chat->format->think_open == NULL && chat->format->answer_open == NULL)
        s->state = SPLIT_ANSWER;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Sends the first n held bytes on and keeps the rest. */
static bool release(struct chat_split *s, size_t n)
{
    bool go_on = n == 0 || s->emit(s->user, s->state == SPLIT_THINK, s->held, n);

    s->n_held -= n;
    memmove(s->held, s->held + n, s->n_held);
    return go_on;
}

enum match { MATCH_NONE, MATCH_BEGINS, MATCH_WHOLE };

/* How the held text, from byte `from` on, relates to a mark. */
static enum match match_held(const struct chat_split *s, size_t from, const char *mark)
{
    size_t n = s->n_held - from;
    size_t mark_bytes = mark != NULL ? strlen(mark) : 0;

    if (n == 0 || mark_bytes == 0)
        return MATCH_NONE;
    if (n >= mark_bytes)
        return memcmp(s->held + from, mark, mark_bytes) == 0 ? MATCH_WHOLE : MATCH_NONE;
    return memcmp(s->held + from, mark, n) == 0 ? MATCH_BEGINS : MATCH_NONE;
}

/* At the start: a mark opens the span or the answer, anything else is the answer. */
static bool step_start(struct chat_split *s)
{
    enum match think = match_held(s, 0, s->format->think_open);
    enum match answer = match_held(s, 0, s->format->answer_open);

    if (s->n_held == 1 && is_blank(s->held[0])) {
        s->n_held = 0;
    } else if (think == MATCH_WHOLE || answer == MATCH_WHOLE) {
        s->state = think == MATCH_WHOLE ? SPLIT_THINK : SPLIT_BETWEEN;
        s->n_held = 0;
    } else if (think == MATCH_NONE && answer == MATCH_NONE) {
        s->state = SPLIT_ANSWER;
        return release(s, s->n_held);
    }
    return true;
}

/* In the span: all goes out but what could be the closing mark's beginning. */
static bool step_think(struct chat_split *s)
{
    for (size_t from = 0; from < s->n_held; from++) {
        enum match close = match_held(s, from, s->format->think_close);
        bool go_on;

        if (close == MATCH_NONE)
            continue;
        go_on = release(s, from);
        if (close == MATCH_WHOLE) {
            s->state = SPLIT_BETWEEN;
            s->n_held = 0;
        }
        return go_on;
    }
    return release(s, s->n_held);
}

static bool step(struct chat_split *s, char c)
{
    s->held[s->n_held++] = c;
    switch (s->state) {
    case SPLIT_START:
        return step_start(s);
    case SPLIT_THINK:
        return step_think(s);
    case SPLIT_BETWEEN:
        if (is_blank(c)) {
            s->n_held = 0;
            return true;
        }
        s->state = SPLIT_ANSWER;
        return release(s, s->n_held);
    case SPLIT_ANSWER:
        break;
    }
    return release(s, s->n_held);
}

/* Bytes at the beginning of text that no mark can touch: they need not go through the held text. */
static size_t plain_run(const struct chat_split *s, const char *text, size_t bytes)
{
    const char *mark;

    if (s->state == SPLIT_ANSWER)
        return bytes;
    if (s->state != SPLIT_THINK || s->n_held > 0)
        return 0;
    mark = memchr(text, s->format->think_close[0], bytes);
    return mark != NULL ? (size_t)(mark - text) : bytes;
}

bool chat_split_feed(struct chat_split *s, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        size_t run = plain_run(s, text + i, bytes - i);

        if (run > 0 && !s->emit(s->user, s->state == SPLIT_THINK, text + i, run))
            return false;
        i += run;
        if (i < bytes && !step(s, text[i]))
            return false;
    }
    return true;
}

bool chat_split_end(struct chat_split *s)
{
    return release(s, s->n_held);
}
