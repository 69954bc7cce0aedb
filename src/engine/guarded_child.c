/* The child, its limits, and the verdict on how it ended. */
#include "engine/guarded_child.h"

#include <errno.h>
#include <fcntl.h>
#include <llama.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 20 /* after this it is asked whether it is gone; it tells of itself at once */
/* Looks at one that waits for a lock that nobody holds in it: half a minute. They are counted, not
 * read from a clock: on a machine that stands still, or is full, the child stands still with us. */
#define LOOKS_MOST 1500

/* pid 0: it has ended and was judged. */
struct guarded_child {
    pid_t pid;
    int words; /* a memory file: what the child printed */
    int told;  /* a pipe: a byte per stage it came through; non-blocking */
    unsigned stage, looks;
    bool bad; /* it died of what it ran */
};

/* ---- in the child ---- */

void guarded_child_tell(int tell)
{
    (void)!write(tell, "", 1);
}

static _Noreturn void be_child(guarded_child_fn *run, const void *ctx, unsigned cpu_seconds,
                               int words, int tell)
{
    struct rlimit cpu = {cpu_seconds, cpu_seconds + 1}, core = {0, 0};
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t none;
    sigemptyset(&none);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the thread that waits for it */
    sigprocmask(SIG_SETMASK, &none, NULL);
    setenv("GGML_NO_BACKTRACE", "1", 1); /* else ggml_abort starts a debugger */
    ggml_set_abort_callback(NULL);       /* not the program's: the signal is the verdict */
    llama_log_set(NULL, NULL);           /* to stderr, not to the session's function */
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], SIG_DFL);
    dup2(words, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    run(ctx, tell);
    _exit(0);
}

/* ---- in the parent ---- */

size_t guarded_child_words(const struct guarded_child *c, char *out, size_t bytes)
{
    off_t size = lseek(c->words, 0, SEEK_END);
    off_t from = size >= (off_t)bytes ? size - (off_t)bytes + 1 : 0;
    ssize_t n = pread(c->words, out, bytes - 1, from);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* Whether a signal is the doing of what it ran: not somebody else's kill, nor our limit of waiting.
 */
static bool is_verdict(int signal_number)
{
    static const int own[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGXCPU};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (signal_number == own[i])
            return true;
    return false;
}

/* Looks whether the child is gone, or waits until it is. */
static void reap(struct guarded_child *c, int flags)
{
    int status = 0;
    pid_t ended;
    if (!c->pid)
        return;
    do
        ended = waitpid(c->pid, &status, flags);
    while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return;
    c->bad = ended == c->pid && WIFSIGNALED(status) && is_verdict(WTERMSIG(status));
    c->pid = 0;
}

/* Reads how far the child has come. */
static void hear(struct guarded_child *c)
{
    char bytes[8];
    ssize_t n = read(c->told, bytes, sizeof bytes);
    if (n > 0)
        c->stage += (unsigned)n;
}

enum guarded_child_end guarded_child_wait(struct guarded_child *c, unsigned stage)
{
    hear(c);
    while (c->pid && c->stage < stage) {
        struct pollfd p = {.fd = c->told, .events = POLLIN};
        if (poll(&p, 1, LOOK_MS) == 0 && ++c->looks == LOOKS_MOST)
            kill(c->pid, SIGKILL);
        hear(c);
        if (c->stage >= stage)
            break;
        /* Hung up, it is about to be gone; else somebody's fork may hold the pipe open. */
        reap(c, p.revents & POLLHUP ? 0 : WNOHANG);
    }
    hear(c); /* it may have told of it and ended since */
    if (c->stage >= stage)
        return GUARDED_CHILD_CAME_THROUGH;
    return c->bad ? GUARDED_CHILD_DIED : GUARDED_CHILD_LEFT;
}

void guarded_child_end(struct guarded_child *c)
{
    if (!c)
        return;
    if (c->pid)
        kill(c->pid, SIGKILL);
    reap(c, 0);
    if (c->words >= 0)
        close(c->words);
    if (c->told >= 0)
        close(c->told);
    free(c);
}

struct guarded_child *guarded_child_begin(guarded_child_fn *run, const void *ctx,
                                          unsigned cpu_seconds)
{
    int ends[2] = {-1, -1};
    struct guarded_child *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->words = memfd_create("bmoe-child-words", MFD_CLOEXEC);
    c->told = -1;
    if (c->words < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        goto failed;
    c->told = ends[0];
    c->pid = fork();
    if (c->pid == 0)
        be_child(run, ctx, cpu_seconds, c->words, ends[1]);
    close(ends[1]);
    if (c->pid > 0)
        return c;
    c->pid = 0;
failed:
    guarded_child_end(c);
    return NULL;
}
