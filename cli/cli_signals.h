/*
 * SIGINT, SIGTERM and SIGHUP as events of a thread of their own (sigwait), so that nothing runs in
 * signal context. While a request runs, a signal cancels it; a second one ends the process at once.
 * While the model loads, the first one does. Otherwise it wakes whoever waits on the pipe.
 *
 * Invariant: session is not NULL between cli_signals_attach and _detach only; busy implies session.
 */
#ifndef BMOE_CLI_SIGNALS_H
#define BMOE_CLI_SIGNALS_H

#include "bmoe.h"

#include <pthread.h>
#include <stdatomic.h>

/* mutex guards session, busy and n_in_request. */
struct cli_signals {
    pthread_t thread;
    pthread_mutex_t mutex;
    struct bmoe_session *session;
    bool busy;
    unsigned n_in_request;
    atomic_int last; /* number of the last signal, 0: none since cli_signals_take */
    int wake[2];     /* one byte per signal that came while no request ran */
};

/* Blocks the signals in this thread, and so in all it starts later; ignores SIGPIPE; starts the
 * thread. Called before any other thread exists. Answers 0, or BMOE_E_INTERNAL. */
int cli_signals_start(struct cli_signals *s, struct bmoe_error *err);
void cli_signals_stop(struct cli_signals *s);

/* From now on signals cancel requests of this session, or no longer do. */
void cli_signals_attach(struct cli_signals *s, struct bmoe_session *session);
void cli_signals_detach(struct cli_signals *s);

/* Around a request. begin answers false when a signal has already come: do not start it. */
bool cli_signals_request_begin(struct cli_signals *s);
void cli_signals_request_end(struct cli_signals *s);

/* The signal that came since the last call, and forgets it; 0: none. */
int cli_signals_take(struct cli_signals *s);

/* True when one came; for callbacks within a request. Cancels the session's request again, as the
 * first cancel may have come before the library saw the request begin. */
bool cli_signals_pending(struct cli_signals *s);

#endif
