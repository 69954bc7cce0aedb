/*
 * Sessions in turn that guess in decode, that do not, and that decide for themselves, on the disk
 * as it is and on slower ones (throttle.h). What they decode is the same; the prompt before it is
 * not timed.
 */
#include "hints.h"

#include "bench.h"
#include "bench_args.h"
#include "throttle.h"

#include "engine/session_hooks.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] = "Usage: bmoe-bench hints -m MODEL [OPTION]... [-o FILE]\n"
                            "Decodes with and without guesses of the next layer's experts, on this "
                            "disk and as if on slower "
                            "ones:\ntime, hits, and bytes read for nothing.\n\n"
                            "  --part N       the budget is 1/N of the experts (8)\n"
                            "  -n N           tokens decoded (32)\n"
                            "  --reps N       pairs, of which medians are told (5)\n"
                            "  -t N, --io-threads N   as bmoe-bench\n";

enum { N_PROMPT = 64, N_SPEEDS = 3, N_WAYS = 3 };
static const char *const way_names[N_WAYS] = {
    [GUESS_AUTO] = "by itself", [GUESS_ALWAYS] = "yes", [GUESS_NEVER] = "no"};
static const double speeds[N_SPEEDS] = {1, 0.5, 0.25};

/* Medians are taken over the repetitions; what does not change with time is of the last. */
struct outcome {
    double wall[BENCH_MAX_REPS], reads[BENCH_MAX_REPS]; /* seconds of decode; of its reads alone */
    double bytes, hits, routed, guessed, used;
};

struct hinter {
    struct bench_options o;
    unsigned part;
    const char *file, *command;
    double budget_mib, disk_bytes_per_s;
    struct throttle throttle;
    struct bmoe_session *session[N_WAYS]; /* by enum guess_mode */
    struct outcome outcome[N_SPEEDS][N_WAYS];
    struct pager_counters before;
    struct bench_reads reads;
    struct pager *pager;
    uint64_t hash[N_WAYS], now;
};

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct hinter *h = user;
    h->now = bench_hash(h->now, logits, n_vocab);
    if (!prompt)
        return;
    bench_reads_take(&h->reads, h->pager); /* the prompt's */
    pager_counters_read(h->pager, &h->before);
}

static int request(struct hinter *h, struct bmoe_session *s, struct bmoe_result *r,
                   struct bmoe_error *err)
{
    int32_t tokens[N_PROMPT];
    struct bmoe_info info = {.size = sizeof info};
    struct bmoe_generate g;
    bmoe_session_describe(s, &info);
    bench_tokens(tokens, N_PROMPT, info.n_vocab);
    bench_generate_init(&g, tokens, N_PROMPT, h->o.n_decode + 1);
    g.on_logits = on_logits;
    g.user = h;
    h->pager = session_pager(s);
    h->now = BENCH_HASH_EMPTY;
    pager_drop_all(h->pager);
    pager_trace_reads(h->pager, true);
    int rc = bmoe_session_generate(s, &g, r, err);
    bench_reads_take(&h->reads, h->pager);
    pager_trace_reads(h->pager, false);
    return rc;
}

static int run(struct hinter *h, int speed, int way, unsigned rep, struct bmoe_error *err)
{
    struct outcome *out = &h->outcome[speed][way];
    struct bmoe_result r = {.size = sizeof r};
    struct pager_counters after;
    throttle_set(&h->throttle, speed ? speeds[speed] * h->disk_bytes_per_s : 0);
    int rc = request(h, h->session[way], &r, err);
    if (rc < 0)
        return rc;
    pager_counters_read(h->pager, &after);
    h->hash[way] = h->now;
    out->wall[rep] = r.decode_s;
    out->reads[rep] = bench_reads_alone(&h->reads, h->pager, err);
    out->bytes = bench_reads_bytes(&h->reads);
    out->hits = (double)(after.hits - h->before.hits);
    out->routed = out->hits + (double)(after.misses - h->before.misses);
    out->guessed = (double)(after.ahead_reads - h->before.ahead_reads);
    out->used = (double)(after.ahead_used - h->before.ahead_used);
    return out->reads[rep] < 0 ? (int)out->reads[rep] : BMOE_OK;
}

static int open_one(struct hinter *h, struct bmoe_session **out, int way, struct bmoe_error *err)
{
    struct session_hooks hooks = {.io = &h->throttle.io, .guesses = (enum guess_mode)way};
    struct bmoe_options b;
    bmoe_options_init(&b);
    b.model = h->o.model;
    b.stream = BMOE_ON;
    b.cache_bytes = h->o.cache_bytes;
    b.n_threads = h->o.threads;
    b.n_readers = h->o.readers;
    b.n_ctx = N_PROMPT + h->o.n_decode + 8;
    return session_open_hooked(out, &b, &hooks, err);
}

static int open_all(struct hinter *h, struct bmoe_error *err)
{
    struct bmoe_info info = {.size = sizeof info};
    h->o.cache_bytes = UINT64_C(1) << 30; /* to learn how large the experts are */
    int rc = open_one(h, &h->session[0], 0, err);
    if (rc < 0)
        return rc;
    bmoe_session_describe(h->session[0], &info);
    bmoe_session_close(h->session[0]);
    h->session[0] = NULL;
    h->o.cache_bytes = info.expert_bytes / h->part;
    h->budget_mib = (double)h->o.cache_bytes / (1 << 20);
    for (int way = 0; rc >= 0 && way < N_WAYS; way++)
        rc = open_one(h, &h->session[way], way, err);
    return rc;
}

/* First once each, uncounted; what the disk then gives is its speed. */
static int measure(struct hinter *h, struct bmoe_error *err)
{
    int rc = BMOE_OK;
    for (int way = N_WAYS - 1; rc >= 0 && way >= 0; way--)
        rc = run(h, 0, way, 0, err);
    h->disk_bytes_per_s = h->outcome[0][0].bytes / h->outcome[0][0].reads[0];
    for (unsigned i = 0; rc >= 0 && i < h->o.reps; i++)
        for (int k = 0; rc >= 0 && k < N_WAYS * N_SPEEDS; k++)
            rc = run(h, k / N_WAYS, (k + (int)i) % N_WAYS, i, err);
    for (int way = 1; rc >= 0 && way < N_WAYS; way++)
        if (h->hash[way] != h->hash[0])
            fprintf(stderr, "bmoe-bench: the bits differ with and without guesses\n");
    return rc;
}

static void row(FILE *out, const struct hinter *h, int speed, int way)
{
    const struct outcome *o = &h->outcome[speed][way], *never = &h->outcome[speed][GUESS_NEVER];
    const double mib = 1 << 20, n = h->o.n_decode, read = o->routed - o->hits + o->guessed;
    fprintf(out, "| %.2f GB/s | %s | %.1f | %.1f | %.1f | %.1f %% |",
            speeds[speed] * h->disk_bytes_per_s / 1e9, way_names[way],
            1e3 * bench_median(o->wall, h->o.reps) / n, 1e3 * bench_median(o->reads, h->o.reps) / n,
            o->bytes / mib / n, 100 * o->hits / o->routed);
    if (o->guessed > 0)
        fprintf(out, " %.1f | %.0f %% |", o->bytes / read * (o->guessed - o->used) / mib / n,
                100 * o->used / o->guessed);
    else
        fputs(" 0 | |", out);
    fprintf(out, " %.3f |\n", bench_ratio(o->wall, never->wall, h->o.reps));
}

static int report(const struct hinter *h)
{
    const char *name = strrchr(h->o.model, '/');
    FILE *out = bench_output(h->file);
    if (!out)
        return 1;
    fprintf(
        out,
        "# Guesses of the next layer's experts\n\nDecode of %s, %u tokens, %.0f MiB for experts "
        "(1/%u), with guesses, without, and as a session\ndecides for itself; medians of %u runs "
        "of each in turn. *disk*: as it is, and as if it were slower; *reads\nalone*: the same "
        "reads replayed; *hits*: routed experts that were there; *for nothing*: read for a guess\n"
        "that was wrong; *right*: the part of what was read for a guess that was used; *x*: the "
        "time by that\nwithout guesses. `%s` makes this again.\n\n"
        "| disk | guesses | ms a token | reads alone | MiB read | hits | for nothing | right | x "
        "|\n|---:|---|---:|---:|---:|---:|---:|---:|---:|\n",
        name ? name + 1 : h->o.model, h->o.n_decode, h->budget_mib, h->part, h->o.reps, h->command);
    for (int speed = 0; speed < N_SPEEDS; speed++)
        for (int way = 0; way < N_WAYS; way++)
            row(out, h, speed, way);
    return bench_output_end(out, h->file);
}

int hints_main(int argc, char **argv)
{
    static struct hinter h = {.o = {.reps = 5, .readers = 4, .n_decode = 32}, .part = 8};
    const struct bench_arg args[] = {{"m", ARG_TEXT, &h.o.model, 0, NULL},
                                     {"o", ARG_TEXT, &h.file, 0, NULL},
                                     {"part", ARG_NUMBER, &h.part, 0, NULL},
                                     {"n", ARG_NUMBER, &h.o.n_decode, BENCH_MAX_DECODE, NULL},
                                     {"reps", ARG_NUMBER, &h.o.reps, BENCH_MAX_REPS, NULL},
                                     {"t", ARG_NUMBER, &h.o.threads, 512, NULL},
                                     {"io-threads", ARG_NUMBER, &h.o.readers, 16, NULL}};
    struct bmoe_error err = {0};
    char command[1024];
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    if (rc >= 0)
        return rc;
    if (!h.o.model)
        return bench_misuse("no model (-m)");
    h.command = command;
    throttle_init(&h.throttle);
    rc = open_all(&h, &err);
    if (rc >= 0)
        rc = measure(&h, &err);
    for (int way = 0; way < N_WAYS; way++)
        bmoe_session_close(h.session[way]);
    bench_reads_free(&h.reads);
    throttle_fini(&h.throttle);
    if (rc >= 0)
        return report(&h);
    fprintf(stderr, "bmoe-bench: %s\n", err.text);
    return 1;
}
