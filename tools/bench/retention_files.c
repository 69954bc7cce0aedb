/*
 * The results as numbers, as tables and as a picture. The rate of a trace with prompts in between
 * is that of single tokens: a prompt of some hundred asks for nearly all there is whatever was
 * kept.
 */
#include "retention.h"

#include "bench.h"

#include <string.h>

enum { PANEL_W = 400, PANEL_H = 260, LEFT = 44, TOP = 40, BOTTOM = 34, RIGHT = 12 };

static const enum replay_policy online[] = {REPLAY_LRU, REPLAY_LFU, REPLAY_SLRU, REPLAY_TINYLFU};
enum { N_ONLINE = sizeof online / sizeof *online };

static double rate(const struct retention_trace *t, int policy, int budget)
{
    const struct replay_hits *h = &t->hits[policy][budget];
    return h->decode_uses ? (double)h->decode_hits / (double)h->decode_uses : 0;
}

/* Ours by the best online policy. */
static double by_best(const struct retention_trace *t, int b)
{
    double best = 0;
    for (int i = 0; i < N_ONLINE; i++)
        if (rate(t, online[i], b) > best)
            best = rate(t, online[i], b);
    return best > 0 ? rate(t, REPLAY_OURS, b) / best : 1;
}

static int write_csv(const struct retention_trace *traces, const char *dir)
{
    FILE *f = bench_create(dir, "retention", ".csv");
    if (!f)
        return -1;
    fprintf(f, "trace,budget_percent,policy,hit_rate,hit_rate_with_prompts\n");
    for (int t = 0; t < RETENTION_TRACES; t++)
        for (int b = 0; b < RETENTION_BUDGETS; b++)
            for (int p = 0; p < REPLAY_POLICIES; p++) {
                const struct replay_hits *h = &traces[t].hits[p][b];
                fprintf(f, "%s,%d,%s,%.4f,%.4f\n", traces[t].name,
                        100 / RETENTION_BUDGETS * (b + 1), replay_policy_names[p],
                        rate(&traces[t], p, b), (double)h->hits / (double)h->uses);
            }
    return bench_finish(f, "retention.csv");
}

static void table(FILE *f, const struct retention_trace *t)
{
    fprintf(f,
            "\n## %s\n\n%c%s. %zu uses by single tokens in %u layers of %u experts.\n\n| budget |",
            t->name, t->told[0] - 'a' + 'A', t->told + 1, t->hits[0][0].decode_uses,
            t->trace.n_layers, t->trace.n_expert);
    for (int p = 0; p < REPLAY_POLICIES; p++)
        fprintf(f, " %s |", replay_policy_names[p]);
    fputs(" ours / best |\n|---:|", f);
    for (int p = 0; p <= REPLAY_POLICIES; p++)
        fputs("---:|", f);
    fputs("\n", f);
    for (int b = 0; b < RETENTION_BUDGETS; b++) {
        fprintf(f, "| %d %% |", 100 / RETENTION_BUDGETS * (b + 1));
        for (int p = 0; p < REPLAY_POLICIES; p++)
            fprintf(f, " %.1f |", 100 * rate(t, p, b));
        fprintf(f, " %.3f |\n", by_best(t, b));
    }
}

static int write_table(const struct retention_trace *traces, const char *dir, const char *command)
{
    FILE *f = bench_create(dir, "retention", ".md");
    double least = 1e9, lru = 1e9;
    if (!f)
        return -1;
    for (int t = 0; t < RETENTION_TRACES; t++)
        for (int b = 0; b < RETENTION_BUDGETS; b++) {
            double recent = rate(&traces[t], REPLAY_LRU, b), r = by_best(&traces[t], b);
            double by = recent > 0 ? rate(&traces[t], REPLAY_OURS, b) / recent : 1;
            least = r < least ? r : least;
            lru = by < lru ? by : lru;
        }
    fprintf(
        f,
        "# What is kept\n\nHow many of 100 routed experts are in memory when a token wants them, "
        "by policy and by budget (of\nthe experts that occur). *ours* is the pager's own code. "
        "*static top* keeps the most used ones of the\nwhole run, which only who knows it can "
        "choose; *Belady* knows when each is used next: the bound.\n*ours / best*: by the best of "
        "LRU, LFU, SLRU and W-TinyLFU; at the least %.3f of it, and %.3f of LRU.\n`%s` makes this "
        "again.\n",
        least, lru, command);
    for (int t = 0; t < RETENTION_TRACES; t++)
        table(f, &traces[t]);
    fputs("\n![](retention.svg)\n", f);
    return bench_finish(f, "retention.md");
}

static double y_of(double part)
{
    return PANEL_H - BOTTOM - (PANEL_H - TOP - BOTTOM) * part;
}

static void panel(FILE *f, const struct retention_trace *t, int at, const char *const *colours)
{
    fprintf(f, "<g transform=\"translate(%d,%d)\">\n<text x=\"%d\" y=\"24\">%s</text>\n",
            at % 2 * PANEL_W, at / 2 * PANEL_H, LEFT, t->name);
    for (int i = 0; i <= 10; i += 2)
        fprintf(f,
                "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%d</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d"
                "</text>\n",
                LEFT, y_of(i / 10.0), PANEL_W - RIGHT, LEFT - 6, y_of(i / 10.0) + 4, 10 * i,
                LEFT + (PANEL_W - LEFT - RIGHT) * i / 10, PANEL_H - BOTTOM + 16, 10 * i);
    for (int p = REPLAY_POLICIES - 1; p >= 0; p--) {
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"",
                colours[p], p == REPLAY_OURS ? "2.5" : "1.3",
                p >= REPLAY_STATIC ? " stroke-dasharray=\"5 4\"" : "");
        for (int b = 0; b < RETENTION_BUDGETS; b++)
            fprintf(f, "%.1f,%.1f ",
                    LEFT + (PANEL_W - LEFT - RIGHT) * (b + 1.0) / RETENTION_BUDGETS,
                    y_of(rate(t, p, b)));
        fputs("\"/>\n", f);
    }
    fputs("</g>\n", f);
}

static int write_plot(const struct retention_trace *traces, const char *dir)
{
    static const char *const colours[REPLAY_POLICIES] = {"#d62728", "#1f77b4", "#2ca02c", "#ff7f0e",
                                                         "#9467bd", "#8c564b", "#444"};
    int rows = (RETENTION_TRACES + 1) / 2;
    FILE *f = bench_create(dir, "retention", ".svg");
    if (!f)
        return -1;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n",
            2 * PANEL_W, rows * PANEL_H + 40);
    for (int t = 0; t < RETENTION_TRACES; t++)
        panel(f, &traces[t], t, colours);
    for (int p = 0; p < REPLAY_POLICIES; p++)
        fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + p * 100,
                rows * PANEL_H + 12, colours[p], replay_policy_names[p]);
    fprintf(f,
            "<text x=\"%d\" y=\"%d\">routed experts that are there (%%), by budget (%% of the "
            "experts that occur)</text>\n</svg>\n",
            LEFT, rows * PANEL_H + 32);
    return bench_finish(f, "retention.svg");
}

int retention_write(const struct retention_trace *traces, const char *dir, const char *command)
{
    int rc = write_csv(traces, dir);
    if (rc == 0)
        rc = write_table(traces, dir, command);
    return rc == 0 ? write_plot(traces, dir) : rc;
}
