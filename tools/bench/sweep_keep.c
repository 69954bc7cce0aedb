/*
 * A file of a sweep's repetitions: a line that says of what, then a line for each phase of each run
 * (with all resident, by budget, stock) of each repetition, with its seconds: all of it, its reads
 * alone, both at once. What an interruption left of a repetition is not a whole one, and an error.
 */
#include "sweep.h"

#include <errno.h>
#include <string.h>

enum { LINE = 512 };

static int head(char *out, const struct sweep_runs *runs)
{
    const char *slash = strrchr(runs->model, '/');
    int n = snprintf(out, LINE, "%s: %u tokens decoded\n", slash ? slash + 1 : runs->model,
                     runs->n_decode);
    return n > 0 && n < LINE ? 0 : -1;
}

static bool repetition_read(FILE *f, struct sweep_runs *runs)
{
    unsigned i = runs->reps;
    for (int run = 0; run < SWEEP_RUNS; run++)
        for (int p = 0; p < BENCH_N_PHASES; p++) {
            struct bench_times *t = runs->times[run];
            if (fscanf(f, " %lf %lf %lf", &t->wall[p][i], &t->reads[p][i], &t->both[p][i]) != 3)
                return false;
        }
    return true;
}

static bool at_end(FILE *f)
{
    int c = fgetc(f);
    while (c == '\n')
        c = fgetc(f);
    if (c == EOF)
        return true;
    ungetc(c, f);
    return false;
}

int sweep_keep_load(const char *path, struct sweep_runs *runs)
{
    char want[LINE], is[LINE];
    FILE *f = fopen(path, "r");
    bool ok = f && head(want, runs) == 0 && fgets(is, LINE, f) && strcmp(want, is) == 0;
    if (!f && errno == ENOENT)
        return 0;
    while (ok && !at_end(f)) {
        ok = runs->reps < BENCH_MAX_REPS && repetition_read(f, runs);
        runs->reps += ok;
    }
    if (f)
        fclose(f);
    if (!ok)
        fprintf(stderr, "bmoe-bench: %s does not hold a sweep of this model\n", path);
    return ok ? 0 : -1;
}

int sweep_keep_add(const char *path, const struct sweep_runs *runs)
{
    char first[LINE];
    unsigned i = runs->reps - 1;
    FILE *f = fopen(path, "a");
    bool ok = f && fseek(f, 0, SEEK_END) == 0 && head(first, runs) == 0;
    if (ok && ftell(f) == 0)
        ok = fputs(first, f) >= 0;
    for (int run = 0; ok && run < SWEEP_RUNS; run++)
        for (int p = 0; ok && p < BENCH_N_PHASES; p++) {
            const struct bench_times *t = runs->times[run];
            ok = fprintf(f, "%.6f %.6f %.6f\n", t->wall[p][i], t->reads[p][i], t->both[p][i]) > 0;
        }
    if (f && fclose(f) != 0)
        ok = false;
    if (!ok)
        fprintf(stderr, "bmoe-bench: %s: %s\n", path, strerror(errno));
    return ok ? 0 : -1;
}
