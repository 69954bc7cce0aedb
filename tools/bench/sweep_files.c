/* A sweep's results as numbers, as a table and as a picture. */
#include "sweep.h"

#include <stddef.h>
#include <stdio.h>

enum { WIDTH = 640, HEIGHT = 360, MARGIN = 56, TICKS = 5 };

const char *const sweep_phase_names[BENCH_N_PHASES] = {"prefill_256", "prefill_512", "decode"};

static int write_csv(const struct sweep_rates *r, const struct sweep_paths *to)
{
    FILE *f = bench_create(to->dir, to->name, ".csv");
    if (!f)
        return -1;
    fprintf(f, "phase,budget_part,budget_mib,tok_s,limit_tok_s,wall_by_limit,resident_tok_s,"
               "stock_tok_s,both_tok_s,wall_by_both\n");
    for (int p = 0; p < BENCH_N_PHASES; p++)
        for (int b = 0; b < SWEEP_BUDGETS; b++) {
            const struct sweep_budget *s = &r->budget[b];
            fprintf(f, "%s,1/%u,%.1f,%.2f,%.2f,%.3f,%.2f,", sweep_phase_names[p], s->part, s->mib,
                    s->rate[p], s->limit[p], s->ratio[p], r->compute[p]);
            if (r->stock[p] > 0)
                fprintf(f, "%.2f", r->stock[p]);
            fprintf(f, ",%.2f,%.3f\n", s->both[p], s->ratio_both[p]);
        }
    return bench_finish(f, to->name);
}

static int write_table(const struct sweep_rates *r, const struct sweep_paths *to)
{
    FILE *f = bench_create(to->dir, to->name, ".md");
    if (!f)
        return -1;
    fprintf(
        f,
        "# Speed against the budget\n\nTokens a second, medians of %u; `x` is the time by "
        "that of the limit, which is the slower of\ncomputing with all weights resident and "
        "the run's own reads alone; `at once` by that of computing with all weights resident while "
        "the same\nreads are made beside it, which is what the machine can do.\n"
        "`%s` makes it again.\n\n"
        "| budget | prefill 256 | x | at once | prefill 512 | x | at once | decode | x | at once "
        "|\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        r->reps, to->command);
    for (int b = 0; b < SWEEP_BUDGETS; b++) {
        const struct sweep_budget *s = &r->budget[b];
        fprintf(f, "| 1/%u of the experts, %.0f MiB |", s->part, s->mib);
        for (int p = 0; p < BENCH_N_PHASES; p++)
            fprintf(f, " %.1f | %.2f | %.2f |", s->rate[p], s->ratio[p], s->ratio_both[p]);
        fputs("\n", f);
    }
    fputs("| all resident |", f);
    for (int p = 0; p < BENCH_N_PHASES; p++)
        fprintf(f, " %.1f | 1.00 | |", r->compute[p]);
    fputs("\n", f);
    if (r->stock[PHASE_DECODE] > 0)
        fprintf(f, "| stock libllama, all resident | - | - | | %.1f | %.2f | | %.1f | %.2f | |\n",
                r->stock[PHASE_PREFILL_512],
                r->compute[PHASE_PREFILL_512] / r->stock[PHASE_PREFILL_512], r->stock[PHASE_DECODE],
                r->compute[PHASE_DECODE] / r->stock[PHASE_DECODE]);
    fprintf(f, "\n![](%s.svg)\n", to->name);
    return bench_finish(f, to->name);
}

static double x_of(int b)
{
    return MARGIN + (WIDTH - 2.0 * MARGIN) * b / (SWEEP_BUDGETS - 1);
}

static double y_of(double share)
{
    return HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * share;
}

static void line(FILE *f, const struct sweep_rates *r, int phase, size_t of_budget,
                 const char *colour, const char *dashes)
{
    fprintf(f,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
            "points=\"",
            colour, dashes);
    for (int b = 0; b < SWEEP_BUDGETS; b++) {
        const double *rates = (const double *)((const char *)&r->budget[b] + of_budget);
        fprintf(f, "%.1f,%.1f ", x_of(b), y_of(rates[phase] / r->compute[phase]));
    }
    fputs("\"/>\n", f);
}

static int write_plot(const struct sweep_rates *r, const struct sweep_paths *to)
{
    static const char *const colours[BENCH_N_PHASES] = {"#1f77b4", "#2ca02c", "#d62728"};
    static const char *const names[BENCH_N_PHASES] = {"prefill of 256", "prefill of 512", "decode"};
    FILE *f = bench_create(to->dir, to->name, ".svg");
    if (!f)
        return -1;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"20\">speed, part of that with all experts resident; dashed: the "
            "limit, dotted: at once</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">budget, "
            "part of the "
            "experts</text>\n",
            WIDTH, HEIGHT, MARGIN, WIDTH / 2, HEIGHT - 10);
    for (int i = 0; i <= TICKS; i++)
        fprintf(f,
                "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
                MARGIN, y_of((double)i / TICKS), WIDTH - MARGIN, MARGIN - 6,
                y_of((double)i / TICKS) + 4, 100 * i / TICKS);
    for (int b = 0; b < SWEEP_BUDGETS; b++)
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">1/%u</text>\n", x_of(b),
                HEIGHT - MARGIN + 18, r->budget[b].part);
    for (int p = 0; p < BENCH_N_PHASES; p++) {
        line(f, r, p, offsetof(struct sweep_budget, rate), colours[p], "none");
        line(f, r, p, offsetof(struct sweep_budget, limit), colours[p], "8 4");
        line(f, r, p, offsetof(struct sweep_budget, both), colours[p], "2 3");
        fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", WIDTH - 170,
                HEIGHT - 120 + 18 * p, colours[p], names[p]);
    }
    fputs("</svg>\n", f);
    return bench_finish(f, to->name);
}

int sweep_write(const struct sweep_rates *r, const struct sweep_paths *to)
{
    int rc = write_csv(r, to);
    if (rc == 0)
        rc = write_table(r, to);
    return rc == 0 ? write_plot(r, to) : rc;
}
