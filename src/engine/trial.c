/* The child, its limits, and the verdict on how it ended. */
#include "engine/trial.h"

#include "base/error.h"
#include "engine/session.h"
#include "pager/rebind.h"

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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SECONDS 20 /* of a child that loops; a good one needs some hundredths */
#define LOOK_MS     20 /* after this it is asked whether it is gone; it tells of itself at once */
/* Looks at one that waits for a lock that nobody holds in it: half a minute. They are counted, not
 * read from a clock: on a machine that stands still, or is full, the child stands still with us. */
#define LOOKS_MOST 1500

/* The parent's side. pid 0: it has ended and was judged. */
struct trial {
    const struct gguf_index *index; /* borrowed */
    pid_t pid;
    int words; /* a memory file: what the child printed */
    int told;  /* a pipe: a byte per stage it came through; non-blocking */
    unsigned stage, looks;
    bool bad; /* it died of what libllama did */
};

/* The child's. */
struct child {
    const struct gguf_index *index;
    const char *backends_dir;
    int words, tell;
};

/* ---- in the child ---- */

static void *answer_nothing(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    (void)ctx;
    (void)dev;
    (void)ino;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool abort_at_once(void *user)
{
    (void)user;
    return true;
}

static struct llama_model *load(const struct gguf_index *index, const char *stripped)
{
    struct llama_model_params p = llama_model_default_params();
    ggml_backend_dev_t none[1] = {NULL};
    uint32_t n = gguf_index_n_shards(index);
    const char **paths = calloc(n, sizeof *paths);
    if (!paths)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        paths[i] = i == 0 ? stripped : gguf_index_shard(index, i)->path;
    p.devices = none;
    p.n_gpu_layers = 0;
    p.load_mode = LLAMA_LOAD_MODE_MMAP;
    p.use_extra_bufts = false;
    struct llama_model *model = llama_model_load_from_splits(paths, n, p);
    free(paths);
    return model;
}

static void tell(const struct child *c)
{
    (void)!write(c->tell, "", 1);
}

/* Everything a session does before it reads a weight. */
static void try_model(const struct child *c, const char *stripped)
{
    if (rebind_begin("libllama", answer_nothing, NULL, NULL) < 1)
        return;
    struct llama_model *model = load(c->index, stripped);
    rebind_end();
    if (!model)
        return;
    tell(c);
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 64;
    p.n_batch = p.n_ubatch = 32;
    p.n_threads = p.n_threads_batch = 1;
    p.abort_callback = abort_at_once;
    struct llama_context *ctx = llama_init_from_model(model, p);
    llama_token token = 0;
    if (ctx)
        llama_decode(ctx, llama_batch_get_one(&token, 1));
    tell(c);
}

static void try_file(const struct child *c)
{
    char path[64], variant[64] = "";
    int stripped = memfd_create("bmoe-trial", MFD_CLOEXEC);
    if (stripped < 0 || gguf_index_write_stripped(c->index, stripped, NULL) < 0)
        return;
    if (c->backends_dir && !ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) &&
        backend_load_cpu(c->backends_dir, variant, sizeof variant, NULL) < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stripped);
    try_model(c, path);
}

static _Noreturn void be_child(const struct child *c)
{
    struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS + 1}, core = {0, 0};
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
    dup2(c->words, STDOUT_FILENO);
    dup2(c->words, STDERR_FILENO);
    try_file(c);
    _exit(0);
}

/* ---- in the parent ---- */

/* What the child said about why: the assertion, else nothing. */
static void last_words(int words, char *out, size_t bytes)
{
    char text[4096];
    out[0] = '\0';
    off_t size = lseek(words, 0, SEEK_END);
    off_t from = size >= (off_t)sizeof text ? size - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(words, text, sizeof text - 1, from);
    text[n > 0 ? n : 0] = '\0';
    char *why = strstr(text, "GGML_ASSERT(");
    if (!why)
        return;
    why[strcspn(why, "\n")] = '\0';
    snprintf(out, bytes, " (%s)", why);
}

/* Whether a signal is libllama's doing: not somebody else's kill, nor our limit of waiting. */
static bool is_verdict(int signal_number)
{
    static const int own[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGXCPU};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (signal_number == own[i])
            return true;
    return false;
}

static int refuse(const struct trial *t, struct bmoe_error *err)
{
    char why[200];
    last_words(t->words, why, sizeof why);
    return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                     "%s: libllama cannot take this file: its numbers or its tensors do not belong "
                     "together%s",
                     gguf_index_shard(t->index, 0)->path, why);
}

/* Looks whether the child is gone, or waits until it is. */
static void reap(struct trial *t, int flags)
{
    int status = 0;
    pid_t ended;
    if (!t->pid)
        return;
    do
        ended = waitpid(t->pid, &status, flags);
    while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return;
    t->bad = ended == t->pid && WIFSIGNALED(status) && is_verdict(WTERMSIG(status));
    t->pid = 0;
}

/* Reads how far the child has come. */
static void hear(struct trial *t)
{
    char bytes[8];
    ssize_t n = read(t->told, bytes, sizeof bytes);
    if (n > 0)
        t->stage += (unsigned)n;
}

int trial_wait(struct trial *t, enum trial_stage stage, struct bmoe_error *err)
{
    if (!t)
        return 0;
    hear(t);
    while (t->pid && t->stage < (unsigned)stage) {
        struct pollfd p = {.fd = t->told, .events = POLLIN};
        if (poll(&p, 1, LOOK_MS) == 0 && ++t->looks == LOOKS_MOST)
            kill(t->pid, SIGKILL);
        hear(t);
        if (t->stage >= (unsigned)stage)
            break;
        /* Hung up, it is about to be gone; else somebody's fork may hold the pipe open. */
        reap(t, p.revents & POLLHUP ? 0 : WNOHANG);
    }
    return t->bad ? refuse(t, err) : 0;
}

void trial_end(struct trial *t)
{
    if (!t)
        return;
    if (t->pid)
        kill(t->pid, SIGKILL);
    reap(t, 0);
    if (t->words >= 0)
        close(t->words);
    if (t->told >= 0)
        close(t->told);
    free(t);
}

struct trial *trial_begin(const struct gguf_index *index, const char *backends_dir)
{
    int ends[2] = {-1, -1};
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct trial){.index = index, .words = memfd_create("bmoe-trial-words", MFD_CLOEXEC)};
    t->told = -1;
    if (t->words < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        goto failed;
    t->told = ends[0];
    t->pid = fork();
    if (t->pid == 0)
        be_child(&(struct child){index, backends_dir, t->words, ends[1]});
    close(ends[1]);
    if (t->pid > 0)
        return t;
    t->pid = 0;
failed:
    trial_end(t);
    return NULL;
}

int trial_load(const struct gguf_index *index, struct bmoe_error *err)
{
    struct trial *t = trial_begin(index, NULL);
    int rc = trial_wait(t, TRIAL_ENDED, err);
    trial_end(t);
    return rc;
}
