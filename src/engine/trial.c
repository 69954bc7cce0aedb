/* The child, its limits, and the verdict on how it ended. */
#include "engine/trial.h"

#include "base/error.h"
#include "pager/rebind.h"

#include <errno.h>
#include <llama.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SECONDS  20 /* of a child that loops; a good one needs some hundredths */
#define WALL_SECONDS 30 /* of one that waits for a lock that nobody holds in it */

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

/* Everything a session does before it reads a weight. */
static void try_model(const struct gguf_index *index, const char *stripped)
{
    if (rebind_begin("libllama", answer_nothing, NULL, NULL) < 1)
        return;
    struct llama_model *model = load(index, stripped);
    rebind_end();
    if (!model)
        return;
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 64;
    p.n_batch = p.n_ubatch = 32;
    p.n_threads = p.n_threads_batch = 1;
    p.abort_callback = abort_at_once;
    struct llama_context *ctx = llama_init_from_model(model, p);
    llama_token token = 0;
    if (ctx)
        llama_decode(ctx, llama_batch_get_one(&token, 1));
}

static _Noreturn void be_child(const struct gguf_index *index, const char *stripped, int words)
{
    struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS + 1}, core = {0, 0};
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t none;
    sigemptyset(&none);
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(WALL_SECONDS);
    setenv("GGML_NO_BACKTRACE", "1", 1); /* else ggml_abort starts a debugger */
    ggml_set_abort_callback(NULL);       /* not the program's: the signal is the verdict */
    llama_log_set(NULL, NULL);           /* to stderr, not to the session's function */
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], SIG_DFL);
    dup2(words, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    try_model(index, stripped);
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

static int judge(const struct gguf_index *index, int status, int words, struct bmoe_error *err)
{
    if (!WIFSIGNALED(status) || !is_verdict(WTERMSIG(status)))
        return 0;
    char why[200];
    last_words(words, why, sizeof why);
    return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                     "%s: libllama cannot take this file: its numbers or its tensors do not belong "
                     "together%s",
                     gguf_index_shard(index, 0)->path, why);
}

static int try_in_child(const struct gguf_index *index, int stripped, int words,
                        struct bmoe_error *err)
{
    char path[64];
    int status = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stripped);
    pid_t pid = fork();
    if (pid == 0)
        be_child(index, path, words);
    if (pid < 0)
        return 0;
    pid_t ended;
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    return ended == pid ? judge(index, status, words, err) : 0;
}

int trial_load(const struct gguf_index *index, struct bmoe_error *err)
{
    int rc = 0;
    int stripped = memfd_create("bmoe-trial", MFD_CLOEXEC);
    int words = memfd_create("bmoe-trial-words", MFD_CLOEXEC);
    if (stripped >= 0 && words >= 0)
        rc = gguf_index_write_stripped(index, stripped, err);
    if (stripped >= 0 && words >= 0 && rc == 0)
        rc = try_in_child(index, stripped, words, err);
    if (stripped >= 0)
        close(stripped);
    if (words >= 0)
        close(words);
    return rc;
}
