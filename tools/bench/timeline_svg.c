/*
 * The pictures: a row for the graph's thread, one for its layers' numbers, one a reader. What is
 * nearer than a point to its like is drawn as one.
 */
#include "timeline.h"

#include "bench.h"

enum { WIDTH = 1200, LEFT = 84, RIGHT = 28, TOP = 56, ROW = 22, GAP = 6, MAX_READERS = 16 };

static const char *const kind_colours[SPAN_KINDS] = {"#4c78a8", "#54a24b", "#e45756", "#f2a93b"};
static const char *const kind_names[SPAN_KINDS] = {"computing: dense", "computing: experts",
                                                   "waiting for reads", "hooks"};
static const char *const cause_colours[4] = {"#999", "#b03a48", "#777", "#a6bddb"};
static const char *const cause_names[4] = {"", "read: waited for", "read: routed", "read: guessed"};

struct picture {
    FILE *f;
    const struct timeline *t;
};

static double x_of(const struct picture *p, int64_t us)
{
    double part = (double)(us - p->t->from_us) / (double)(p->t->to_us - p->t->from_us);
    return LEFT + (WIDTH - LEFT - RIGHT) * (part < 0 ? 0 : part > 1 ? 1 : part);
}

static double y_of(unsigned row)
{
    return TOP + row * (double)(ROW + GAP);
}

static void box(const struct picture *p, unsigned row, int64_t from, int64_t to, const char *colour)
{
    double x = x_of(p, from), w = x_of(p, to) - x;
    fprintf(p->f, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x,
            y_of(row), w < 0.3 ? 0.3 : w, ROW, colour);
}

static void draw_graph(const struct picture *p)
{
    for (size_t i = 0, k; i < p->t->n_spans; i = k) {
        const struct span *s = &p->t->spans[i];
        int64_t to = s->to_us;
        for (k = i + 1; k < p->t->n_spans && p->t->spans[k].kind == s->kind &&
                        x_of(p, p->t->spans[k].from_us) - x_of(p, to) < 1;
             k++)
            to = p->t->spans[k].to_us;
        box(p, 0, s->from_us, to, kind_colours[s->kind]);
    }
}

static void draw_layers(const struct picture *p)
{
    for (size_t i = 0, k; i < p->t->n_spans; i = k) {
        const struct span *s = &p->t->spans[i];
        for (k = i + 1; k < p->t->n_spans && p->t->spans[k].layer == s->layer;)
            k++;
        int64_t to = p->t->spans[k - 1].to_us;
        box(p, 1, s->from_us, to, s->layer % 2 ? "#eee" : "#ddd");
        if (x_of(p, to) - x_of(p, s->from_us) > 14)
            fprintf(p->f, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%d</text>\n",
                    (x_of(p, s->from_us) + x_of(p, to)) / 2, y_of(1) + 15, s->layer);
    }
}

/* Records are in the order of their ends, so a reader's in the order of time. */
static unsigned draw_reads(const struct picture *p)
{
    unsigned n_readers = 0;
    for (unsigned reader = 0; reader < MAX_READERS; reader++) {
        int64_t from = 0, to = 0;
        unsigned cause = 4;
        for (size_t i = 0; i < p->t->n_reads; i++) {
            const struct pager_read_record *r = &p->t->reads[i];
            int64_t begin = r->end_us - (int64_t)r->latency_us;
            if (r->reader != reader || r->end_us < p->t->from_us)
                continue;
            n_readers = reader + 1;
            if (cause == r->cause && x_of(p, begin) - x_of(p, to) < 1) {
                to = r->end_us;
                continue;
            }
            if (cause < 4)
                box(p, 2 + reader, from, to, cause_colours[cause]);
            from = begin;
            to = r->end_us;
            cause = r->cause < 4 ? r->cause : 0;
        }
        if (cause < 4)
            box(p, 2 + reader, from, to, cause_colours[cause]);
    }
    return n_readers;
}

static void draw_axis(const struct picture *p, unsigned n_rows)
{
    double ms = (double)(p->t->to_us - p->t->from_us) / 1e3, step = 1;
    while (ms / step > 12)
        step *= ms / step > 60 ? 10 : ms / step > 24 ? 5 : 2;
    for (double at = 0; at <= ms; at += step)
        fprintf(p->f,
                "<path d=\"M%.1f %d V%.0f\" stroke=\"#ccc\"/><text x=\"%.1f\" y=\"%.0f\" "
                "text-anchor=\"middle\">%g ms</text>\n",
                x_of(p, p->t->from_us + (int64_t)(at * 1e3)), TOP - 4, y_of(n_rows) + 2,
                x_of(p, p->t->from_us + (int64_t)(at * 1e3)), y_of(n_rows) + 16, at);
}

static void label(const struct picture *p, unsigned row, const char *text, int number)
{
    fprintf(p->f, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s", LEFT - 8, y_of(row) + 15,
            text);
    if (number >= 0)
        fprintf(p->f, " %d", number);
    fputs("</text>\n", p->f);
}

static void draw_legend(const struct picture *p)
{
    int x = LEFT;
    for (int i = 0; i < SPAN_KINDS + 3; i++, x += 150)
        fprintf(p->f,
                "<rect x=\"%d\" y=\"32\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"42\">%s</text>\n",
                x, i < SPAN_KINDS ? kind_colours[i] : cause_colours[i - SPAN_KINDS + 1], x + 16,
                i < SPAN_KINDS ? kind_names[i] : cause_names[i - SPAN_KINDS + 1]);
}

static unsigned n_readers_of(const struct timeline *t)
{
    unsigned n = 0;
    for (size_t i = 0; i < t->n_reads; i++)
        if (t->reads[i].reader < MAX_READERS && t->reads[i].reader >= n)
            n = t->reads[i].reader + 1;
    return n;
}

int timeline_write(const struct timeline *t, const char *dir, const char *name)
{
    char file[64];
    unsigned n_rows = 2 + n_readers_of(t);
    snprintf(file, sizeof file, "timeline-%s", name);
    struct picture p = {bench_create(dir, file, ".svg"), t};
    if (!p.f)
        return -1;
    fprintf(p.f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n<text x=\"%d\" y=\"20\" font-size=\"13\">%s: %.1f ms. %s</text>\n",
            WIDTH, y_of(n_rows) + 28, LEFT, t->title, (double)(t->to_us - t->from_us) / 1e3,
            t->command);
    draw_legend(&p);
    draw_axis(&p, n_rows);
    label(&p, 0, "graph", -1);
    label(&p, 1, "layer", -1);
    draw_graph(&p);
    draw_layers(&p);
    unsigned n_readers = draw_reads(&p);
    for (unsigned r = 0; r < n_readers; r++)
        label(&p, 2 + r, "reader", (int)r);
    fputs("</svg>\n", p.f);
    return bench_finish(p.f, file);
}
