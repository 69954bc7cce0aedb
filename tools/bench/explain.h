/*
 * bmoe-bench explain: where a phase's wall time goes, so that the parts add up. The graph's thread
 * is timed from moment to moment (session_hooks.h); what its compute threads did meanwhile is told
 * by the kernel: each thread of the process is read at the ends of a phase.
 *
 *   wall = compute + hooks (waits included) + between      on the graph's thread
 *   n_threads * compute = CPU of the compute threads + their waits for a CPU + their sleep
 *
 * Everything a streamed run takes beyond the same session's with all resident is a loss. Its
 * compute is compared with a resident run whose nodes are computed alone where the streamed one's
 * were.
 */
#ifndef BMOE_BENCH_EXPLAIN_H
#define BMOE_BENCH_EXPLAIN_H

#include "bench.h"

#include "engine/session_hooks.h"

#include <stdio.h>

enum explain_phase { EXPLAIN_PREFILL, EXPLAIN_DECODE, EXPLAIN_PHASES };
enum explain_run { RUN_RESIDENT, RUN_ALONE, RUN_STREAMED, EXPLAIN_RUNS };

/* Of a group of threads: seconds on a CPU and ready without one, minor faults. */
struct thread_costs {
    double cpu, delay, faults;
};

/* One phase of one run, seconds. */
struct phase_costs {
    double wall, compute, hooks, between;
    double graph_cpu; /* of the graph's thread within compute */
    struct thread_costs graph, workers, readers;
    double process_cpu;
    double pin_wait, fault_wait, read, carry, place, evict;
    double reads_alone, bytes; /* streamed: the phase's own reads replayed */
    double both;               /* streamed: computing all resident and these reads at once */
    double isolated;           /* nodes computed alone, their number */
};

/* explain_clock.c */
struct explain_clock {
    struct phase_costs now;
    int64_t from_us, cpu_from_ns; /* of the span that is under way; see its function */
    bool computing, in_graph;
    /* Ordinals of nodes computed alone, by width of the graph: noted (streamed) or asked for. */
    uint64_t *alone[EXPLAIN_PHASES];
    uint32_t ordinal;
    enum explain_phase phase;
    bool note, ask;
};
enum { EXPLAIN_MAX_NODES = 1 << 16 };
int clock_init(struct explain_clock *c);
void clock_fini(struct explain_clock *c);
bool clock_moment(void *user, enum session_moment moment, const struct ggml_tensor *node);
/* Adds (sign 1) or takes away (-1) what all threads and the pager have spent so far. */
void clock_process(struct phase_costs *out, const struct pager *pager, double sign);
/* Seconds of a first touch of fresh memory, a page. */
double clock_page_touch(void);

/* explain_report.c: means over the repetitions. */
struct explain_result {
    struct phase_costs costs[EXPLAIN_RUNS][EXPLAIN_PHASES];
    double page_touch; /* seconds */
    unsigned n_threads, n_prompt, n_decode, reps;
    double budget_mib, budget_part; /* part: 0 for a dense model */
    const char *model, *command;
    enum bmoe_place place;
    bool same_bits;
};
void explain_write(FILE *out, const struct explain_result *r);

/* The subcommand, argv[0] being "explain"; answers the exit status. */
int explain_main(int argc, char **argv);

#endif
