/*
 * The subcommand's options, table and plot: see replay.h.
 */
#include "replay.h"

#include "bench_args.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_BUDGETS = 10, WIDTH = 640, HEIGHT = 400, MARGIN = 50 };

static const char usage[] = "Usage: bmoe-bench replay TRACE [--svg FILE]\n"
                            "Replays a file of --route-trace through cache policies: how often a "
                            "routed expert is there, for\n"
                            "budgets from a tenth of the experts that occur to all of them. "
                            "Belady's knows the future: the\n"
                            "bound for any policy.\n";

struct rates {
    double rate[REPLAY_POLICIES][N_BUDGETS];
};

static int compute(const struct replay_trace *t, struct rates *r)
{
    for (int p = 0; p < REPLAY_POLICIES; p++)
        for (int b = 0; b < N_BUDGETS; b++) {
            uint64_t bytes = t->total_bytes / N_BUDGETS * (uint64_t)(b + 1);
            if (b + 1 == N_BUDGETS)
                bytes = t->total_bytes;
            r->rate[p][b] = replay_hit_rate(t, (enum replay_policy)p, bytes);
            if (r->rate[p][b] < 0)
                return -1;
        }
    return 0;
}

static void print_table(const struct replay_trace *t, const struct rates *r)
{
    printf("%zu routed experts in %u layers of %u; those that occur take %.1f MiB\n\n"
           "| budget |",
           t->n, t->n_layers, t->n_expert, (double)t->total_bytes / (1 << 20));
    for (int p = 0; p < REPLAY_POLICIES; p++)
        printf(" %s |", replay_policy_names[p]);
    printf("\n|---:|");
    for (int p = 0; p < REPLAY_POLICIES; p++)
        printf("---:|");
    printf("\n");
    for (int b = 0; b < N_BUDGETS; b++) {
        printf("| %d %% |", 100 * (b + 1) / N_BUDGETS);
        for (int p = 0; p < REPLAY_POLICIES; p++)
            printf(" %.1f %% |", 100 * r->rate[p][b]);
        printf("\n");
    }
}

static void plot_axes(FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT);
    for (int i = 0; i <= 10; i += 2) {
        double x = MARGIN + (WIDTH - 2.0 * MARGIN) * i / 10;
        double y = HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * i / 10;
        fprintf(out,
                "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d %%</text>\n",
                MARGIN, y, WIDTH - MARGIN, MARGIN - 6, y + 4, 10 * i, x, HEIGHT - MARGIN + 18,
                10 * i);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">budget, part of the experts that "
            "occur</text>\n<text x=\"%d\" y=\"20\">routed experts that are there</text>\n",
            WIDTH / 2, HEIGHT - 10, MARGIN);
}

static int plot(const struct rates *r, const char *path)
{
    static const char *const colours[REPLAY_POLICIES] = {"#d62728", "#1f77b4", "#2ca02c", "#ff7f0e",
                                                         "#9467bd", "#8c564b", "#444"};
    FILE *out = fopen(path, "we");
    if (!out) {
        perror(path);
        return -1;
    }
    plot_axes(out);
    for (int p = 0; p < REPLAY_POLICIES; p++) {
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                colours[p]);
        for (int b = 0; b < N_BUDGETS; b++)
            fprintf(out, "%.1f,%.1f ", MARGIN + (WIDTH - 2.0 * MARGIN) * (b + 1) / N_BUDGETS,
                    HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * r->rate[p][b]);
        fprintf(out, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", WIDTH - 110,
                HEIGHT - 130 + 18 * p, colours[p], replay_policy_names[p]);
    }
    fprintf(out, "</svg>\n");
    if (fclose(out) != 0) {
        perror(path);
        return -1;
    }
    return 0;
}

int replay_main(int argc, char **argv)
{
    const char *svg = NULL;
    const struct bench_arg args[] = {{"svg", ARG_TEXT, &svg, 0, NULL}};
    struct replay_trace t;
    struct rates r;
    int at = 0, rc = bench_args(args, 1, usage, argc, argv, &at);
    if (rc >= 0)
        return rc;
    if (at + 1 != argc)
        return bench_misuse("one trace is replayed");
    if (replay_trace_read(&t, argv[at]) < 0)
        return 1;
    rc = compute(&t, &r);
    if (rc == 0)
        print_table(&t, &r);
    else
        fprintf(stderr, "bmoe-bench: no memory for the replay\n");
    if (rc == 0 && svg)
        rc = plot(&r, svg);
    replay_trace_fini(&t);
    return rc != 0;
}
