/*
 * The runs: see retention.h. All weights are resident, which changes no routing. Seeds are fixed.
 */
#include "retention.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

struct recorder {
    struct replay_trace *trace;
    uint32_t layer, position;
    bool any, prompt, failed;
};

/* Each expert once per graph and layer: in a prompt several tokens route to it. */
static void on_route(void *user, const struct bmoe_route *r)
{
    struct recorder *x = user;
    bool graph = !x->any || r->layer < x->layer || r->prefill != x->prompt ||
                 (!r->prefill && r->position != x->position);
    unsigned marks = (graph ? REPLAY_GRAPH : 0) | (r->prefill ? REPLAY_PROMPT : 0);
    if (graph || r->layer != x->layer)
        marks |= REPLAY_ROUTING;
    x->any = true;
    x->layer = r->layer;
    x->position = r->position;
    x->prompt = r->prefill;
    if (r->first &&
        replay_trace_add(x->trace, r->layer, r->n_expert, r->expert, r->expert_bytes, marks) < 0)
        x->failed = true;
}

static struct bmoe_session *open_model(const char *path, struct recorder *x, struct bmoe_error *err)
{
    struct bmoe_session *s = NULL;
    struct bmoe_options o;
    bmoe_options_init(&o);
    o.model = path;
    o.stream = BMOE_OFF;
    o.n_ctx = 1024;
    o.on_route = on_route;
    o.trace_user = x;
    return bmoe_session_open(&s, &o, err) < 0 ? NULL : s;
}

static int ask(struct bmoe_session *s, struct bmoe_generate *g, struct bmoe_error *err)
{
    g->ignore_eos = true;
    g->sampling.temp = 0.8f;
    g->sampling.seed = 1;
    return bmoe_session_generate(s, g, NULL, err);
}

/* n_turns prompts of random tokens, each with its answer; nothing is kept between them. */
static int random_turns(struct bmoe_session *s, unsigned n_turns, unsigned n_prompt,
                        unsigned n_answer, struct bmoe_error *err)
{
    int32_t tokens[1024];
    struct bmoe_info info = {.size = sizeof info};
    int rc = 0;
    bmoe_session_describe(s, &info);
    bench_tokens(tokens, 1024, info.n_vocab);
    for (unsigned i = 0; rc >= 0 && i < n_turns; i++) {
        struct bmoe_generate g;
        bmoe_generate_init(&g);
        g.tokens = tokens + i * (1024 - n_prompt) / n_turns;
        g.n_tokens = n_prompt;
        g.n_predict = n_answer;
        rc = ask(s, &g, err);
    }
    return rc;
}

static const char *const openings[2][4] = {
    {"And it came to pass in those days, that", "And the king said unto his servants,",
     "Hear, O Israel:", "In the beginning"},
    {"The hacker ethic is", "A program that is written", "This term is used by hackers for",
     "Unix wizards say that"}};

/* Short prompts, in turn of the two texts that the model was trained on. */
static int switching(struct bmoe_session *s, unsigned n_turns, unsigned n_answer,
                     struct bmoe_error *err)
{
    int rc = 0;
    for (unsigned i = 0; rc >= 0 && i < n_turns; i++) {
        struct bmoe_generate g;
        bmoe_generate_init(&g);
        g.prompt = openings[i % 2][i / 2 % 4];
        g.prompt_bytes = strlen(g.prompt);
        g.n_predict = n_answer;
        rc = ask(s, &g, err);
    }
    return rc;
}

/* What was said goes on being part of the prompt; after four turns the next begins, as the model
 * was trained on 256 tokens. */
static int conversation(struct bmoe_session *s, unsigned n_turns, unsigned n_answer,
                        struct bmoe_error *err)
{
    char said[8192];
    size_t n = 0;
    int rc = 0;
    for (unsigned i = 0; rc >= 0 && i < n_turns; i++) {
        struct bmoe_generate g;
        struct bmoe_result r = {.size = sizeof r};
        if (i % 4 == 0)
            n = 0;
        n += (size_t)snprintf(said + n, sizeof said - n, "\n%s", openings[i / 4 % 2][i % 4]);
        bmoe_generate_init(&g);
        g.prompt = said;
        g.prompt_bytes = n;
        g.n_predict = n_answer;
        g.keep_kv = true;
        g.ignore_eos = true;
        g.sampling.temp = 0.8f;
        g.sampling.seed = 1 + i;
        rc = bmoe_session_generate(s, &g, &r, err);
        if (rc >= 0 && r.text_bytes < sizeof said - n - 256) {
            memcpy(said + n, r.text, r.text_bytes);
            n += r.text_bytes;
        }
    }
    return rc;
}

int retention_record(struct retention_trace t[RETENTION_TRACES], const char *zipf,
                     const char *trained, struct bmoe_error *err)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < RETENTION_TRACES; i++) {
        struct recorder x = {.trace = &t[i].trace};
        struct bmoe_session *s = open_model(i < 2 ? zipf : trained, &x, err);
        if (!s || replay_trace_init(&t[i].trace) < 0)
            rc = BMOE_E_MEMORY;
        else if (i == 0)
            rc = random_turns(s, 1, 64, 512, err);
        else if (i == 1)
            rc = random_turns(s, 6, 256, 64, err);
        else if (i == 2)
            rc = switching(s, 10, 128, err);
        else
            rc = conversation(s, 24, 48, err);
        bmoe_session_close(s);
        if (rc >= 0 && (x.failed || replay_trace_finish(&t[i].trace) < 0))
            rc = BMOE_E_MEMORY;
    }
    return rc;
}
