/*
 * bmoe-bench scale: whether a token costs more where there is more that it is not routed to. Models
 * that differ in that alone decode in turn, all but everything read from the disk; the time per
 * routed byte of each is compared with the first one's, pair by pair.
 */
#include "scale.h"

#include "bench.h"
#include "bench_args.h"

#include "base/clock.h"
#include "engine/session_hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: bmoe-bench scale [--reps N] [-n N] [-t N] [--cache-mb N] [--place PLACE] [-o FILE] "
    "MODEL...\n"
    "Decodes N tokens (16) with each model in turn, at a budget of N MiB (48) so that nearly all "
    "is read,\n"
    "and prints the time per routed byte by the first model's, with the 95 % interval of the mean "
    "over\n"
    "the pairs (16), what opening took, and what is dense.\n";

enum { MAX_MODELS = 16, N_PROMPT = 8 };

/* Two-sided 95 % quantile of Student's t; above 15 degrees of freedom it changes little. */
static double student(unsigned n)
{
    static const double at[] = {0,     12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
    unsigned last = sizeof at / sizeof *at - 1;
    return at[n - 1 < last ? n - 1 : last];
}

struct subject {
    const char *path;
    struct bmoe_session *session;
    struct bmoe_info info;
    double seconds_per_byte[BENCH_MAX_REPS];
    double read, right; /* bytes read by those routed to; the part of guesses that were right */
    double dropping;    /* seconds of it, which do not count */
    double gb_per_s;    /* of its reads alone */
    struct bmoe_stats before; /* when the prompt was done */
    double routed;            /* bytes of experts that a token is routed to */
};

struct scale_options {
    unsigned reps, n_decode, threads;
    int place;
    uint64_t budget_bytes;
    const char *file, *command;
};

static int open_subject(struct subject *s, const struct scale_options *o, struct bmoe_error *err)
{
    struct bmoe_options b;
    bmoe_options_init(&b);
    b.model = s->path;
    b.stream = BMOE_ON;
    b.cache_bytes = o->budget_bytes;
    b.n_threads = o->threads;
    b.place = (enum bmoe_place)o->place;
    b.n_ctx = 256;
    int rc = bmoe_session_open(&s->session, &b, err);
    if (rc < 0)
        return rc;
    s->info.size = sizeof s->info;
    bmoe_session_describe(s->session, &s->info);
    s->routed = (double)s->info.expert_bytes / s->info.n_expert * s->info.n_expert_used;
    return BMOE_OK;
}

static void on_token(void *user, int32_t token)
{
    struct subject *s = user;
    int64_t from = clock_now_us();
    (void)token;
    struct pager_read_record *of_prompt = NULL;
    if (s->dropping == 0) {
        pager_trace_take(session_pager(s->session), &of_prompt);
        free(of_prompt);
        bmoe_session_stats(s->session, &s->before);
    }
    pager_drop_all(session_pager(s->session));
    s->dropping += (double)(clock_now_us() - from) / 1e6;
}

static int replay(struct subject *s, struct bmoe_error *err)
{
    struct pager *p = session_pager(s->session);
    struct pager_read_record *records = NULL;
    size_t n = pager_trace_take(p, &records);
    double bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += (double)records[i].bytes;
    pager_trace_reads(p, false);
    int64_t us = n ? pager_replay(p, records, n, err) : 0;
    free(records);
    s->gb_per_s = us > 0 ? bytes / 1e3 / (double)us : 0;
    return us < 0 ? (int)us : 0;
}

static int run(struct subject *s, const struct scale_options *o, unsigned rep,
               struct bmoe_error *err)
{
    struct bmoe_stats after = {.size = sizeof after};
    struct bmoe_result r = {.size = sizeof r};
    struct bmoe_generate g;
    int32_t tokens[N_PROMPT];
    bench_tokens(tokens, N_PROMPT, s->info.n_vocab);
    bench_generate_init(&g, tokens, N_PROMPT, o->n_decode + 1);
    g.sampling.temp = 8; /* else random weights say the same again and again */
    g.sampling.top_k = 0;
    g.sampling.seed = 1 + rep;
    g.on_token = on_token;
    g.user = s;
    s->dropping = 0;
    pager_trace_reads(session_pager(s->session), true);
    s->before.size = sizeof s->before;
    int rc = bmoe_session_generate(s->session, &g, &r, err);
    bmoe_session_stats(s->session, &after);
    s->seconds_per_byte[rep] = (r.decode_s - s->dropping) / (s->routed * o->n_decode);
    s->read = (double)(after.bytes_read - s->before.bytes_read) / (s->routed * o->n_decode);
    double guessed = (double)(after.ahead_reads - s->before.ahead_reads);
    s->right = guessed > 0 ? (double)(after.ahead_used - s->before.ahead_used) / guessed : 0;
    return rc < 0 ? rc : replay(s, err);
}

static void line(FILE *out, const struct subject *s, const struct subject *first, unsigned reps)
{
    static const char *const places[] = {"auto", "move", "copy", "frames"};
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < reps; i++) {
        double ratio = s->seconds_per_byte[i] / first->seconds_per_byte[i];
        sum += ratio;
        squares += ratio * ratio;
    }
    double mean = sum / reps;
    double variance = reps > 1 ? (squares - sum * mean) / (reps - 1) : 0;
    double half = reps > 1 ? student(reps) * sqrt(variance > 0 ? variance / reps : 0) : 0;
    const char *name = strrchr(s->path, '/');
    fprintf(
        out,
        "| %s | %u | %u | %.0f | %.0f | %.3f | %s | %.2f | %.0f %% | %.2f | %.3f | %.3f..%.3f |\n",
        name ? name + 1 : s->path, s->info.n_layer, s->info.n_expert,
        (double)s->info.expert_bytes / (1 << 20), (double)s->info.dense_bytes / (1 << 20),
        s->info.load_s, places[s->info.place], s->read, 100 * s->right, s->gb_per_s, mean,
        mean - half, mean + half);
}

static int report(const struct subject *s, unsigned n, const struct scale_options *o)
{
    FILE *out = bench_output(o->file);
    if (!out)
        return 1;
    fprintf(
        out,
        "# What a token is not routed to\n\nTime of decode per byte of routed experts, by that of "
        "the first model: the mean over %u pairs, and\nits 95 %% interval. Each of %u tokens is "
        "computed at a budget of %.0f MiB with no expert in memory.\n*open*: seconds until a "
        "session was ready; *read*: what was read by what was routed to; *right*: the\npart of the "
        "guesses for the next layer that were used; *GB/s* of the last repetition's reads alone.\n"
        "`%s` makes this again.\n\n"
        "| model | layers | experts | MiB of them | dense MiB | open | place | read | right | GB/s "
        "| time per byte | 95 %% |\n|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|\n",
        o->reps, o->n_decode, (double)o->budget_bytes / (1 << 20), o->command);
    for (unsigned i = 0; i < n; i++)
        line(out, &s[i], &s[0], o->reps);
    return bench_output_end(out, o->file);
}

/* One of the model, uncounted, before the pairs. */
static int measure(struct subject *s, unsigned n, const struct scale_options *o,
                   struct bmoe_error *err)
{
    int rc = BMOE_OK;
    for (unsigned i = 0; rc >= 0 && i < n; i++) {
        rc = open_subject(&s[i], o, err);
        if (rc >= 0)
            rc = run(&s[i], o, 0, err);
    }
    for (unsigned r = 0; rc >= 0 && r < o->reps; r++)
        for (unsigned i = 0; rc >= 0 && i < n; i++)
            rc = run(&s[i], o, r, err);
    return rc;
}

int scale_main(int argc, char **argv)
{
    static struct subject s[MAX_MODELS];
    struct bmoe_error err = {0};
    char command[1024];
    int first = 0;
    struct scale_options o = {
        .reps = 16, .n_decode = 16, .budget_bytes = UINT64_C(400) << 20, .command = command};
    const struct bench_arg args[] = {{"o", ARG_TEXT, &o.file, 0, NULL},
                                     {"reps", ARG_NUMBER, &o.reps, BENCH_MAX_REPS, NULL},
                                     {"n", ARG_NUMBER, &o.n_decode, 200, NULL},
                                     {"t", ARG_NUMBER, &o.threads, 512, NULL},
                                     {"cache-mb", ARG_MIB, &o.budget_bytes, 0, NULL},
                                     {"place", ARG_CHOICE, &o.place, 0, bench_places}};
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, &first);
    if (rc >= 0)
        return rc;
    if (first >= argc || argc - first > MAX_MODELS)
        return bench_misuse("1 to 16 models are compared");
    unsigned n = (unsigned)(argc - first);
    for (unsigned i = 0; i < n; i++)
        s[i].path = argv[first + (int)i];
    rc = measure(s, n, &o, &err);
    for (unsigned i = 0; i < n; i++)
        bmoe_session_close(s[i].session);
    if (rc >= 0)
        return report(s, n, &o);
    fprintf(stderr, "bmoe-bench: %s\n", err.text);
    return 1;
}
