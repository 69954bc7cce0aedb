/*
 * Standard input of a session: a thread that reads lines, makes requests of them and queues them in
 * order. Only "cancel" is obeyed at once. A signal that comes while nothing runs ends the queue, as
 * the end of the input does.
 *
 * Limits: a line of 16 MiB, 256 requests waiting; what is beyond is answered with an error, and the
 * rest of a long line is passed over.
 */
#ifndef BMOE_CLI_SESSION_READER_H
#define BMOE_CLI_SESSION_READER_H

#include "cli_signals.h"
#include "request.h"

enum { SESSION_LINE_MAX = 16 << 20, SESSION_WAITING_MAX = 256 };

/* Answers a request that finds the queue full. Called by the reader thread. */
typedef void session_refuse_fn(void *user, const struct request *request);

/* mutex guards the queue, running, n_waiting and ended. */
struct session_reader {
    const struct cli_options *options; /* borrowed */
    struct bmoe_session *session;      /* borrowed */
    struct cli_signals *signals;       /* borrowed */
    session_refuse_fn *refuse;
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct request *first, *last;
    struct request *running; /* taken and not yet done */
    size_t n_waiting;
    bool ended;  /* nothing will be queued any more */
    int stop[2]; /* a byte ends the thread */

    /* Of the thread alone: the line that is being read. */
    char *line;
    size_t bytes, room;
    size_t searched; /* bytes that hold no line end */
    bool skipping;   /* the line is too long; its rest is passed over */
    int errnum; /* why reading ended early, 0: it did not; to be read when the thread is gone */
};

int session_reader_start(struct session_reader *r, const struct cli_options *options,
                         struct bmoe_session *session, struct cli_signals *signals,
                         session_refuse_fn *refuse, void *user, struct bmoe_error *err);

/* Waits for the next request, which then counts as running; NULL: there is none any more. */
struct request *session_reader_next(struct session_reader *r);

/* The running request is answered: frees it. */
void session_reader_done(struct session_reader *r);

/* Nothing more is queued; what waits is still given out. */
void session_reader_end(struct session_reader *r);

/* Ends the thread; what waits is dropped. */
void session_reader_stop(struct session_reader *r);

#endif
