/* The engine through its public interface, collecting every row that it tells. */
#include "gate_run.h"
#include "gate_text.h"

#include <stdio.h>
#include <string.h>

struct sink {
    struct gate_rows *rows;
    bool failed;
};

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    (void)prompt;
    struct sink *sink = user;
    sink->failed |= !gate_rows_add(sink->rows, logits, n_vocab);
}

static void on_log(void *user, enum bmoe_log_level level, const char *line)
{
    (void)user;
    if (level == BMOE_LOG_WARN)
        fprintf(stderr, "bmoe: %s\n", line);
}

static int generate(struct bmoe_session *s, const struct gate_case *c, uint32_t prompt_bytes,
                    struct sink *sink, struct gate_result *out, struct bmoe_error *err)
{
    struct bmoe_generate g;
    struct bmoe_result r = {.size = sizeof r};
    bmoe_generate_init(&g);
    g.prompt = gate_text(prompt_bytes);
    g.prompt_bytes = prompt_bytes;
    g.n_predict = c->n_decode + 1; /* the last token is chosen, not run */
    g.ignore_eos = true;
    g.sampling = (struct bmoe_sampling){
        .temp = c->greedy ? 0 : 1, .top_p = 1, .repeat_penalty = 1, .seed = GATE_SEED};
    g.on_logits = on_logits;
    g.user = sink;
    int rc = bmoe_session_generate(s, &g, &r, err);
    out->n_prompt = r.n_prompt;
    return rc;
}

/* The sizes that a budget is made of are known once the model is open. */
void gate_probe(const struct gate_case *c, struct gate_result *out)
{
    struct bmoe_error err = {0};
    struct bmoe_options o;
    struct bmoe_session *s = NULL;
    gate_case_options(c, true, &o);
    out->code = bmoe_session_open(&s, &o, &err);
    snprintf(out->text, sizeof out->text, "%s", err.text);
    if (out->code < 0)
        return;
    out->info.size = sizeof out->info;
    bmoe_session_describe(s, &out->info);
    bmoe_session_close(s);
}

void gate_bmoe(const struct gate_case *c, bool streamed, uint32_t prompt_bytes,
               struct gate_rows *rows, struct gate_result *out)
{
    struct bmoe_error err = {0};
    struct bmoe_options o;
    struct bmoe_session *s = NULL;
    struct sink sink = {.rows = rows};
    gate_case_options(c, streamed, &o);
    o.log = on_log;
    int rc = bmoe_session_open(&s, &o, &err);
    if (rc == BMOE_OK) {
        out->info.size = sizeof out->info;
        bmoe_session_describe(s, &out->info);
        snprintf(out->mode, sizeof out->mode, "%s", out->info.mode);
        rc = generate(s, c, prompt_bytes, &sink, out, &err);
        out->stats.size = sizeof out->stats;
        bmoe_session_stats(s, &out->stats);
    }
    bmoe_session_close(s);
    if (rc == BMOE_OK && sink.failed)
        rc = BMOE_E_INTERNAL;
    out->code = rc;
    snprintf(out->text, sizeof out->text, "%s", err.text);
}
