/*
 * The subcommand and its recording: see timeline.h. The third of a few requests is drawn, when all
 * that happens once has happened; of its answer the last token.
 */
#include "timeline.h"

#include "bench.h"
#include "bench_args.h"

#include "base/clock.h"
#include "engine/session_hooks.h"

#include <ggml.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: bmoe-bench timeline -m MODEL [--part N] [--prompt N] [-t N] [-o DIR]\n"
    "Draws one prompt piece (512 tokens) and one token of an answer at a budget of 1/N of the "
    "experts\n"
    "(8): computing by layer, waits, reads. Writes DIR/timeline-ubatch.svg and "
    "timeline-token.svg.\n";

enum { WARM_UP = 2, ANSWER = 12 };

struct recorder {
    struct timeline t[2]; /* of the last prompt, of the last token */
    struct timeline *now; /* NULL: nothing is recorded */
    struct pager *pager;
    int64_t from_us;
    uint64_t waited_us;
    int layer;
    enum span_kind kind;
    bool failed;
};

static void add(struct recorder *r, enum span_kind kind, int layer)
{
    struct timeline *t = r->now;
    int64_t now = clock_now_us();
    if (t->n_spans == t->room) {
        size_t room = t->room * 2 + 1024;
        struct span *more = realloc(t->spans, room * sizeof *more);
        r->failed |= !more;
        if (!more)
            return;
        t->spans = more;
        t->room = room;
    }
    t->spans[t->n_spans++] =
        (struct span){.from_us = r->from_us, .to_us = now, .kind = kind, .layer = layer};
    r->from_us = now;
}

/* libllama ends the names of a layer's nodes with its number. */
static int layer_of(const struct ggml_tensor *node)
{
    const char *dash = strrchr(node->name, '-');
    char *end;
    long n = dash ? strtol(dash + 1, &end, 10) : -1;
    return dash && end != dash + 1 && n < 10000 ? (int)n : -1;
}

static uint64_t waited(const struct recorder *r)
{
    struct pager_counters c;
    pager_counters_read(r->pager, &c);
    return c.pin_wait_us;
}

static void graph_begins(struct recorder *r)
{
    struct pager_read_record *before = NULL;
    pager_trace_take(r->pager, &before);
    free(before);
    r->now->n_spans = 0;
    r->now->from_us = r->from_us = clock_now_us();
    r->waited_us = waited(r);
    r->layer = 0;
    r->kind = SPAN_DENSE;
}

static void graph_ends(struct recorder *r)
{
    add(r, r->kind, r->layer);
    free(r->now->reads);
    r->now->reads = NULL;
    r->now->n_reads = pager_trace_take(r->pager, &r->now->reads);
    r->now->to_us = clock_now_us();
}

/* A hook is a wait when the pager waited in it. What is computed next is what was asked for last.
 */
static void hook_left(struct recorder *r, const struct ggml_tensor *node)
{
    uint64_t now = waited(r);
    add(r, now > r->waited_us ? SPAN_WAIT : SPAN_HOOK, r->layer);
    r->waited_us = now;
    r->kind = node->op == GGML_OP_MUL_MAT_ID ? SPAN_EXPERTS : SPAN_DENSE;
    if (layer_of(node) >= 0)
        r->layer = layer_of(node);
}

static bool on_moment(void *user, enum session_moment m, const struct ggml_tensor *node)
{
    struct recorder *r = user;
    if (!r->now)
        return false;
    if (m == MOMENT_GRAPH_BEGINS)
        graph_begins(r);
    else if (m == MOMENT_GRAPH_ENDS)
        graph_ends(r);
    else if (m == MOMENT_NODE_TOLD)
        add(r, r->kind, r->layer);
    else if (m == MOMENT_NODE_WANTED || m == MOMENT_NODE_SETTLED)
        hook_left(r, node);
    return false;
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct recorder *r = user;
    (void)logits;
    (void)n_vocab;
    if (r->now && prompt)
        r->now = &r->t[1];
}

static int run(struct recorder *r, struct bmoe_session *s, unsigned n_prompt,
               struct bmoe_error *err)
{
    int32_t tokens[512];
    struct bmoe_info info = {.size = sizeof info};
    int rc = 0;
    bmoe_session_describe(s, &info);
    bench_tokens(tokens, n_prompt, info.n_vocab);
    r->pager = session_pager(s);
    for (int i = 0; rc >= 0 && i <= WARM_UP; i++) {
        struct bmoe_generate g;
        bench_generate_init(&g, tokens, n_prompt, ANSWER + 1);
        g.on_logits = on_logits;
        g.user = r;
        pager_drop_all(r->pager);
        r->now = i == WARM_UP ? &r->t[0] : NULL;
        pager_trace_reads(r->pager, r->now);
        rc = bmoe_session_generate(s, &g, NULL, err);
    }
    return rc;
}

static int open_streamed(struct recorder *r, const struct bench_options *o, unsigned part,
                         struct bmoe_session **out, struct bmoe_error *err)
{
    struct session_hooks hooks = {.on_moment = on_moment, .moment_user = r};
    struct bmoe_info info = {.size = sizeof info};
    struct bmoe_options b;
    bmoe_options_init(&b);
    b.model = o->model;
    b.stream = BMOE_ON;
    b.n_threads = o->threads;
    b.n_ctx = 1024;
    b.cache_bytes = UINT64_C(1) << 30; /* to learn how large the experts are */
    int rc = bmoe_session_open(out, &b, err);
    if (rc < 0)
        return rc;
    bmoe_session_describe(*out, &info);
    b.cache_bytes = info.expert_bytes / part;
    bmoe_session_close(*out);
    *out = NULL;
    return session_open_hooked(out, &b, &hooks, err);
}

static int timeline(const struct bench_options *o, unsigned part, unsigned n_prompt,
                    const char *dir, const char *command)
{
    static struct recorder r = {.t = {{.title = "A prompt piece"}, {.title = "A token"}}};
    struct bmoe_session *s = NULL;
    struct bmoe_error err = {0};
    r.t[0].command = r.t[1].command = command;
    int rc = open_streamed(&r, o, part, &s, &err);
    if (rc >= 0)
        rc = run(&r, s, n_prompt, &err);
    bmoe_session_close(s);
    if (rc < 0 || r.failed)
        fprintf(stderr, "bmoe-bench: %s\n", r.failed ? "no memory for the timeline" : err.text);
    else if (timeline_write(&r.t[0], dir, "ubatch") < 0 ||
             timeline_write(&r.t[1], dir, "token") < 0)
        rc = -1;
    for (int i = 0; i < 2; i++) {
        free(r.t[i].spans);
        free(r.t[i].reads);
        r.t[i].command = NULL;
    }
    return rc < 0 || r.failed;
}

int timeline_main(int argc, char **argv)
{
    struct bench_options o = {0};
    unsigned part = 8, n_prompt = 512;
    const char *dir = ".";
    const struct bench_arg args[] = {{"m", ARG_TEXT, &o.model, 0, NULL},
                                     {"o", ARG_TEXT, &dir, 0, NULL},
                                     {"t", ARG_NUMBER, &o.threads, 512, NULL},
                                     {"prompt", ARG_NUMBER, &n_prompt, 512, NULL},
                                     {"part", ARG_NUMBER, &part, 0, NULL}};
    char command[1024];
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    if (rc >= 0)
        return rc;
    return o.model ? timeline(&o, part, n_prompt, dir, command) : bench_misuse("no model (-m)");
}
