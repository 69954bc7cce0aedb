/*
 * Prompts of some widths on a device that only takes time, cold and in one graph each: the wall
 * time against the larger of what the device took and of the same reads made again without it. Then
 * prompts of 130 to 480 tokens, whole layers against routed experts, one after another as a program
 * asks them: with nothing resident, with all foreseen, and with what decode left.
 */
#include "device_command.h"

#include "bench.h"
#include "bench_args.h"
#include "device_filling.h"
#include "device_timing.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ONLY_WIDTHS = 1, ONLY_MIXED };
enum { MOST_TOKENS = 2048, N_WIDTHS = 3, N_MIXED = 8, N_PROMPTS = N_WIDTHS + N_MIXED };

static const char usage[] =
    "Usage: bmoe-bench device -m MODEL --routes FILE [OPTION]...\n"
    "Prefill on a device that sleeps as long as one of some speed computes.\n\n"
    "  --routes FILE  how a right run routes the prompts; made when it is not there (minutes)\n"
    "  --only widths|mixed  one of the two parts\n"
    "  --tops X       its speed in 10^12 operations a second (1)\n"
    "  --reps N       repetitions, of which medians are printed (3)\n"
    "  --loaders N    threads that fill its slots (8)\n"
    "  --cache-mb N   budget of resident experts (700)\n"
    "  --plain        the host keeps them in the file's layout\n";

struct command {
    const char *model, *routes_path;
    int only; /* ONLY_WIDTHS, ONLY_MIXED, or 0 */
    double tops;
    bool plain;
    unsigned reps, loaders;
    uint64_t cache_bytes;
    struct timing_routes routes[N_PROMPTS];
    unsigned n_known; /* of them in the file when it began */
    struct bmoe_error err;
};

static uint32_t width_of(unsigned prompt)
{
    static const uint32_t widths[N_WIDTHS] = {128, 512, 2048};
    return prompt < N_WIDTHS ? widths[prompt] : 130 + (prompt - N_WIDTHS) * 350 / (N_MIXED - 1);
}

static void tokens_of(unsigned prompt, int32_t *out, uint32_t n_vocab)
{
    static int32_t all[N_PROMPTS * MOST_TOKENS];
    bench_tokens(all, N_PROMPTS * MOST_TOKENS, n_vocab);
    memcpy(out, all + prompt * MOST_TOKENS, width_of(prompt) * sizeof *out);
}

static struct bmoe_session *open_session(struct command *c, bool there, bool whole,
                                         void (*on_route)(void *, const struct bmoe_route *))
{
    struct bmoe_session *s = NULL;
    struct session_hooks hooks = {0};
    struct bmoe_options o;
    bmoe_options_init(&o);
    o.model = c->model;
    o.stream = BMOE_ON;
    o.cpu_repack = c->plain ? BMOE_OFF : BMOE_ON;
    o.cache_bytes = c->cache_bytes;
    o.n_ctx = MOST_TOKENS + 64;
    o.n_ubatch = there ? 512 : MOST_TOKENS;
    o.prefill_device = there ? "timing" : NULL;
    o.prefill_ubatch = there ? MOST_TOKENS : 0;
    o.prefill_whole = whole;
    o.prefill_loaders = c->loaders;
    o.n_readers = c->loaders;
    o.on_route = on_route;
    o.trace_user = c;
    hooks.cold_start = true; /* reads for decode are not a prompt's */
    if (there)
        hooks.device = timing_device(c->tops);
    if (session_open_hooked(&s, &o, &hooks, &c->err) < 0)
        fprintf(stderr, "bmoe-bench: %s\n", c->err.text);
    return s;
}

static int ask(struct command *c, struct bmoe_session *s, unsigned prompt, unsigned n_predict,
               struct bmoe_result *r)
{
    int32_t tokens[MOST_TOKENS];
    struct bmoe_generate g;
    tokens_of(prompt, tokens, s->n_vocab);
    bench_generate_init(&g, tokens, width_of(prompt), n_predict);
    *r = (struct bmoe_result){.size = sizeof *r};
    int rc = bmoe_session_generate(s, &g, r, &c->err);
    if (rc < 0)
        fprintf(stderr, "bmoe-bench: %s\n", c->err.text);
    return rc;
}

static void on_route(void *user, const struct bmoe_route *route)
{
    struct command *c = user;
    uint32_t prompt = c->n_known + route->request - 1;
    if (prompt >= N_PROMPTS)
        return;
    struct timing_routes *r = &c->routes[prompt];
    if (route->prefill && route->layer < r->n_layers && route->position < r->n_tokens &&
        route->slot < r->n_used)
        r->at[(route->layer * r->n_tokens + route->position) * r->n_used + route->slot] =
            (int32_t)route->expert;
}

static bool alloc_routes(struct command *c, uint32_t n_layers, uint32_t n_used)
{
    bool ok = true;
    for (unsigned p = 0; p < N_PROMPTS; p++) {
        struct timing_routes *r = &c->routes[p];
        *r =
            (struct timing_routes){.n_layers = n_layers, .n_tokens = width_of(p), .n_used = n_used};
        r->at = calloc((size_t)n_layers * r->n_tokens * n_used, sizeof *r->at);
        ok = ok && r->at;
    }
    return ok;
}

/* The file's prompts, one after another; answers how many are there. */
static unsigned read_routes(struct command *c)
{
    FILE *f = fopen(c->routes_path, "rb");
    unsigned n = 0;
    for (; f && n < N_PROMPTS; n++) {
        const struct timing_routes *r = &c->routes[n];
        size_t words = (size_t)r->n_layers * r->n_tokens * r->n_used;
        if (fread(r->at, sizeof *r->at, words, f) != words)
            break;
    }
    if (f)
        fclose(f);
    return n;
}

static bool append_route(const struct command *c, unsigned prompt)
{
    const struct timing_routes *r = &c->routes[prompt];
    size_t words = (size_t)r->n_layers * r->n_tokens * r->n_used;
    FILE *f = fopen(c->routes_path, prompt ? "ab" : "wb");
    bool ok = f && fwrite(r->at, sizeof *r->at, words, f) == words;
    return f && fclose(f) == 0 && ok;
}

/* From the file, or by running every prompt on the CPU. */
static int get_routes(struct command *c)
{
    struct bmoe_session *s = open_session(c, false, false, on_route);
    struct bmoe_result r;
    int rc = s ? 0 : 1;
    if (s && !alloc_routes(c, graph_map_n_sites(s->map), graph_map_site(s->map, 0)->n_used))
        rc = 1;
    c->n_known = rc == 0 ? read_routes(c) : 0;
    for (unsigned p = c->n_known; rc == 0 && p < N_PROMPTS; p++) {
        fprintf(stderr, "\rrouting of prompt %u of %u ", p + 1, (unsigned)N_PROMPTS);
        rc = ask(c, s, p, 1, &r) < 0 || !append_route(c, p);
    }
    bmoe_session_close(s);
    return rc;
}

static struct bmoe_stats stats_of(struct bmoe_session *s)
{
    struct bmoe_stats t = {.size = sizeof t};
    bmoe_session_stats(s, &t);
    return t;
}

/* Seconds that the reads since the trace began take alone, by as many threads; and with each copied
 * to memory like the slots'. */
static double replay(struct command *c, struct bmoe_session *s, double *bytes, double *filling)
{
    struct pager_read_record *records = NULL;
    pager_trace_reads(session_pager(s), false); /* of those made again here */
    size_t n = pager_trace_take(session_pager(s), &records);
    *bytes = 0;
    for (size_t i = 0; i < n; i++)
        *bytes += (double)records[i].bytes;
    int64_t us = n ? pager_replay(session_pager(s), records, n, &c->err) : 0;
    struct prefill_counters pc;
    prefill_counters(s->prefill, &pc);
    *filling = n ? (double)filling_time(session_pager(s), records, n, c->loaders, pc.device_bytes,
                                        &c->err) /
                       1e6
                 : 0;
    free(records);
    return (double)us / 1e6;
}

static int widths(struct command *c)
{
    struct bmoe_session *s = open_session(c, true, false, NULL);
    struct bmoe_result r;
    double wall[BENCH_MAX_REPS], device[BENCH_MAX_REPS], reads[BENCH_MAX_REPS];
    double ratio[BENCH_MAX_REPS], waited[BENCH_MAX_REPS], filling[BENCH_MAX_REPS], bytes = 0;
    if (!s)
        return 1;
    printf(
        "| tokens | wall s | device s | its reads alone s | and copied s | MiB | waited s | wall / "
        "larger of device and reads |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (unsigned p = 0; p < N_WIDTHS; p++) {
        for (unsigned i = 0; i < c->reps; i++) {
            pager_drop_all(session_pager(s));
            pager_trace_reads(session_pager(s), true);
            int64_t stalls = stats_of(s).dev_stall_us;
            timing_prompt(&c->routes[p], c->tops);
            if (ask(c, s, p, 1, &r) < 0)
                return 1;
            wall[i] = r.prefill_s;
            waited[i] = (double)(stats_of(s).dev_stall_us - stalls) / 1e6;
            device[i] = timing_seconds();
            reads[i] = replay(c, s, &bytes, &filling[i]);
            ratio[i] = wall[i] / (device[i] > reads[i] ? device[i] : reads[i]);
        }
        printf("| %u | %.2f | %.2f | %.2f | %.2f | %.0f | %.2f | %.2f |\n", width_of(p),
               bench_median(wall, c->reps), bench_median(device, c->reps),
               bench_median(reads, c->reps), bench_median(filling, c->reps), bytes / (1 << 20),
               bench_median(waited, c->reps), bench_median(ratio, c->reps));
        fflush(stdout);
    }
    struct prefill_counters pc;
    prefill_counters(s->prefill, &pc);
    printf(
        "slots: %.1f MiB on the device and %.1f MiB here, planned %.1f MiB together; the process "
        "holds at most %.1f MiB by its plan\n",
        (double)pc.device_bytes / (1 << 20), (double)pc.host_bytes / (1 << 20),
        (double)s->plan.device / (1 << 20), (double)s->plan.total / (1 << 20));
    bmoe_session_close(s);
    return 0;
}

/* All the mixed prompts in a row. */
enum mix { WHOLE, ROUTED, AGAIN, WARM, N_MIXES };

static const char *const mix_names[N_MIXES] = {
    [WHOLE] = "whole, cold",
    [ROUTED] = "routed, cold",
    [AGAIN] = "routed, cold, asked a second time", /* so that all was foreseen */
    [WARM] = "routed, after answers",
};

static void print_mix(enum mix how, const struct bmoe_stats *t, double seconds)
{
    const double mib = 1 << 20;
    printf("| %s | %.2f | %.1f | %.1f | %.1f | %.0f |\n", mix_names[how], seconds,
           (double)t->dev_read_bytes / mib, (double)t->dev_host_bytes / mib,
           (double)t->dev_unused_bytes / mib,
           100.0 * (double)t->dev_demand / (double)(t->dev_routed + 1));
    fflush(stdout);
}

static void add_difference(struct bmoe_stats *sum, const struct bmoe_stats *from,
                           const struct bmoe_stats *to)
{
    sum->dev_read_bytes += to->dev_read_bytes - from->dev_read_bytes;
    sum->dev_host_bytes += to->dev_host_bytes - from->dev_host_bytes;
    sum->dev_unused_bytes += to->dev_unused_bytes - from->dev_unused_bytes;
    sum->dev_demand += to->dev_demand - from->dev_demand;
    sum->dev_routed += to->dev_routed - from->dev_routed;
}

static int mixed(struct command *c, enum mix how)
{
    struct bmoe_session *s = open_session(c, true, how == WHOLE, NULL);
    struct bmoe_stats sum = {0};
    struct bmoe_result r;
    double seconds = 0;
    if (!s)
        return 1;
    for (unsigned i = 0; i < N_MIXED * (how == AGAIN ? 2 : 1); i++) {
        unsigned p = N_WIDTHS + (how == AGAIN ? i / 2 : i);
        if (how != WARM)
            pager_drop_all(session_pager(s));
        timing_prompt(&c->routes[p], c->tops);
        struct bmoe_stats before = stats_of(s);
        if (ask(c, s, p, how == WARM ? 16 : 1, &r) < 0)
            return 1;
        struct bmoe_stats after = stats_of(s);
        if (how == AGAIN && i % 2 == 0)
            continue;
        add_difference(&sum, &before, &after);
        seconds += r.prefill_s;
    }
    print_mix(how, &sum, seconds);
    bmoe_session_close(s);
    return 0;
}

static int parse(struct command *c, int argc, char **argv)
{
    static const char *const parts[] = {"both", "widths", "mixed", NULL};
    const struct bench_arg args[] = {{"m", ARG_TEXT, &c->model, 0, NULL},
                                     {"routes", ARG_TEXT, &c->routes_path, 0, NULL},
                                     {"only", ARG_CHOICE, &c->only, 0, parts},
                                     {"tops", ARG_REAL, &c->tops, 0, NULL},
                                     {"reps", ARG_NUMBER, &c->reps, BENCH_MAX_REPS, NULL},
                                     {"loaders", ARG_NUMBER, &c->loaders, 16, NULL},
                                     {"cache-mb", ARG_MIB, &c->cache_bytes, 0, NULL},
                                     {"plain", ARG_FLAG, &c->plain, 0, NULL}};
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    return rc < 0 && !(c->model && c->routes_path)
               ? bench_misuse("a model and a file of routes are wanted (-m and --routes)")
               : rc;
}

int device_main(int argc, char **argv)
{
    static struct command c = {
        .tops = 1, .reps = 3, .loaders = 8, .cache_bytes = (uint64_t)700 << 20};
    int rc = parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    rc = get_routes(&c);
    if (rc == 0 && c.only != ONLY_MIXED)
        rc = widths(&c);
    if (rc == 0 && c.only != ONLY_WIDTHS) {
        printf("| %u prompts of 130-480 tokens | s | MiB read | MiB from memory | MiB unused | %% "
               "late |\n|---|---:|---:|---:|---:|---:|\n",
               (unsigned)N_MIXED);
        for (int i = 0; rc == 0 && i < N_MIXES; i++)
            rc = mixed(&c, i);
    }
    for (unsigned p = 0; p < N_PROMPTS; p++)
        free(c.routes[p].at);
    return rc;
}
