/*
 * bmoe-bench timeline: what the graph's thread and the readers do while one prompt piece and one
 * token are computed, as pictures.
 */
#ifndef BENCH_TIMELINE_H
#define BENCH_TIMELINE_H

#include "pager/pager.h"

enum span_kind { SPAN_DENSE, SPAN_EXPERTS, SPAN_WAIT, SPAN_HOOK, SPAN_KINDS };

/* On the graph's thread. */
struct span {
    int64_t from_us, to_us;
    enum span_kind kind;
    int layer; /* -1: none */
};

struct timeline {
    const char *title, *command;
    struct span *spans;
    size_t n_spans, room;
    struct pager_read_record *reads;
    size_t n_reads;
    int64_t from_us, to_us; /* the graph's ends */
};

/* timeline_svg.c: DIR/timeline-NAME.svg; negative when it cannot be written. */
int timeline_write(const struct timeline *t, const char *dir, const char *name);

/* The subcommand, argv[0] being "timeline"; answers the exit status. */
int timeline_main(int argc, char **argv);

#endif
