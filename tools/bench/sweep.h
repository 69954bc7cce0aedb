/* bmoe-bench sweep: speed against the budget, beside the limit and stock libllama. */
#ifndef BMOE_BENCH_SWEEP_H
#define BMOE_BENCH_SWEEP_H

#include "bench.h"

/* The subcommand, argv[0] being "sweep"; answers the exit status. */
int sweep_main(int argc, char **argv);

enum { SWEEP_BUDGETS = 4 }; /* 1/16, 1/8, 1/4 and 1/2 of the experts */

/* Tokens a second, medians. */
struct sweep_rates {
    unsigned reps;                  /* that these are the medians of */
    double compute[BENCH_N_PHASES]; /* all resident */
    double stock[BENCH_N_PHASES];   /* stock libllama, all resident, repacked; 0: not measured */
    struct sweep_budget {
        unsigned part; /* the budget is 1 / part of the experts */
        double mib;
        double rate[BENCH_N_PHASES], limit[BENCH_N_PHASES];
        double both[BENCH_N_PHASES];  /* computing all resident and the same reads at once */
        double ratio[BENCH_N_PHASES]; /* wall / limit, by repetition, then the median */
        double ratio_both[BENCH_N_PHASES];
    } budget[SWEEP_BUDGETS];
};

extern const char *const sweep_phase_names[BENCH_N_PHASES]; /* as the CSV file has them */

/* Where the results go, and what they say of themselves. */
struct sweep_paths {
    const char *dir, *name; /* DIR/NAME.csv, .md and .svg */
    const char *command;    /* what makes them again */
};

/* What was measured: [0] with all resident, then by budget, last stock libllama. Its name and
 * numbers of decoded tokens say whether two belong together. */
enum { SWEEP_STOCK = SWEEP_BUDGETS + 1, SWEEP_RUNS };
struct sweep_runs {
    const char *model;
    unsigned n_decode, reps;
    struct bench_times *times[SWEEP_RUNS];
};

/* sweep_keep.c: a file of repetitions, so that a sweep can be made in several short goes. load adds
 * those of the file to runs (none if there is no file); add appends the last of runs to it.
 * Negative with a sentence on stderr. */
int sweep_keep_load(const char *path, struct sweep_runs *runs);
int sweep_keep_add(const char *path, const struct sweep_runs *runs);

/* sweep_files.c: negative when a file cannot be written (said on stderr). */
int sweep_write(const struct sweep_rates *r, const struct sweep_paths *to);

/* sweep_check.c: compares the ratios to the limit with those of an earlier sweep's CSV file; prints
 * each pair. The number of those that are more than 15 % worse, or negative with a sentence on
 * stderr when the file cannot be read. */
int sweep_check(const struct sweep_rates *r, const char *csv);

#endif
