/*
 * One session for each budget and one with everything resident, repetition by repetition in turn.
 */
#include "sweep.h"

#include "bench_args.h"

#include <stdio.h>

static const char usage[] =
    "Usage: bmoe-bench sweep -m MODEL [-o DIR] [--name NAME] [--check FILE] [--reps N] [-t N]\n"
    "                        [--io-threads N] [--keep FILE]\n"
    "Measures prefill and decode at 1/16, 1/8, 1/4 and 1/2 of the experts, beside everything\n"
    "resident, the run's own reads alone, both at once, and stock libllama with the file in "
    "memory. Writes\n"
    "DIR/NAME.csv, .md and .svg (DIR: ., NAME: budgets). With --check it writes nothing, compares "
    "the\n"
    "ratios to the limit with those in FILE, an earlier sweep's CSV, and fails where one is more "
    "than\n"
    "15 % worse. With --keep the repetitions are added to those in FILE, as they end, and the "
    "medians "
    "are\n"
    "of all of them.\n";

static const unsigned parts[SWEEP_BUDGETS] = {16, 8, 4, 2};
static const unsigned phase_tokens[BENCH_N_PHASES] = {256, 512, 0}; /* 0: n_decode */

static double tokens_of(const struct bench_options *o, int phase)
{
    return phase_tokens[phase] ? phase_tokens[phase] : o->n_decode;
}

static int open_all(struct bench_case *cases, struct bench_options *o, struct sweep_rates *r,
                    struct bmoe_error *err)
{
    struct bmoe_info info = {.size = sizeof info};
    int rc = bench_case_open(&cases[0], o, err);
    if (rc < 0)
        return rc;
    bmoe_session_describe(cases[0].session, &info);
    for (int b = 0; b < SWEEP_BUDGETS; b++) {
        r->budget[b].part = parts[b];
        r->budget[b].mib = (double)info.expert_bytes / parts[b] / (1 << 20);
        o->cache_bytes = info.expert_bytes / parts[b];
        cases[b + 1].streamed = true;
        rc = bench_case_open(&cases[b + 1], o, err);
        if (rc < 0)
            return rc;
    }
    return BMOE_OK;
}

static void summarise(const struct bench_case *cases, const struct sweep_runs *runs,
                      const struct bench_options *o, struct sweep_rates *r)
{
    r->reps = runs->reps;
    for (int p = 0; p < BENCH_N_PHASES; p++) {
        double n = tokens_of(o, p);
        r->compute[p] = n / bench_median(cases[0].times.wall[p], r->reps);
        if (runs->times[SWEEP_STOCK]->wall[p][0] > 0)
            r->stock[p] = n / bench_median(runs->times[SWEEP_STOCK]->wall[p], r->reps);
        for (int b = 0; b < SWEEP_BUDGETS; b++) {
            const struct bench_times *t = &cases[b + 1].times;
            double limits[BENCH_MAX_REPS];
            bench_limits(&cases[b + 1], &cases[0], p, r->reps, limits);
            r->budget[b].rate[p] = n / bench_median(t->wall[p], r->reps);
            r->budget[b].limit[p] = n / bench_median(limits, r->reps);
            r->budget[b].both[p] = n / bench_median(t->both[p], r->reps);
            r->budget[b].ratio[p] = bench_ratio(t->wall[p], limits, r->reps);
            r->budget[b].ratio_both[p] = bench_ratio(t->wall[p], t->both[p], r->reps);
        }
    }
}

/* Stock libllama's turn; what it took goes where a case's own does. */
static void stock_turn(struct bench_stock *s, struct bench_times *t, unsigned rep)
{
    if (s->ctx &&
        bench_stock_run(s, &t->wall[PHASE_PREFILL_512][rep], &t->wall[PHASE_DECODE][rep]) != 0)
        bench_stock_close(s);
}

/* One repetition of all, number runs->reps. */
static int repetition(struct bench_case *cases, struct bench_stock *stock,
                      const struct bench_options *o, struct sweep_runs *runs,
                      struct bmoe_error *err)
{
    unsigned i = runs->reps;
    int rc = BMOE_OK;
    stock_turn(stock, runs->times[SWEEP_STOCK], i);
    for (int c = 0; rc == BMOE_OK && c <= SWEEP_BUDGETS; c++) {
        fprintf(stderr, "\r%u: %d of %d", i + 1, c + 1, SWEEP_BUDGETS + 1);
        rc = bench_case_run(&cases[c], o, i, err);
        if (rc == BMOE_OK && c > 0)
            rc = bench_case_both(&cases[c], &cases[0], o, i, err);
    }
    fprintf(stderr, "\r%20s\r", "");
    if (rc == BMOE_OK)
        runs->reps++;
    return rc;
}

static int measure(struct bench_options *o, const char *keep, struct sweep_rates *r,
                   struct bmoe_error *err)
{
    static struct bench_case cases[SWEEP_BUDGETS + 1] = {{.name = "resident"}};
    static struct bench_times stock_times;
    struct sweep_runs runs = {.model = o->model, .n_decode = o->n_decode};
    struct bench_stock stock = {0};
    for (int c = 0; c <= SWEEP_BUDGETS; c++)
        runs.times[c] = &cases[c].times;
    runs.times[SWEEP_STOCK] = &stock_times;
    if (keep && sweep_keep_load(keep, &runs) < 0)
        return BMOE_E_MISUSE;
    unsigned until = runs.reps + o->reps;
    int rc = open_all(cases, o, r, err);
    if (rc == BMOE_OK)
        bench_stock_open(&stock, o, true);
    while (rc == BMOE_OK && runs.reps < until && runs.reps < BENCH_MAX_REPS) {
        rc = repetition(cases, &stock, o, &runs, err);
        if (rc == BMOE_OK && keep && sweep_keep_add(keep, &runs) < 0)
            rc = BMOE_E_IO;
    }
    for (int b = 1; rc == BMOE_OK && b <= SWEEP_BUDGETS; b++)
        if (cases[b].times.logits != cases[0].times.logits)
            printf("DIFFERENT BITS at 1/%u\n", parts[b - 1]);
    if (rc == BMOE_OK)
        summarise(cases, &runs, o, r);
    bench_stock_close(&stock);
    for (int c = 0; c <= SWEEP_BUDGETS; c++)
        bench_case_close(&cases[c]);
    return rc;
}

struct sweep_options {
    struct bench_options bench;
    struct sweep_paths to;
    const char *check, *keep;
};

static int sweep(struct sweep_options *o)
{
    struct sweep_rates r = {0};
    struct bmoe_error err = {0};
    int rc = measure(&o->bench, o->keep, &r, &err);
    if (rc < 0) {
        if (err.text[0])
            fprintf(stderr, "bmoe-bench: %s\n", err.text);
        return 1;
    }
    return (o->check ? sweep_check(&r, o->check) : sweep_write(&r, &o->to)) != 0;
}

int sweep_main(int argc, char **argv)
{
    char command[1024];
    struct sweep_options o = {.bench = {.reps = 5, .n_decode = 32, .repack = BMOE_AUTO},
                              .to = {.dir = ".", .name = "budgets", .command = command}};
    const struct bench_arg args[] = {{"m", ARG_TEXT, &o.bench.model, 0, NULL},
                                     {"o", ARG_TEXT, &o.to.dir, 0, NULL},
                                     {"name", ARG_TEXT, &o.to.name, 0, NULL},
                                     {"keep", ARG_TEXT, &o.keep, 0, NULL},
                                     {"check", ARG_TEXT, &o.check, 0, NULL},
                                     {"reps", ARG_NUMBER, &o.bench.reps, BENCH_MAX_REPS, NULL},
                                     {"t", ARG_NUMBER, &o.bench.threads, 512, NULL},
                                     {"io-threads", ARG_NUMBER, &o.bench.readers, 16, NULL}};
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    if (rc >= 0)
        return rc;
    return o.bench.model ? sweep(&o) : bench_misuse("no model (-m)");
}
