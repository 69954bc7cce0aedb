/* Medians and their ratios to the limit: the larger of compute (resident, same layouts) and the
 * reads alone. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const phase_names[BENCH_N_PHASES] = {"prefill 256", "prefill 512", "decode"};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, unsigned n)
{
    double sorted[BENCH_MAX_REPS];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

const struct bench_case *bench_resident_of(const struct bench_case *cases, unsigned n,
                                           const struct bench_case *c)
{
    for (unsigned i = 0; i < n; i++)
        if (!cases[i].streamed && cases[i].repack == c->repack)
            return &cases[i];
    return NULL;
}

double bench_ratio(const double *wall, const double *limit, unsigned reps)
{
    double ratios[BENCH_MAX_REPS];
    for (unsigned r = 0; r < reps; r++)
        ratios[r] = wall[r] / limit[r];
    return bench_median(ratios, reps);
}

void bench_limits(const struct bench_case *c, const struct bench_case *resident, int phase,
                  unsigned reps, double *limits)
{
    for (unsigned r = 0; r < reps; r++) {
        double compute = resident->times.wall[phase][r], reads = c->times.reads[phase][r];
        limits[r] = reads > compute ? reads : compute;
    }
}

static void row(const struct bench_case *c, const struct bench_case *resident, unsigned reps)
{
    printf("| %-22s |", c->name);
    for (int p = 0; p < BENCH_N_PHASES; p++) {
        const struct bench_times *t = &c->times;
        double limits[BENCH_MAX_REPS];
        printf(" %6.2f |", bench_median(t->wall[p], reps));
        if (!c->streamed || !resident) {
            printf(" %6s | %5s | %4s | %6s | %4s |", "-", "-", "-", "-", "-");
            continue;
        }
        bench_limits(c, resident, p, reps, limits);
        printf(" %6.2f | %5.0f | %4.2f | %6.2f | %4.2f |", bench_median(t->reads[p], reps),
               t->read_bytes[p] / 1e6, bench_ratio(t->wall[p], limits, reps),
               bench_median(t->both[p], reps), bench_ratio(t->wall[p], t->both[p], reps));
    }
    printf("\n");
}

static void explain(const struct bench_case *cases, unsigned n)
{
    printf(
        "\nWhere the time of the last repetition went, seconds: the readers' (summed over them), "
        "the graph's\nwaits, the process's CPU; matrices of experts read for a guess, and of "
        "these used.\n"
        "| case, phase | read | carry | place | evict | wait | CPU | guessed | used |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (unsigned i = 0; i < n; i++)
        for (int p = 0; p < BENCH_N_PHASES; p++) {
            const struct bench_spent *s = &cases[i].times.spent[p];
            printf("| %s, %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %llu | %llu |\n",
                   cases[i].name, phase_names[p], s->read, s->carry, s->place, s->evict, s->wait,
                   s->cpu, (unsigned long long)s->ahead, (unsigned long long)s->used);
        }
}

static void check_bits(const struct bench_case *cases, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const struct bench_case *compute = bench_resident_of(cases, n, &cases[i]);
        if (compute && compute->times.logits != cases[i].times.logits)
            printf("DIFFERENT BITS: %s and %s\n", cases[i].name, compute->name);
    }
}

void bench_report(const struct bench_case *cases, unsigned n, const struct bench_options *o)
{
    printf("Seconds, medians of %u; reads: the phase's own reads alone; MB read; x: wall / "
           "max(compute,\nreads); both: computing all resident and making these reads at once; xb: "
           "wall / both.\n",
           o->reps);
    printf("| %-22s |", "case");
    for (int p = 0; p < BENCH_N_PHASES; p++)
        printf(" %s s | reads | MB | x | both | xb |", phase_names[p]);
    printf("\n|---|");
    for (int p = 0; p < BENCH_N_PHASES; p++)
        printf("---:|---:|---:|---:|---:|---:|");
    printf("\n");
    for (unsigned i = 0; i < n; i++)
        row(&cases[i], bench_resident_of(cases, n, &cases[i]), o->reps);
    explain(cases, n);
    check_bits(cases, n);
}
