/*
 * The losses, computed from the clocks of three runs: see explain.h. Each is an amount by which the
 * streamed run's wall is longer; what no clock accounts for is left over and printed as that.
 */
#include "explain.h"

#include <math.h>

static const char *const place_names[] = {"auto", "move", "copy", "frames"};

/* Seconds of wall time. */
struct losses {
    double alone;          /* nodes computed one at a time */
    double faults, slower; /* compute threads need more CPU: first touches, the rest */
    double taken;          /* a compute thread is ready and has no CPU */
    double touches;        /* compute threads sleep in touches of absent experts */
    double read, carry, place,
        evict; /* the graph waits before a matmul; what readers do meanwhile */
    double hooks, between;
    double unexplained;
    double needed; /* of the waits: reads that outlast all computing, part of the limit */
    double limit, gap;
};

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double positive(double v)
{
    return v > 0 ? v : 0;
}

static double on_cpu(const struct phase_costs *p, unsigned n)
{
    return (p->graph_cpu + p->workers.cpu) / n;
}

/* Of the graph's thread only what can have been within compute. */
static double delays(const struct phase_costs *p)
{
    return p->workers.delay + least(p->graph.delay, positive(p->compute - p->graph_cpu));
}

static void explain_compute(struct losses *l, const struct phase_costs *s,
                            const struct phase_costs *a, const struct explain_result *r)
{
    double n = r->n_threads, cpu = on_cpu(s, r->n_threads) - on_cpu(a, r->n_threads);
    double off = s->compute - a->compute - cpu;
    double touched = s->graph.faults + s->workers.faults - a->graph.faults - a->workers.faults;
    l->faults = least(positive(touched) * r->page_touch / n, positive(cpu));
    l->slower = cpu - l->faults;
    l->taken = least(positive(off), positive(delays(s) - delays(a)));
    l->touches = least(positive(off - l->taken), s->fault_wait);
}

static void explain_waits(struct losses *l, const struct phase_costs *s)
{
    double busy = s->read + s->carry + s->place + s->evict;
    if (busy <= 0)
        return;
    l->read = s->pin_wait * s->read / busy;
    l->carry = s->pin_wait * s->carry / busy;
    l->place = s->pin_wait * s->place / busy;
    l->evict = s->pin_wait * s->evict / busy;
}

static struct losses find(const struct explain_result *r, enum explain_phase phase)
{
    const struct phase_costs *c = &r->costs[RUN_RESIDENT][phase];
    const struct phase_costs *a = &r->costs[RUN_ALONE][phase];
    const struct phase_costs *s = &r->costs[RUN_STREAMED][phase];
    struct losses l = {.alone = a->wall - c->wall,
                       .hooks = s->hooks - s->pin_wait - a->hooks,
                       .between = s->between - a->between};
    explain_compute(&l, s, a, r);
    explain_waits(&l, s);
    l.limit = c->wall > s->reads_alone ? c->wall : s->reads_alone;
    l.gap = s->wall - l.limit;
    l.needed = least(l.limit - c->wall, l.read);
    l.read -= l.needed;
    l.unexplained = s->wall - c->wall - l.needed -
                    (l.alone + l.faults + l.slower + l.taken + l.touches + l.read + l.carry +
                     l.place + l.evict + l.hooks + l.between);
    return l;
}

struct table {
    FILE *out;
    double wall, gap, per; /* seconds; what one row's milliseconds are divided by */
};

static void row(const struct table *t, const char *what, double seconds, bool loss)
{
    fprintf(t->out, "| %s | %.2f | %.1f %% |", what, 1e3 * seconds / t->per,
            100 * seconds / t->wall);
    if (loss && t->gap > 0)
        fprintf(t->out, " %.0f %% |\n", 100 * seconds / t->gap);
    else
        fputs(" |\n", t->out);
}

static void table(FILE *out, const struct explain_result *r, enum explain_phase phase)
{
    const struct phase_costs *c = &r->costs[RUN_RESIDENT][phase];
    const struct phase_costs *s = &r->costs[RUN_STREAMED][phase];
    struct losses l = find(r, phase);
    struct table t = {out, s->wall, l.gap, phase == EXPLAIN_DECODE ? r->n_decode : r->n_prompt};
    fprintf(out,
            "\n## %s\n\n%.2f ms a token; the limit %.2f (computing %.2f, reads alone %.2f); "
            "%.2f times the limit. Computing and these reads at once take %.2f: %.2f times "
            "that.\n\n| where | ms a token | of the wall | of the gap |\n"
            "|---|---:|---:|---:|\n",
            phase == EXPLAIN_DECODE ? "Decode" : "Prefill", 1e3 * s->wall / t.per,
            1e3 * l.limit / t.per, 1e3 * c->wall / t.per, 1e3 * s->reads_alone / t.per,
            s->wall / l.limit, 1e3 * s->both / t.per, s->wall / s->both);
    row(&t, "computing, as with all resident", c->compute, false);
    row(&t, "graph, sampling and the rest, as with all resident", c->wall - c->compute, false);
    row(&t, "waiting for reads that outlast it (in the limit)", l.needed, false);
    row(&t, "waiting before a matmul: reads", l.read, true);
    row(&t, "waiting before a matmul: carrying (copy or repack)", l.carry, true);
    row(&t, "waiting before a matmul: placing", l.place, true);
    row(&t, "waiting before a matmul: making room", l.evict, true);
    row(&t, "touching absent experts", l.touches, true);
    row(&t, "compute threads: first touches of pages", l.faults, true);
    row(&t, "compute threads: no CPU, a reader has it", l.taken, true);
    row(&t, "compute threads: slower on their CPU (caches, memory)", l.slower, true);
    row(&t, "scheduler: nodes computed alone", l.alone, true);
    row(&t, "hooks: hints, pins, prediction", l.hooks, true);
    row(&t, "between nodes and between tokens", l.between, true);
    row(&t, "unexplained", l.unexplained, true);
    row(&t, "**wall**", s->wall, false);
}

static void threads(FILE *out, const struct explain_result *r)
{
    static const char *const names[] = {"prefill", "decode"};
    fprintf(
        out,
        "\n## Threads\n\nSeconds of CPU a repetition; *compute* is the compute threads with "
        "all resident and streamed,\n*beyond* the process's CPU beyond that of the resident run, "
        "*delay* how long threads were ready\nwithout a CPU, *faults* minor page faults; the "
        "readers' read, carry, place and evict are wall\ntimes summed over them.\n\n"
        "| phase | compute | streamed | beyond | delay | readers' CPU | delay | faults: compute, "
        "readers | read | carry | place | evict | MiB | GB/s |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int p = 0; p < EXPLAIN_PHASES; p++) {
        const struct phase_costs *c = &r->costs[RUN_RESIDENT][p], *s = &r->costs[RUN_STREAMED][p];
        fprintf(out,
                "| %s | %.3f | %.3f | %.0f %% | %.3f | %.3f | %.3f | %.0f, %.0f | %.3f | %.3f | "
                "%.3f | %.3f | %.0f | %.2f |\n",
                names[p], c->graph.cpu + c->workers.cpu, s->graph.cpu + s->workers.cpu,
                100 * (s->process_cpu - c->process_cpu) / c->process_cpu,
                s->graph.delay + s->workers.delay, s->readers.cpu, s->readers.delay,
                s->graph.faults + s->workers.faults, s->readers.faults, s->read, s->carry, s->place,
                s->evict, s->bytes / (1 << 20),
                s->reads_alone > 0 ? s->bytes / 1e9 / s->reads_alone : 0.0);
    }
}

void explain_write(FILE *out, const struct explain_result *r)
{
    fprintf(out, "# Where the time goes: %s, %.0f MiB for %s", r->model, r->budget_mib,
            r->budget_part > 0 ? "experts" : "matrices");
    if (r->budget_part > 0)
        fprintf(out, " (%.0f %% of them)", 100 * r->budget_part);
    fprintf(
        out,
        "\n\n`%s` makes this again.\nMeans of %u repetitions in turn with the same session's all "
        "resident; %u threads, place: %s.\nA prompt of %u tokens with no %s in memory, then %u "
        "tokens of an answer.%s\n",
        r->command, r->reps, r->n_threads, place_names[r->place], r->n_prompt,
        r->budget_part > 0 ? "expert" : "matrix", r->n_decode,
        r->same_bits ? "" : "\n**The bits differ from the resident run's.**");
    for (int p = 0; p < EXPLAIN_PHASES; p++)
        table(out, r, (enum explain_phase)p);
    threads(out, r);
}
