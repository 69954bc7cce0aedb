/*
 * Writing to standard error: see terminal.h. Each line goes out in one write, so that lines of
 * several processes do not mix. A failed write to standard error has nobody to be told.
 */
#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

void terminal_init(struct terminal *t)
{
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");

    memset(t, 0, sizeof(*t));
    pthread_mutex_init(&t->mutex, NULL);
    t->is_terminal = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    t->colours = t->is_terminal && (no_color == NULL || no_color[0] == '\0');
}

static void put(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(STDERR_FILENO, text, bytes);

        if (n <= 0)
            return;
        text += n;
        bytes -= (size_t)n;
    }
}

/* The caller holds the mutex. */
static void clear_locked(struct terminal *t)
{
    if (t->shown_bytes > 0)
        put("\r\033[K", 4);
    t->shown_bytes = 0;
}

void terminal_clear(struct terminal *t)
{
    pthread_mutex_lock(&t->mutex);
    clear_locked(t);
    pthread_mutex_unlock(&t->mutex);
}

void terminal_line(struct terminal *t, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    size_t used = (size_t)snprintf(line, sizeof(line), "bmoe: ");
    va_list args;

    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    used = strlen(line);
    line[used++] = '\n';
    pthread_mutex_lock(&t->mutex);
    clear_locked(t);
    put(line, used);
    pthread_mutex_unlock(&t->mutex);
}

void terminal_progress(struct terminal *t, const char *format, ...)
{
    char line[128] = "\r\033[K";
    size_t used = strlen(line);
    va_list args;

    if (!t->is_terminal)
        return;
    va_start(args, format);
    vsnprintf(line + used, sizeof(line) - used, format, args);
    va_end(args);
    used = strlen(line);
    pthread_mutex_lock(&t->mutex);
    put(line, used);
    t->shown_bytes = used;
    pthread_mutex_unlock(&t->mutex);
}

void terminal_text(struct terminal *t, enum terminal_style style, const char *text, size_t bytes)
{
    static const char *const begin[] = {
        [TERMINAL_PLAIN] = "", [TERMINAL_DIM] = "\033[2m", [TERMINAL_MARK] = "\033[1;32m"};
    bool coloured = t->colours && style != TERMINAL_PLAIN;

    pthread_mutex_lock(&t->mutex);
    clear_locked(t);
    if (coloured)
        put(begin[style], strlen(begin[style]));
    put(text, bytes);
    if (coloured)
        put("\033[0m", 4);
    pthread_mutex_unlock(&t->mutex);
}

void terminal_log(void *user, enum bmoe_log_level level, const char *line)
{
    struct terminal *t = user;

    if (level >= BMOE_LOG_INFO)
        terminal_line(t, "%s%s", level == BMOE_LOG_WARN ? "warning: " : "", line);
}
