/*
 * See session_reader.h.
 */
#include "session_reader.h"

#include "cli_error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM_KEPT = 64 << 10 };

/* ---- the queue ---- */

/* Takes request; NULL counts as a lack of memory, which the next line may not meet. */
static void push(struct session_reader *r, struct request *request)
{
    if (request == NULL)
        return;
    pthread_mutex_lock(&r->mutex);
    if (r->ended) {
        pthread_mutex_unlock(&r->mutex);
        request_free(request);
        return;
    }
    if (r->last != NULL)
        r->last->next = request;
    else
        r->first = request;
    r->last = request;
    r->n_waiting++;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void session_reader_end(struct session_reader *r)
{
    pthread_mutex_lock(&r->mutex);
    r->ended = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

struct request *session_reader_next(struct session_reader *r)
{
    struct request *request;

    pthread_mutex_lock(&r->mutex);
    while (r->first == NULL && !r->ended)
        pthread_cond_wait(&r->changed, &r->mutex);
    request = r->first;
    if (request != NULL) {
        r->first = request->next;
        if (r->first == NULL)
            r->last = NULL;
        r->n_waiting--;
    }
    r->running = request;
    pthread_mutex_unlock(&r->mutex);
    return request;
}

void session_reader_done(struct session_reader *r)
{
    struct request *request;

    pthread_mutex_lock(&r->mutex);
    request = r->running;
    r->running = NULL;
    pthread_mutex_unlock(&r->mutex);
    request_free(request);
}

/* Ends the request of that id; without one the running request, or the first that waits where none
 * runs yet. One that is not there has ended already. */
static void cancel(struct session_reader *r, const struct request *by)
{
    pthread_mutex_lock(&r->mutex);
    if (r->running != NULL && (!by->has_id || by->id == r->running->id)) {
        atomic_store(&r->running->cancelled, true);
        bmoe_session_cancel(r->session);
    }
    if (r->running == NULL && !by->has_id && r->first != NULL)
        atomic_store(&r->first->cancelled, true);
    for (struct request *waiting = r->first; by->has_id && waiting != NULL; waiting = waiting->next)
        if (waiting->id == by->id)
            atomic_store(&waiting->cancelled, true);
    pthread_mutex_unlock(&r->mutex);
}

/* ---- lines ---- */

static size_t n_waiting(struct session_reader *r)
{
    size_t n;

    pthread_mutex_lock(&r->mutex);
    n = r->n_waiting;
    pthread_mutex_unlock(&r->mutex);
    return n;
}

/* One line without its end. False: it was the last. */
static bool take_line(struct session_reader *r, const char *line, size_t bytes)
{
    struct request *request;

    if (bytes > 0 && line[bytes - 1] == '\r')
        bytes--;
    if (bytes == 0)
        return true;
    request = request_parse(line, bytes, r->options);
    if (request != NULL && request->code == NULL && request->cmd == REQUEST_CANCEL) {
        cancel(r, request);
        request_free(request);
        return true;
    }
    if (request != NULL && request->code == NULL && request->cmd == REQUEST_CLOSE) {
        request_free(request);
        return false;
    }
    if (request != NULL && n_waiting(r) >= SESSION_WAITING_MAX) {
        r->refuse(r->user, request);
        request_free(request);
        return true;
    }
    push(r, request);
    return true;
}

/* Makes room for more of the line. False: it is too long, and is passed over from now on. */
static bool grow(struct session_reader *r)
{
    size_t room = r->room == 0 ? ROOM_KEPT : r->room * 2;
    char *grown;

    if (r->bytes < r->room)
        return true;
    grown = r->bytes < SESSION_LINE_MAX ? realloc(r->line, room) : NULL;
    if (grown == NULL) {
        r->skipping = true;
        r->bytes = r->searched = 0;
        push(r, request_wrong("too_long", "the line is longer than 16 MiB and was passed over"));
        return false;
    }
    r->line = grown;
    r->room = room;
    return true;
}

/* Gives memory back after a long line. */
static void shrink(struct session_reader *r)
{
    char *less = r->bytes == 0 && r->room > ROOM_KEPT ? realloc(r->line, ROOM_KEPT) : NULL;

    if (less != NULL) {
        r->line = less;
        r->room = ROOM_KEPT;
    }
}

/* All whole lines that have been read. False: the session is to close. */
static bool take_lines(struct session_reader *r)
{
    size_t from = 0, at = r->searched;
    char *end;

    while ((end = r->bytes > at ? memchr(r->line + at, '\n', r->bytes - at) : NULL) != NULL) {
        size_t length = (size_t)(end - (r->line + from));

        if (!r->skipping && !take_line(r, r->line + from, length))
            return false;
        r->skipping = false;
        at = from += length + 1;
    }
    r->bytes -= from;
    memmove(r->line, r->line + from, r->bytes);
    if (r->skipping)
        r->bytes = 0;
    r->searched = r->bytes;
    shrink(r);
    return true;
}

/* Reads once. False: the input has ended. */
static bool fill(struct session_reader *r)
{
    ssize_t n;

    if (!grow(r) && r->room == 0)
        return false;
    n = read(STDIN_FILENO, r->line + r->bytes, r->room - r->bytes);
    if (n < 0) {
        r->errnum = errno == EINTR || errno == EAGAIN ? 0 : errno;
        return r->errnum == 0;
    }
    if (n > 0) {
        r->bytes += (size_t)n;
        return take_lines(r);
    }
    if (r->bytes > 0 && !r->skipping)
        take_line(r, r->line, r->bytes);
    return false;
}

static void *run(void *arg)
{
    struct session_reader *r = arg;
    struct pollfd polled[3] = {
        {STDIN_FILENO, POLLIN, 0}, {r->signals->wake[0], POLLIN, 0}, {r->stop[0], POLLIN, 0}};

    for (;;) {
        if (poll(polled, 3, -1) < 0 && errno != EINTR)
            break;
        if (polled[1].revents != 0 || polled[2].revents != 0)
            break;
        if (polled[0].revents != 0 && !fill(r))
            break;
    }
    session_reader_end(r);
    return NULL;
}

int session_reader_start(struct session_reader *r, const struct cli_options *options,
                         struct bmoe_session *session, struct cli_signals *signals,
                         session_refuse_fn *refuse, void *user, struct bmoe_error *err)
{
    int rc;

    *r = (struct session_reader){
        .options = options, .session = session, .signals = signals, .refuse = refuse, .user = user};
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (pipe2(r->stop, O_CLOEXEC) != 0)
        return cli_error_set(err, BMOE_E_INTERNAL, "a pipe cannot be made: %s", strerror(errno));
    rc = pthread_create(&r->thread, NULL, run, r);
    if (rc == 0)
        return 0;
    close(r->stop[0]);
    close(r->stop[1]);
    return cli_error_set(err, BMOE_E_INTERNAL, "the reader thread does not start: %s",
                         strerror(rc));
}

void session_reader_stop(struct session_reader *r)
{
    ssize_t n = write(r->stop[1], "s", 1);

    (void)n;
    pthread_join(r->thread, NULL);
    close(r->stop[0]);
    close(r->stop[1]);
    while (r->first != NULL) {
        struct request *next = r->first->next;

        request_free(r->first);
        r->first = next;
    }
    request_free(r->running);
    free(r->line);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
}
