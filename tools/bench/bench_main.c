/* Options, and the interleaving of the cases. */
#include "bench.h"

#include "bench_args.h"
#include "device_command.h"
#include "explain.h"
#include "hints.h"
#include "omp_spin.h"
#include "replay.h"
#include "retention.h"
#include "scale.h"
#include "sweep.h"
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "Usage: bmoe-bench -m MODEL [OPTION]...\n"
    "       bmoe-bench sweep -m MODEL [-o DIR]\n"
    "       bmoe-bench explain -m MODEL [OPTION]...\n"
    "       bmoe-bench hints -m MODEL [OPTION]...\n"
    "       bmoe-bench timeline -m MODEL [--part N] [-o DIR]\n"
    "       bmoe-bench scale MODEL...\n"
    "       bmoe-bench retention -m MODEL --trained MODEL [-o DIR]\n"
    "       bmoe-bench replay TRACE [--svg FILE]\n"
    "       bmoe-bench device -m MODEL --routes FILE [OPTION]...\n"
    "Prints how near streamed runs come to max(compute, reads), and to both at once, all in one "
    "run, "
    "as ratios.\n\n"
    "  -m MODEL       a GGUF file with experts (make bench makes one of 4.3 GB)\n"
    "  --cache-mb N   budget of resident experts (700)\n"
    "  --reps N       repetitions, of which medians are printed (5)\n"
    "  -t N           threads (the CPUs this process may use)\n"
    "  --io-threads N readers (4)\n"
    "  -n N           tokens decoded (32)\n"
    "  --repack on|off|both  layouts of the weights (both)\n"
    "  --place move|copy|none|all  how pages are placed (all)\n"
    "  --limit-mb N   memory for the comparison with stock libllama (a third of the file)\n"
    "  --no-limit     leave that comparison out\n";

static int parse(struct bench_options *o, int argc, char **argv)
{
    static const char *const layouts[] = {"both", "on", "off", NULL};
    const struct bench_arg args[] = {{"m", ARG_TEXT, &o->model, 0, NULL},
                                     {"cache-mb", ARG_MIB, &o->cache_bytes, 0, NULL},
                                     {"reps", ARG_NUMBER, &o->reps, BENCH_MAX_REPS, NULL},
                                     {"t", ARG_NUMBER, &o->threads, 512, NULL},
                                     {"io-threads", ARG_NUMBER, &o->readers, 16, NULL},
                                     {"n", ARG_NUMBER, &o->n_decode, BENCH_MAX_DECODE, NULL},
                                     {"repack", ARG_CHOICE, &o->repack, 0, layouts},
                                     {"place", ARG_CHOICE, &o->place, 0, bench_places},
                                     {"limit-mb", ARG_MIB, &o->limit_bytes, 0, NULL},
                                     {"no-limit", ARG_FLAG, &o->no_limit, 0, NULL}};
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    return rc < 0 && !o->model ? bench_misuse("no model (-m)") : rc;
}

static unsigned list_cases(struct bench_case *cases, const struct bench_options *o)
{
    static const char *const places[] = {"", "move", "copy", "none"};
    unsigned n = 0;
    for (int repack = BMOE_ON; repack <= BMOE_OFF; repack++) {
        if (o->repack != BMOE_AUTO && o->repack != repack)
            continue;
        const char *layout = repack == BMOE_ON ? "repacked" : "plain";
        for (int place = BMOE_PLACE_AUTO; place <= BMOE_PLACE_NONE; place++) {
            if (place && o->place && place != o->place)
                continue;
            struct bench_case *c = &cases[n++];
            *c = (struct bench_case){.streamed = place != BMOE_PLACE_AUTO,
                                     .place = (enum bmoe_place)place,
                                     .repack = (enum bmoe_tristate)repack};
            snprintf(c->name, sizeof c->name, "%s %s", c->streamed ? places[place] : "resident",
                     layout);
        }
    }
    return n;
}

static int run_all(struct bench_case *cases, unsigned n, const struct bench_options *o,
                   struct bmoe_error *err)
{
    for (unsigned i = 0; i < n; i++) {
        int rc = bench_case_open(&cases[i], o, err);
        if (rc < 0)
            return rc;
    }
    for (unsigned r = 0; r < o->reps; r++)
        for (unsigned i = 0; i < n; i++) {
            fprintf(stderr, "\r%u of %u: %-24s", r + 1, o->reps, cases[i].name);
            const struct bench_case *resident = bench_resident_of(cases, n, &cases[i]);
            int rc = bench_case_run(&cases[i], o, r, err);
            if (rc >= 0 && cases[i].streamed && resident)
                rc = bench_case_both(&cases[i], resident, o, r, err);
            if (rc < 0)
                return rc;
        }
    fprintf(stderr, "\r%40s\r", "");
    return 0;
}

typedef int command_fn(int argc, char **argv);

static command_fn *find_command(const char *name)
{
    static const struct {
        const char *name;
        command_fn *run;
    } commands[] = {{"sweep", sweep_main},       {"explain", explain_main},
                    {"timeline", timeline_main}, {"hints", hints_main},
                    {"scale", scale_main},       {"retention", retention_main},
                    {"device", device_main}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run;
    return NULL;
}

int main(int argc, char **argv)
{
    struct bench_options o = {
        .cache_bytes = (uint64_t)700 << 20, .reps = 5, .readers = 4, .n_decode = 32};
    static struct bench_case cases[BENCH_MAX_CASES];
    struct bmoe_error err = {0};
    struct stat st;
    if (argc > 1 && strcmp(argv[1], "replay") == 0)
        return replay_main(argc - 1, argv + 1);
    omp_spin_settle(argv);
    command_fn *command = argc > 1 ? find_command(argv[1] + strspn(argv[1], "-")) : NULL;
    if (command)
        return command(argc - 1, argv + 1);
    int rc = parse(&o, argc, argv);
    if (rc >= 0)
        return rc;
    if (stat(o.model, &st) < 0) {
        fprintf(stderr, "bmoe-bench: %s: %s\n", o.model, strerror(errno));
        return 1;
    }
    if (!o.limit_bytes)
        o.limit_bytes = (uint64_t)st.st_size / 3;
    /* First, while this process is small: its children are forks of it. */
    if (!o.no_limit)
        bench_limit(&o);
    unsigned n = list_cases(cases, &o);
    rc = run_all(cases, n, &o, &err);
    if (rc < 0)
        fprintf(stderr, "bmoe-bench: %s\n", err.text);
    else
        bench_report(cases, n, &o);
    for (unsigned i = 0; i < n; i++)
        bench_case_close(&cases[i]);
    return rc < 0;
}
