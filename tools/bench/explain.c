/*
 * The subcommand's options and runs: see explain.h. One session with all resident, one streamed, in
 * turn: a prompt with no expert there, then an answer. The resident one is run twice: as it is, and
 * with the nodes computed alone that the streamed one's readers make be computed so.
 */
#include "explain.h"

#include "bench_args.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: bmoe-bench explain -m MODEL [OPTION]... [-o FILE]\n"
    "Says where the wall time of prefill and of decode goes, in parts that add up, beside the "
    "limit:\n"
    "the slower of computing with all resident and the run's own reads alone; and beside both at "
    "once,\n"
    "which is what the machine can do.\n\n"
    "  --part N       the budget is 1/N of the experts (8)\n"
    "  --cache-mb N   the budget in MiB instead\n"
    "  --prompt N     tokens of the prompt (512); -n N: of the answer (32)\n"
    "  --reps N       repetitions, of which means are told (4)\n"
    "  -t N, --io-threads N, --place move|copy|none   as bmoe-bench\n";

struct explain_options {
    struct bench_options bench;
    unsigned part, n_prompt;
    const char *file;
};

struct explainer {
    const struct explain_options *o;
    struct bmoe_session *resident, *streamed;
    struct explain_clock clock;
    struct explain_result r;
    struct phase_costs phase[EXPLAIN_PHASES]; /* of the run that is under way */
    struct pager *pager;
    struct bench_reads reads[EXPLAIN_PHASES]; /* of the streamed run */
    uint64_t hash[EXPLAIN_RUNS], now;
};

/* The phase ends: what the clock and the threads have since the last end is its. */
static void phase_end(struct explainer *x, enum explain_phase phase)
{
    struct explain_clock *c = &x->clock;
    c->now.between += (double)(clock_now_us() - c->from_us) / 1e6;
    clock_process(&c->now, x->pager, 1);
    x->phase[phase] = c->now;
    c->now = (struct phase_costs){0};
    clock_process(&c->now, x->pager, -1);
    c->phase = EXPLAIN_DECODE;
    c->from_us = clock_now_us();
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct explainer *x = user;
    x->now = bench_hash(x->now, logits, n_vocab);
    if (!prompt)
        return;
    bench_reads_take(&x->reads[EXPLAIN_PREFILL], x->pager);
    phase_end(x, EXPLAIN_PREFILL);
}

/* What the phases read: alone, and beside the computing with all resident. */
static int read_again(struct explainer *x, struct bmoe_error *err)
{
    struct both b = {.pager = x->pager};
    x->clock.note = false;
    for (int p = 0; p < EXPLAIN_PHASES; p++) {
        b.reads[p] = &x->reads[p];
        x->phase[p].bytes = bench_reads_bytes(&x->reads[p]);
        x->phase[p].reads_alone = bench_reads_alone(&x->reads[p], x->pager, err);
        if (x->phase[p].reads_alone < 0)
            return (int)x->phase[p].reads_alone;
    }
    int rc = both_run(&b, x->resident, x->o->n_prompt, x->o->bench.n_decode, err);
    for (int p = 0; p < EXPLAIN_PHASES; p++)
        x->phase[p].both = b.wall[p];
    return rc;
}

static int request(struct explainer *x, struct bmoe_session *s, struct bmoe_result *out,
                   struct bmoe_error *err)
{
    int32_t tokens[BENCH_MAX_PROMPT];
    struct bmoe_info info = {.size = sizeof info};
    struct bmoe_generate g;
    bmoe_session_describe(s, &info);
    bench_tokens(tokens, x->o->n_prompt, info.n_vocab);
    bench_generate_init(&g, tokens, x->o->n_prompt, x->o->bench.n_decode + 1);
    g.on_logits = on_logits;
    g.user = x;
    x->pager = session_pager(s);
    x->now = BENCH_HASH_EMPTY;
    pager_drop_all(x->pager);
    pager_trace_reads(x->pager, s == x->streamed);
    x->clock.now = (struct phase_costs){0};
    x->clock.phase = EXPLAIN_PREFILL;
    clock_process(&x->clock.now, x->pager, -1);
    x->clock.from_us = clock_now_us();
    return bmoe_session_generate(s, &g, out, err);
}

static void add(struct phase_costs *sum, const struct phase_costs *p, unsigned reps)
{
    double *to = (double *)sum;
    const double *from = (const double *)p;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i] / reps;
}

static int run(struct explainer *x, enum explain_run kind, bool count, struct bmoe_error *err)
{
    struct bmoe_session *s = kind == RUN_STREAMED ? x->streamed : x->resident;
    struct bmoe_result out = {.size = sizeof out};
    x->clock.note = kind == RUN_STREAMED;
    x->clock.ask = kind == RUN_ALONE;
    int rc = request(x, s, &out, err);
    phase_end(x, EXPLAIN_DECODE);
    x->phase[EXPLAIN_PREFILL].wall = out.prefill_s;
    x->phase[EXPLAIN_DECODE].wall = out.decode_s;
    x->hash[kind] = x->now;
    bench_reads_take(&x->reads[EXPLAIN_DECODE], x->pager);
    pager_trace_reads(x->pager, false);
    if (rc >= 0 && kind == RUN_STREAMED)
        rc = read_again(x, err);
    for (int p = 0; count && p < EXPLAIN_PHASES; p++)
        add(&x->r.costs[kind][p], &x->phase[p], x->o->bench.reps);
    return rc;
}

static int open_one(struct explainer *x, struct bmoe_session **out, bool streamed,
                    struct bmoe_error *err)
{
    struct session_hooks hooks = {.on_moment = clock_moment, .moment_user = &x->clock};
    struct bmoe_options b;
    bmoe_options_init(&b);
    b.model = x->o->bench.model;
    b.stream = streamed ? BMOE_ON : BMOE_OFF;
    b.place = (enum bmoe_place)x->o->bench.place;
    b.cache_bytes = (uint64_t)(x->r.budget_mib * (1 << 20));
    b.n_threads = x->o->bench.threads;
    b.n_readers = x->o->bench.readers;
    b.n_ctx = x->o->n_prompt + x->o->bench.n_decode + 8;
    return session_open_hooked(out, &b, &hooks, err);
}

static int open_both(struct explainer *x, struct bmoe_error *err)
{
    struct bmoe_info info = {.size = sizeof info};
    int rc = open_one(x, &x->resident, false, err);
    if (rc < 0)
        return rc;
    bmoe_session_describe(x->resident, &info);
    double experts = (double)info.expert_bytes / (1 << 20);
    x->r.budget_mib = x->o->bench.cache_bytes ? (double)x->o->bench.cache_bytes / (1 << 20)
                                              : experts / x->o->part;
    x->r.budget_part = experts > 0 ? x->r.budget_mib / experts : 0;
    rc = open_one(x, &x->streamed, true, err);
    if (rc < 0)
        return rc;
    bmoe_session_describe(x->streamed, &info);
    x->r.place = info.place;
    x->r.n_threads = info.n_threads;
    return BMOE_OK;
}

/* First once uncounted: it teaches which nodes are computed alone, and fills what fills once. Then
 * to and fro, so that a run's place in the order does not count. */
static int measure(struct explainer *x, struct bmoe_error *err)
{
    x->r.page_touch = clock_page_touch();
    int rc = run(x, RUN_STREAMED, false, err);
    for (unsigned i = 0; i < x->o->bench.reps; i++)
        for (int k = 0; rc >= 0 && k < EXPLAIN_RUNS; k++)
            rc = run(x, (enum explain_run)(i % 2 ? EXPLAIN_RUNS - 1 - k : k), true, err);
    x->r.same_bits = x->hash[RUN_RESIDENT] == x->hash[RUN_STREAMED];
    return rc;
}

static int report(const struct explain_result *r, const char *path)
{
    FILE *out = bench_output(path);
    if (!out)
        return 1;
    explain_write(out, r);
    return bench_output_end(out, path);
}

static int explain(const struct explain_options *o, const char *command)
{
    struct bmoe_error err = {0};
    static struct explainer x;
    const char *name = strrchr(o->bench.model, '/');
    x.o = o;
    x.r = (struct explain_result){.model = name ? name + 1 : o->bench.model,
                                  .command = command,
                                  .reps = o->bench.reps,
                                  .n_prompt = o->n_prompt,
                                  .n_decode = o->bench.n_decode};
    int rc = clock_init(&x.clock);
    rc = rc < 0 ? BMOE_E_MEMORY : open_both(&x, &err);
    if (rc >= 0)
        rc = measure(&x, &err);
    bmoe_session_close(x.resident);
    bmoe_session_close(x.streamed);
    clock_fini(&x.clock);
    for (int p = 0; p < EXPLAIN_PHASES; p++)
        bench_reads_free(&x.reads[p]);
    if (rc >= 0)
        return report(&x.r, o->file);
    fprintf(stderr, "bmoe-bench: %s\n", err.text[0] ? err.text : "no memory");
    return 1;
}

int explain_main(int argc, char **argv)
{
    struct explain_options o = {
        .bench = {.reps = 4, .readers = 4, .n_decode = 32}, .part = 8, .n_prompt = 512};
    const struct bench_arg args[] = {{"m", ARG_TEXT, &o.bench.model, 0, NULL},
                                     {"o", ARG_TEXT, &o.file, 0, NULL},
                                     {"part", ARG_NUMBER, &o.part, 0, NULL},
                                     {"cache-mb", ARG_MIB, &o.bench.cache_bytes, 0, NULL},
                                     {"prompt", ARG_NUMBER, &o.n_prompt, BENCH_MAX_PROMPT, NULL},
                                     {"n", ARG_NUMBER, &o.bench.n_decode, BENCH_MAX_DECODE, NULL},
                                     {"reps", ARG_NUMBER, &o.bench.reps, BENCH_MAX_REPS, NULL},
                                     {"t", ARG_NUMBER, &o.bench.threads, 512, NULL},
                                     {"io-threads", ARG_NUMBER, &o.bench.readers, 16, NULL},
                                     {"place", ARG_CHOICE, &o.bench.place, 0, bench_places}};
    char command[1024];
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    if (rc >= 0)
        return rc;
    return o.bench.model ? explain(&o, command) : bench_misuse("no model (-m)");
}
