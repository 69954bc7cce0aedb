/*
 * See line_writer.h.
 */
#include "line_writer.h"

#include <stdlib.h>
#include <string.h>

void line_writer_init(struct line_writer *w, struct output *output)
{
    w->output = output;
    pthread_mutex_init(&w->mutex, NULL);
}

void line_writer_fini(struct line_writer *w)
{
    pthread_mutex_destroy(&w->mutex);
}

/* The whole line, heap, or NULL. */
static char *make_line(const char *tag, const json_t *body, int digits, size_t *bytes)
{
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(digits);
    size_t head = strlen("BMOE_") + strlen(tag) + 1;
    size_t tail = body != NULL ? json_dumpb(body, NULL, 0, flags) : 0;
    char *line = tail > 0 ? malloc(head + tail + 2) : NULL;

    if (line == NULL)
        return NULL;
    memcpy(line, "BMOE_", 5);
    memcpy(line + 5, tag, head - 6);
    line[head - 1] = ' ';
    json_dumpb(body, line + head, tail, flags);
    line[head + tail] = '\n';
    *bytes = head + tail + 1;
    return line;
}

bool line_write(struct line_writer *w, const char *tag, json_t *body, int digits)
{
    size_t bytes = 0;
    char *line = make_line(tag, body, digits, &bytes);
    bool written = false;

    json_decref(body);
    if (line == NULL)
        return false;
    pthread_mutex_lock(&w->mutex);
    written = output_write(w->output, line, bytes);
    pthread_mutex_unlock(&w->mutex);
    free(line);
    return written;
}
