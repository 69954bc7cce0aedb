/*
 * Whatever the engine's checks accept must not make libllama abort or crash: mutated headers of
 * good models go through gguf_index_open and trial_load; those they accept are loaded in a child
 * process the way the engine does it (mapping answered by memory of our own), with a context, a
 * text tokenised and one decode computed. With --program the program itself is run on every one of
 * them, and must end with 1 or 2 and one sentence (or 0, when the mutation left a model that runs).
 *
 * Usage: mutate_headers [--seed N] [--count N] [--first N] [--only N] [--keep DIR]
 *                       [--program PROGRAM] [--verbose 1] MODEL...
 *
 * Each mutation follows from the seed and its number, so that --only N makes it again
 * and --first N goes on with it.
 */
#include "engine/session.h"
#include "engine/trial.h"
#include "mutate.h"
#include "pager/rebind.h"

#include <errno.h>
#include <fcntl.h>
#include <llama.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_MOST 20
#define MEMORY_MOST  (12ull << 30) /* address space of a child */

struct options {
    uint64_t seed, count, first;
    const char *keep, *program;
    bool verbose; /* tell what the trial refused */
    char **models;
    int n_models;
};

struct tally {
    uint64_t refused, accepted, loaded, ran, failures;
    uint64_t by_trial; /* of the refused ones */
    uint64_t ended[3]; /* of the program, by exit status */
};

/* ---- a load, in a child ---- */

static void *answer_anonymous(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    const struct gguf_shard *shard = ctx;
    if (dev != shard->dev || ino != shard->ino)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Tokenises bytes of every kind, and computes a decode (of weights that are all zero). */
static int use_model(struct llama_model *model)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    char text[512];
    llama_token tokens[1024];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i < 255 ? (int)i + 1 : "The \xc3\xa9\xe4\xb8\xad<s>"[i % 12]);
    int n = llama_tokenize(vocab, text, sizeof text, tokens, 1024, true, true);
    for (int i = 0; i < n; i++)
        llama_token_to_piece(vocab, tokens[i], text, sizeof text, 0, true);
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 64;
    p.n_batch = p.n_ubatch = 32;
    p.n_threads = p.n_threads_batch = 1;
    struct llama_context *ctx = llama_init_from_model(model, p);
    if (!ctx)
        return 3;
    llama_token token = n > 0 ? tokens[0] : 0;
    llama_decode(ctx, llama_batch_get_one(&token, 1));
    llama_free(ctx);
    return 0;
}

static int load_in_child(const struct gguf_index *x)
{
    struct gguf_shard shard = *gguf_index_shard(x, 0);
    struct llama_model_params p = llama_model_default_params();
    p.use_extra_bufts = false;
    p.n_gpu_layers = 0;
    if (rebind_begin("libllama.so", answer_anonymous, &shard, NULL) < 1)
        return 4;
    struct llama_model *model = llama_model_load_from_file(shard.path, p);
    rebind_end();
    if (!model)
        return 2;
    int rc = use_model(model);
    llama_model_free(model);
    return rc;
}

static void child_limits(int log)
{
    struct rlimit cpu = {SECONDS_MOST, SECONDS_MOST}, core = {0, 0};
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
#ifndef __SANITIZE_ADDRESS__
    struct rlimit memory = {MEMORY_MOST, MEMORY_MOST};
    setrlimit(RLIMIT_AS, &memory);
#endif
    dup2(log, 1);
    dup2(log, 2);
}

/* The last line a child wrote that tells why, for the report. */
static void last_words(int log, char *out, size_t bytes)
{
    char text[8192] = "";
    off_t size = lseek(log, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text - 1 ? size - ((off_t)sizeof text - 1) : 0;
    ssize_t n = pread(log, text, sizeof text - 1, from);
    text[n > 0 ? n : 0] = '\0';
    char *assertion = strstr(text, "GGML_ASSERT"), *end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    char *line = strrchr(text, '\n');
    char *say = assertion ? assertion : line ? line + 1 : text;
    say[strcspn(say, "\n")] = '\0';
    snprintf(out, bytes, "%s", say);
}

/* Runs the load; true when the child ended by itself. */
static bool survives(const struct gguf_index *x, int log, struct tally *t)
{
    int status = 0;
    fflush(stdout);
    if (ftruncate(log, 0) != 0 || lseek(log, 0, SEEK_SET) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        child_limits(log);
        _exit(load_in_child(x));
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    t->accepted++;
    t->loaded += WIFEXITED(status) && WEXITSTATUS(status) != 2;
    t->ran += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status))
        printf("signal %d ", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) < 4;
}

/* ---- the index and the program ---- */

static bool is_one_sentence(const char *text)
{
    return text[0] && !strpbrk(text, "\n\r");
}

/* Behind the lines of a model that was opened. */
static const char *behind_reports(const char *text)
{
    while (strncmp(text, "bmoe: plan: ", 12) == 0 || strncmp(text, "bmoe: mode: ", 12) == 0) {
        const char *end = strchr(text, '\n');
        text = end ? end + 1 : text + strlen(text);
    }
    return text;
}

/* The program's standard error after a failure: one line, and none of a debugger. */
static bool program_is_clear(const char *program, const char *path, int log, struct tally *t)
{
    int status = 0;
    char text[8192] = "";
    if (ftruncate(log, 0) != 0 || lseek(log, 0, SEEK_SET) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        child_limits(log);
        dup2(open("/dev/null", O_RDWR), 1);
        execl(program, program, "-m", path, "-p", "hi", "-n", "1", "-c", "64", (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ssize_t n = pread(log, text, sizeof text - 1, 0);
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (rc > 2)
        return false;
    t->ended[rc]++;
    return rc == 0 || is_one_sentence(behind_reports(text));
}

static bool run_one(const struct options *o, const struct mutate_model *models, uint64_t i, int log,
                    struct tally *t)
{
    char path[64], said[1024], why[sizeof(((struct bmoe_error *)0)->text)] = "";
    struct gguf_index *x = NULL;
    struct bmoe_error err = {0};
    snprintf(path, sizeof path, "mutated-%d.gguf", (int)getpid());
    /* Odd seeds apart, so that neighbouring numbers share nothing. */
    uint64_t seed = (o->seed + 1) * 0xd1342543de82ef95 + i;
    if (!mutate_write(&models[i % (uint64_t)o->n_models], seed, path, said, sizeof said))
        return false;
    bool fine;
    if (o->program) {
        fine = program_is_clear(o->program, path, log, t);
    } else if (gguf_index_open(&x, path, &err) == 0 && trial_load(x, &err) == 0) {
        fine = survives(x, log, t);
    } else {
        t->refused++;
        t->by_trial += x != NULL;
        if (x && o->verbose)
            printf("trial %llu: %s| %s\n", (unsigned long long)i, said, err.text);
        fine = is_one_sentence(err.text);
        snprintf(why, sizeof why, "%s", err.text);
    }
    gguf_index_close(x);
    if (!fine) {
        if (!why[0])
            last_words(log, why, sizeof why);
        printf("mutation %llu of model %d: %s| %s\n", (unsigned long long)i,
               (int)(i % (uint64_t)o->n_models), said, why);
        char kept[512];
        snprintf(kept, sizeof kept, "%s/%llu.gguf", o->keep ? o->keep : "", (unsigned long long)i);
        if (o->keep)
            rename(path, kept);
    }
    unlink(path);
    t->failures += !fine;
    return true;
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR && level < GGML_LOG_LEVEL_CONT)
        fputs(text, stderr);
}

static bool parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.count = 100};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            o->count = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--first") == 0)
            o->first = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            o->first = strtoull(argv[i + 1], NULL, 10), o->count = 1;
        else if (strcmp(argv[i], "--keep") == 0)
            o->keep = argv[i + 1];
        else if (strcmp(argv[i], "--verbose") == 0)
            o->verbose = atoi(argv[i + 1]) != 0;
        else if (strcmp(argv[i], "--program") == 0)
            o->program = argv[i + 1];
        else
            return false;
    }
    o->models = argv + i;
    o->n_models = argc - i;
    return o->n_models > 0;
}

static void report(const struct options *o, const struct tally *t)
{
    if (o->program)
        printf("the program ended %llu times with 0, %llu with 1, %llu with 2; %llu failures\n",
               (unsigned long long)t->ended[0], (unsigned long long)t->ended[1],
               (unsigned long long)t->ended[2], (unsigned long long)t->failures);
    else
        printf("%llu refused (%llu of them by the trial), %llu accepted: %llu loaded, %llu of them "
               "ran; %llu failures\n",
               (unsigned long long)t->refused, (unsigned long long)t->by_trial,
               (unsigned long long)t->accepted, (unsigned long long)t->loaded,
               (unsigned long long)t->ran, (unsigned long long)t->failures);
}

int main(int argc, char **argv)
{
    struct options o;
    struct tally t = {0};
    if (!parse(&o, argc, argv)) {
        fputs("usage: mutate_headers [--seed N] [--count N] [--first N] [--only N] [--keep DIR] "
              "[--program PROGRAM] [--verbose 1] MODEL...\n",
              stderr);
        return 2;
    }
    setenv("GGML_NO_BACKTRACE", "1", 1);
    struct mutate_model *models = calloc((size_t)o.n_models, sizeof *models);
    int log = memfd_create("child", MFD_CLOEXEC);
    bool ok = models && log >= 0;
    for (int i = 0; ok && i < o.n_models; i++)
        ok = mutate_load(&models[i], o.models[i]);
    if (!o.program) {
        llama_log_set(quiet, NULL);
        char variant[64] = "";
        ok = ok && backend_load_cpu(BMOE_BACKENDS_DIR, variant, sizeof variant, NULL) == 0;
    }
    for (uint64_t i = o.first; ok && i < o.first + o.count; i++)
        ok = run_one(&o, models, i, log, &t);
    report(&o, &t);
    for (int i = 0; models && i < o.n_models; i++)
        mutate_free(&models[i]);
    free(models);
    close(log);
    return ok && t.failures == 0 ? 0 : 1;
}
