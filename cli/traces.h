/*
 * The files of --route-trace, --io-trace and --graph-trace, a table each with names in its first
 * line that is no comment, and the probe of --decide-probe, which listens too. Writing never ends a
 * run; a full disk is said once per file.
 */
#ifndef BMOE_CLI_TRACES_H
#define BMOE_CLI_TRACES_H

#include "decide_probe.h"
#include "options.h"
#include "terminal.h"

#include <stdio.h>

enum trace_kind { TRACE_ROUTE, TRACE_IO, TRACE_GRAPH, TRACE_COUNT };

struct trace_file {
    FILE *file;       /* NULL: not wanted */
    const char *path; /* borrowed */
    bool failed;      /* a write has failed, and that was said */
};

struct traces {
    struct decide_probe probe;
    struct trace_file files[TRACE_COUNT];
    struct terminal *terminal; /* borrowed */
};

/* Makes the files that are asked for. Before the model is opened. */
int traces_open(struct traces *t, const struct cli_options *o, struct terminal *terminal,
                struct bmoe_error *err);
/* Has the session tell its events. */
void traces_attach(struct traces *t, struct bmoe_options *options);
/* False: something of them could not be written, and that was said. */
bool traces_close(struct traces *t);

#endif
