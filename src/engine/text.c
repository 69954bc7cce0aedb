/*
 * Held bytes are let out up to the first of: a stop string, the longest tail that may still become
 * one, an unfinished UTF-8 character.
 */
#include "engine/text.h"

#include <stdlib.h>
#include <string.h>

static bool append(char **buf, size_t *n, size_t *cap, const char *bytes, size_t add)
{
    if (*n + add > *cap) {
        size_t want = (*n + add) * 2 + 64;
        char *bigger = realloc(*buf, want);
        if (!bigger)
            return false;
        *buf = bigger;
        *cap = want;
    }
    if (add)
        memcpy(*buf + *n, bytes, add);
    *n += add;
    return true;
}

/* Length of the character that begins at p: 1-4, 0 when it may still be completed, -1 when the
 * first byte cannot begin or continue one. [RFC 3629, table of well-formed sequences] */
static int char_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    int len = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
              : (p[0] & 0xf0) == 0xe0        ? 3
              : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                             : -1;
    if (len < 0)
        return -1;
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n)
            return 0;
        unsigned lo = 0x80, hi = 0xbf;
        if (i == 1) {
            lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : lo;
            hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : hi;
        }
        if (p[i] < lo || p[i] > hi)
            return -1;
    }
    return len;
}

/* Lets out the first n held bytes as UTF-8; an unfinished character stays unless `last`. */
static bool let_out(struct text *t, size_t n, bool last)
{
    size_t at = 0;
    bool ok = true;
    while (at < n && ok) {
        int len = char_length((const unsigned char *)t->held + at, n - at);
        if (len == 0 && !last)
            break;
        if (len > 0) {
            ok = append(&t->out, &t->n_out, &t->cap_out, t->held + at, (size_t)len);
            at += (size_t)len;
        } else {
            ok = append(&t->out, &t->n_out, &t->cap_out, "\xef\xbf\xbd", 3);
            at = len == 0 ? n : at + 1;
        }
    }
    memmove(t->held, t->held + at, t->n_held - at);
    t->n_held -= at;
    return ok;
}

/* Where the first stop string begins in the held bytes, or n_held. */
static size_t find_stop(const struct text *t)
{
    size_t first = t->n_held;
    for (size_t i = 0; i < t->n_stop; i++) {
        size_t len = strlen(t->stop[i]);
        const char *at = len ? memmem(t->held, t->n_held, t->stop[i], len) : NULL;
        if (at && (size_t)(at - t->held) < first)
            first = (size_t)(at - t->held);
    }
    return first;
}

/* Bytes at the end that may be the beginning of a stop string. */
static size_t stop_tail(const struct text *t)
{
    size_t longest = 0;
    for (size_t i = 0; i < t->n_stop; i++) {
        size_t len = strlen(t->stop[i]);
        size_t k = len && len - 1 < t->n_held ? len - 1 : len ? t->n_held : 0;
        for (; k > longest; k--)
            if (memcmp(t->held + t->n_held - k, t->stop[i], k) == 0)
                longest = k;
    }
    return longest;
}

bool text_add(struct text *t, const char *bytes, size_t n)
{
    if (t->stopped || n == 0)
        return true;
    if (!append(&t->held, &t->n_held, &t->cap_held, bytes, n))
        return false;
    size_t stop = find_stop(t);
    if (stop < t->n_held) {
        t->n_held = stop;
        t->stopped = true;
        return let_out(t, t->n_held, true);
    }
    return let_out(t, t->n_held - stop_tail(t), false);
}

bool text_flush(struct text *t)
{
    return t->n_held == 0 || let_out(t, t->n_held, true);
}

void text_fini(struct text *t)
{
    free(t->held);
    free(t->out);
    *t = (struct text){0};
}
