/*
 * Reading texts: see cli_text.h.
 */
#include "cli_text.h"

#include "cli_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX_BYTES = 1 << 30, FIRST_ROOM_BYTES = 64 << 10 };

/* Length of the well-formed sequence at p, 0 when there is none. Ranges of the second byte as in
 * the Unicode standard's table of well-formed UTF-8 byte sequences. */
static size_t utf8_sequence(const unsigned char *p, size_t bytes)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;

    if (length == 1)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4 || bytes < length)
        return 0;
    if (p[0] == 0xE0)
        low = 0xA0;
    else if (p[0] == 0xED)
        high = 0x9F;
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    }
    return length;
}

size_t cli_text_utf8_prefix(const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        size_t n = utf8_sequence((const unsigned char *)text + at, bytes - at);

        if (n == 0)
            break;
        at += n;
    }
    return at;
}

static int check(const struct cli_text *t, const char *what, const char *from,
                 struct bmoe_error *err)
{
    size_t good = cli_text_utf8_prefix(t->text, t->bytes);

    if (t->bytes == 0)
        return cli_error_set(err, BMOE_E_CONTEXT, "%s is empty%s%s", what, from != NULL ? ": " : "",
                             from != NULL ? from : "");
    if (good < t->bytes)
        return cli_error_set(err, BMOE_E_IO, "%s is not UTF-8 text (byte %zu%s%s)", what, good + 1,
                             from != NULL ? " of " : "", from != NULL ? from : "");
    return 0;
}

/* Reads to the end of fd. Answers 0, or an errno value; EFBIG above TEXT_MAX_BYTES. */
static int read_all(int fd, struct cli_text *t)
{
    size_t room = 0;

    for (;;) {
        ssize_t n;

        if (room - t->bytes < 2) {
            size_t larger = room == 0 ? FIRST_ROOM_BYTES : room * 2;
            char *grown = realloc(t->text, larger);

            if (grown == NULL)
                return ENOMEM;
            t->text = grown;
            room = larger;
        }
        n = read(fd, t->text + t->bytes, room - t->bytes - 1);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            break;
        t->bytes += n > 0 ? (size_t)n : 0;
        if (t->bytes > TEXT_MAX_BYTES)
            return EFBIG;
    }
    if (t->bytes > 0 && t->text[t->bytes - 1] == '\n')
        t->bytes--;
    t->text[t->bytes] = '\0';
    return 0;
}

int cli_text_read(struct cli_text *out, const char *path, const char *what, struct bmoe_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    const char *from = standard ? "standard input" : path;
    struct cli_text t = {0};
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 ? errno : read_all(fd, &t);

    if (rc == ENOMEM)
        rc = cli_error_set(err, BMOE_E_MEMORY, "there is no memory for %s in %s", what, from);
    else if (rc != 0)
        rc = cli_error_set(err, BMOE_E_IO, "%s cannot be read from %s: %s", what, from,
                           strerror(rc));
    else
        rc = check(&t, what, from, err);
    if (fd >= 0 && !standard)
        close(fd);
    if (rc != 0)
        cli_text_free(&t);
    else
        *out = t;
    return rc;
}

int cli_text_copy(struct cli_text *out, const char *text, const char *what, struct bmoe_error *err)
{
    struct cli_text t = {strdup(text), strlen(text)};
    int rc;

    if (t.text == NULL)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for %s", what);
    rc = check(&t, what, NULL, err);
    if (rc != 0)
        cli_text_free(&t);
    else
        *out = t;
    return rc;
}

void cli_text_free(struct cli_text *t)
{
    free(t->text);
    t->text = NULL;
    t->bytes = 0;
}
