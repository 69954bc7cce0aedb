/*
 * The lines of a session: see live.h, and docs/protocol.md for every key.
 */
#include "live.h"

#include "cli_error.h"

#include <math.h>
#include <string.h>

bool live_ready(struct live *l)
{
    const struct bmoe_info *i = &l->info;
    json_t *body =
        json_pack("{s:i, s:s, s:f, s:s, s:I, s:s, s:I, s:s}", "v", (int)LIVE_PROTOCOL, "version",
                  bmoe_version(), "load_s", i->load_s, "arch", i->arch != NULL ? i->arch : "",
                  "n_ctx", (json_int_t)i->n_ctx, "think_ctl", l->think_ctl, "n_expert_used",
                  (json_int_t)(i->n_expert > 0 ? i->n_expert_used : 0), "mode", i->mode);

    return line_write(&l->out, "READY", body, LINE_FIGURES);
}

bool live_begin(struct live *l, const struct request *r)
{
    return line_write(&l->out, "BEGIN", json_pack("{s:I}", "id", (json_int_t)r->id), LINE_FIGURES);
}

bool live_error(struct live *l, int64_t id, const char *code, enum bmoe_scope scope,
                const char *text)
{
    json_t *body = json_pack("{s:I, s:b, s:s, s:s, s:s}", "id", (json_int_t)id, "fatal",
                             (int)(scope != BMOE_SCOPE_REQUEST), "code", code, "scope",
                             cli_error_scope_name(scope), "msg", text);

    /* A sentence that quotes bytes which are no text. */
    if (body == NULL)
        body = json_pack("{s:I, s:b, s:s, s:s, s:s}", "id", (json_int_t)id, "fatal",
                         (int)(scope != BMOE_SCOPE_REQUEST), "code", code, "scope",
                         cli_error_scope_name(scope), "msg", "(the message is not UTF-8)");
    return line_write(&l->out, "ERROR", body, LINE_FIGURES);
}

bool live_failed(struct live *l, const struct request *r, const struct bmoe_error *err)
{
    return live_error(l, r->id, cli_error_code_name(err->code), err->scope, err->text);
}

bool live_stats(struct live *l, const struct request *r)
{
    struct bmoe_stats stats = {.size = sizeof(stats)};
    json_t *body =
        json_pack("{s:I, s:I}", "id", (json_int_t)r->id, "n_messages", (json_int_t)l->said.n);

    bmoe_session_stats(l->run->session, &stats);
    if (body != NULL && turn_put_counters(body, &stats) != 0) {
        json_decref(body);
        body = NULL;
    }
    return line_write(&l->out, "STATS", body, LINE_FIGURES);
}

bool live_prefill(struct live *l, const struct request *r, uint32_t tokens_done,
                  uint32_t tokens_total, double wall_ms)
{
    json_t *body = json_pack("{s:I, s:i, s:I, s:f, s:I, s:I}", "id", (json_int_t)r->id, "step", 0,
                             "steps", (json_int_t)r->n_predict, "wall_ms", wall_ms, "tokens_done",
                             (json_int_t)tokens_done, "tokens_total", (json_int_t)tokens_total);

    return line_write(&l->out, "PROGRESS", body, LINE_FIGURES);
}

/* What the token's reads were, when there were any. */
static bool write_load(struct live *l, const struct request *r, const struct token_costs *c)
{
    if (c->read_bytes <= 0 && c->io_ms <= 0)
        return true;
    return line_write(&l->out, "LOAD",
                      json_pack("{s:I, s:f, s:f}", "id", (json_int_t)r->id, "mb",
                                (double)c->read_bytes / (1 << 20), "ms", c->io_ms),
                      LINE_FIGURES);
}

bool live_progress(struct live *l, const struct request *r, const struct live_token *t)
{
    const struct token_costs *c = t->costs;
    json_t *body;

    if (!write_load(l, r, c))
        return false;
    body = json_pack(
        "{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:s%, s:s%}", "id",
        (json_int_t)r->id, "step", (json_int_t)t->step, "steps", (json_int_t)r->n_predict,
        "wall_ms", c->wall_ms, "io_ms", c->io_ms, "compute_ms", c->compute_ms, "mgmt_ms",
        c->mgmt_ms, "stall_ms", c->stall_ms, "read_mb",
        c->read_bytes < 0 ? -1.0 : (double)c->read_bytes / (1 << 20), "cache_hit_pct", c->hit_pct,
        "majflt", (json_int_t)c->majflt, "cpu_ms", c->cpu_ms, "dense_resident_frac", -1.0,
        "delta_reasoning", t->reasoning, t->reasoning_bytes, "delta_text", t->text, t->text_bytes);
    return line_write(&l->out, "PROGRESS", body, LINE_FIGURES);
}

/* Null stands for minus infinity, which JSON has not. */
static json_t *list_of(const double *values, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, isinf(values[i]) ? json_null() : json_real(values[i]));
    return list;
}

bool live_write_decide(struct live *l, const struct request *r, const struct bmoe_decide_result *d,
                       const struct bmoe_stats *before, const struct bmoe_stats *after)
{
    double stall = meter_stall_ms(before, after, l->info.n_threads_batch);
    double mgmt = meter_mgmt_ms(before, after);
    json_t *body = json_pack(
        "{s:I, s:b, s:I, s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "id",
        (json_int_t)r->id, "cancelled", (int)d->cancelled, "best",
        (json_int_t)(d->n_choices > 0 ? (json_int_t)d->best : -1), "choice_logp",
        list_of(d->choice_logp, d->n_choices), "n_tokens", (json_int_t)d->n_tokens, "n_reused",
        (json_int_t)d->n_reused, "n_prefilled", (json_int_t)d->n_prefilled, "restore_s",
        d->restore_s, "store_s", d->store_s, "prefill_s", d->prefill_s, "prefill_stall_s",
        stall < 0 ? -1.0 : stall / 1e3, "prefill_mgmt_s", mgmt < 0 ? -1.0 : mgmt / 1e3,
        "prefix_state_mib", (double)d->prefix_state_bytes / (1 << 20));

    if (body != NULL && turn_put_prefill(body, before, after) != 0) {
        json_decref(body);
        body = NULL;
    }
    return line_write(&l->out, "DECIDE", body, LINE_EXACT);
}

static const char *end_of(const struct bmoe_result *result, bool cancelled)
{
    if (cancelled)
        return "cancelled";
    if (result->stopped_by_limit)
        return "limit";
    return result->stopped_by_string ? "stop" : "model";
}

bool live_write_done(struct live *l, const struct request *r, const struct turn *turn,
                     const struct live_done *done)
{
    json_t *body =
        json_pack("{s:I, s:b, s:s, s:I, s:s%, s:s%}", "id", (json_int_t)r->id, "cancelled",
                  (int)done->cancelled, "end", end_of(turn->result, done->cancelled), "n_dropped",
                  (json_int_t)done->n_dropped, "reasoning", done->reasoning, done->reasoning_bytes,
                  "text", done->text, done->text_bytes);

    if (body != NULL && turn_put(body, turn) != 0) {
        json_decref(body);
        body = NULL;
    }
    return line_write(&l->out, "DONE", body, LINE_FIGURES);
}
