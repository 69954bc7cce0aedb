/*
 * See traces.h.
 */
#include "traces.h"

#include "cli_error.h"

#include <errno.h>
#include <string.h>

static const char *const heads[TRACE_COUNT] = {
    [TRACE_ROUTE] = "# bmoe_route_trace v1\n"
                    "turn,phase,step,layer,n_expert,slot,expert,weight,residency,expert_bytes,"
                    "dropped\n",
    [TRACE_IO] = "# bmoe_io_trace v1\nturn,step,file,reader,cause,offset,bytes,latency_us\n",
    [TRACE_GRAPH] = "# bmoe_graph_trace v1\nturn,phase,step,seq,op,name,wall_us,split,device\n",
};

static void check(struct traces *t, struct trace_file *f, bool fine)
{
    if (fine || f->failed)
        return;
    terminal_line(t->terminal, "warning: writing %s failed: %s; the trace is not whole", f->path,
                  strerror(errno));
    f->failed = true;
}

static struct trace_file *to_write(struct traces *t, enum trace_kind kind)
{
    return t->files[kind].file != NULL && !t->files[kind].failed ? &t->files[kind] : NULL;
}

static void on_route(void *user, const struct bmoe_route *r)
{
    struct traces *t = user;
    struct trace_file *f = to_write(user, TRACE_ROUTE);
    bool read = !r->resident && r->first;

    decide_probe_route(&t->probe, r);
    if (f != NULL)
        check(user, f,
              fprintf(f->file, "%u,%d,%u,%u,%u,%u,%u,%.9g,%d,%llu,0\n", r->request, !r->prefill,
                      r->position, r->layer, r->n_expert, r->slot, r->expert, (double)r->weight,
                      r->resident, read ? (unsigned long long)r->expert_bytes : 0ULL) > 0);
}

static void on_read(void *user, const struct bmoe_read *r)
{
    static const char *const causes[] = {[BMOE_READ_LOAD] = "load",
                                         [BMOE_READ_FAULT] = "fault",
                                         [BMOE_READ_ROUTED] = "routed",
                                         [BMOE_READ_AHEAD] = "ahead"};
    struct trace_file *f = to_write(user, TRACE_IO);

    if (f != NULL)
        check(user, f,
              fprintf(f->file, "%u,%u,%u,%u,%s,%llu,%llu,%llu\n", r->request, r->position, r->file,
                      r->reader, causes[r->cause], (unsigned long long)r->offset,
                      (unsigned long long)r->bytes, (unsigned long long)r->latency_us) > 0);
}

static void on_node(void *user, const struct bmoe_node *n)
{
    struct trace_file *f = to_write(user, TRACE_GRAPH);

    if (f != NULL)
        check(user, f,
              fprintf(f->file, "%u,%d,%u,%u,%s,%s,%lld,%u,%s\n", n->request, !n->prefill,
                      n->position, n->ordinal, n->op, n->name, (long long)n->wall_us, n->split,
                      n->device != NULL ? n->device : "") > 0);
}

static void on_lens(void *user, const struct bmoe_lens *l)
{
    struct traces *t = user;

    decide_probe_lens(&t->probe, l);
}

int traces_open(struct traces *t, const struct cli_options *o, struct terminal *terminal,
                struct bmoe_error *err)
{
    const char *const paths[TRACE_COUNT] = {o->route_trace, o->io_trace, o->graph_trace};

    t->terminal = terminal;
    for (int i = 0; i < TRACE_COUNT; i++) {
        struct trace_file *f = &t->files[i];

        if (paths[i] == NULL)
            continue;
        f->path = paths[i];
        f->file = fopen(paths[i], "we");
        if (f->file == NULL)
            return cli_error_set(err, BMOE_E_IO, "%s cannot be written: %s", paths[i],
                                 strerror(errno));
        check(t, f, fputs(heads[i], f->file) >= 0);
    }
    return o->decide_probe != NULL ? decide_probe_open(&t->probe, o->decide_probe, terminal, err)
                                   : 0;
}

void traces_attach(struct traces *t, struct bmoe_options *options)
{
    options->on_route =
        t->files[TRACE_ROUTE].file != NULL || t->probe.file != NULL ? on_route : NULL;
    options->on_read = t->files[TRACE_IO].file != NULL ? on_read : NULL;
    options->on_node = t->files[TRACE_GRAPH].file != NULL ? on_node : NULL;
    options->on_lens = t->probe.file != NULL ? on_lens : NULL;
    options->trace_user = t;
}

bool traces_close(struct traces *t)
{
    bool whole = true;

    for (int i = 0; i < TRACE_COUNT; i++) {
        if (t->files[i].file != NULL)
            check(t, &t->files[i], fclose(t->files[i].file) == 0);
        t->files[i].file = NULL;
        whole &= !t->files[i].failed;
    }
    decide_probe_close(&t->probe);
    return whole && !t->probe.failed;
}
