/*
 * The signal thread: see cli_signals.h.
 */
#include "cli_signals.h"

#include "cli_error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The signals to wait for; those that whoever started us has set to be ignored (nohup, a background
 * job) stay ignored. */
static void fill_set(sigset_t *set)
{
    static const int events[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;

    sigemptyset(set);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (sigaction(events[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, events[i]);
    }
    sigaddset(set, SIGUSR2); /* ends the thread; sent by cli_signals_stop only */
}

/* Ends the process without clean-up: there is nothing on disk to repair, and the kernel takes the
 * memory back. */
static void end_now(int number)
{
    static const char text[] = "\nbmoe: stopped by a signal\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

    (void)n;
    _exit(EXIT_SIGNALLED + number);
}

static void handle(struct cli_signals *s, int number)
{
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->last, number);
    if (s->session == NULL || (s->busy && ++s->n_in_request > 1))
        end_now(number);
    if (s->busy) {
        bmoe_session_cancel(s->session);
    } else {
        ssize_t n = write(s->wake[1], "s", 1);

        (void)n; /* a full pipe wakes as well */
    }
    pthread_mutex_unlock(&s->mutex);
}

static void *run(void *arg)
{
    struct cli_signals *s = arg;
    sigset_t set;
    int number;

    fill_set(&set);
    while (sigwait(&set, &number) == 0 && number != SIGUSR2)
        handle(s, number);
    return NULL;
}

int cli_signals_start(struct cli_signals *s, struct bmoe_error *err)
{
    sigset_t set;
    int rc;

    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->mutex, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a failed write, like a full disk */
    fill_set(&set);
    rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc == 0 && pipe2(s->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        rc = errno;
    if (rc != 0)
        return cli_error_set(err, BMOE_E_IO, "signals cannot be set up: %s", strerror(rc));
    rc = pthread_create(&s->thread, NULL, run, s);
    if (rc != 0) {
        close(s->wake[0]);
        close(s->wake[1]);
        return cli_error_set(err, BMOE_E_INTERNAL, "the signal thread does not start: %s",
                             strerror(rc));
    }
    return 0;
}

void cli_signals_stop(struct cli_signals *s)
{
    pthread_kill(s->thread, SIGUSR2);
    pthread_join(s->thread, NULL);
    close(s->wake[0]);
    close(s->wake[1]);
    pthread_mutex_destroy(&s->mutex);
}

void cli_signals_attach(struct cli_signals *s, struct bmoe_session *session)
{
    pthread_mutex_lock(&s->mutex);
    s->session = session;
    pthread_mutex_unlock(&s->mutex);
}

void cli_signals_detach(struct cli_signals *s)
{
    cli_signals_attach(s, NULL);
}

bool cli_signals_request_begin(struct cli_signals *s)
{
    bool start;

    pthread_mutex_lock(&s->mutex);
    start = atomic_load(&s->last) == 0;
    s->busy = start;
    s->n_in_request = 0;
    pthread_mutex_unlock(&s->mutex);
    return start;
}

void cli_signals_request_end(struct cli_signals *s)
{
    pthread_mutex_lock(&s->mutex);
    s->busy = false;
    pthread_mutex_unlock(&s->mutex);
}

int cli_signals_take(struct cli_signals *s)
{
    char drained[16];

    while (read(s->wake[0], drained, sizeof(drained)) > 0)
        continue;
    return atomic_exchange(&s->last, 0);
}

bool cli_signals_pending(struct cli_signals *s)
{
    if (atomic_load(&s->last) == 0)
        return false;
    bmoe_session_cancel(s->session);
    return true;
}
