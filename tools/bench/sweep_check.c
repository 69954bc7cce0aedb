/* The committed ratios against fresh ones: see sweep.h. Times differ between machines and hours;
 * wall by limit, both measured in the same run, does not. */
#include "sweep.h"

#include <errno.h>
#include <string.h>

#define TOLERATED 1.15

static bool find(const struct sweep_rates *r, const char *phase, unsigned part, double *ratio)
{
    for (int p = 0; p < BENCH_N_PHASES; p++)
        for (int b = 0; b < SWEEP_BUDGETS; b++)
            if (strcmp(phase, sweep_phase_names[p]) == 0 && r->budget[b].part == part) {
                *ratio = r->budget[b].ratio[p];
                return true;
            }
    return false;
}

int sweep_check(const struct sweep_rates *r, const char *csv)
{
    FILE *f = fopen(csv, "re");
    char line[256], phase[32];
    unsigned part;
    double before, now;
    int n = 0, n_worse = 0;
    if (!f) {
        fprintf(stderr, "bmoe-bench: %s: %s\n", csv, strerror(errno));
        return -1;
    }
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%31[^,],1/%u,%*f,%*f,%*f,%lf", phase, &part, &before) != 3 ||
            !find(r, phase, part, &now))
            continue;
        bool worse = now > TOLERATED * before;
        printf("%-12s 1/%-3u %.3f of the limit, before %.3f%s\n", phase, part, now, before,
               worse ? "  WORSE" : "");
        n++;
        n_worse += worse;
    }
    fclose(f);
    if (n == BENCH_N_PHASES * SWEEP_BUDGETS)
        return n_worse;
    fprintf(stderr, "bmoe-bench: %s is not the CSV file of a sweep\n", csv);
    return -1;
}
