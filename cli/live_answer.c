/*
 * generate: see live.h. The conversation is prepared in a copy and takes the session's place when
 * the answer is whole, so that a refused, failed or cancelled request leaves it as it was.
 */
#include "live.h"

#include "chat_split.h"
#include "cli_error.h"
#include "session_args.h"
#include "text_buffer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The state behind the request's callbacks. */
struct answering {
    struct live *live;
    const struct request *request;
    struct meter meter;
    struct chat_split split;
    bool chat;
    struct text_buffer reasoning, text;
    size_t reasoning_told, text_told; /* bytes that progress lines have had */
    struct timespec begun;
    bool unheard; /* a line did not get out */
};

static double ms_since(const struct timespec *begun)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begun->tv_sec) * 1e3 +
           (double)(now.tv_nsec - begun->tv_nsec) / 1e6;
}

static bool keep_part(void *user, bool thinking, const char *text, size_t bytes)
{
    struct answering *a = user;

    return text_buffer_add(thinking ? &a->reasoning : &a->text, text, bytes);
}

static bool on_text(void *user, const char *text, size_t bytes)
{
    struct answering *a = user;
    bool kept =
        a->chat ? chat_split_feed(&a->split, text, bytes) : keep_part(a, false, text, bytes);

    return kept && !a->unheard && !live_interrupted(a->live, a->request);
}

/* A progress line with what is new. */
static void tell(struct answering *a, const struct token_costs *costs)
{
    struct live_token token = {.step = a->meter.n_tokens, .costs = costs};

    token.reasoning_bytes = a->reasoning.bytes - a->reasoning_told;
    token.text_bytes = a->text.bytes - a->text_told;
    token.reasoning = token.reasoning_bytes > 0 ? a->reasoning.text + a->reasoning_told : "";
    token.text = token.text_bytes > 0 ? a->text.text + a->text_told : "";
    a->reasoning_told = a->reasoning.bytes;
    a->text_told = a->text.bytes;
    a->unheard = !live_progress(a->live, a->request, &token) || a->unheard;
}

static void on_token(void *user, int32_t token)
{
    struct answering *a = user;
    struct token_costs costs;

    (void)token;
    meter_token(&a->meter, &costs);
    csv_row(a->live->run->csv, CSV_TOKEN, &a->meter, &costs, (uint32_t)a->request->n_predict);
    tell(a, &costs);
    live_interrupted(a->live, a->request);
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct answering *a = user;

    (void)logits;
    (void)n_vocab;
    meter_logits(&a->meter, prompt);
}

static void on_prefill(void *user, uint32_t tokens_done, uint32_t tokens_total)
{
    struct answering *a = user;

    if (!live_prefill(a->live, a->request, tokens_done, tokens_total, ms_since(&a->begun)))
        a->unheard = true;
    live_interrupted(a->live, a->request);
}

/* ---- the prompt ---- */

/* What the answer is made from; texts are heap. */
struct prompt {
    struct dialogue next; /* the conversation with the new message */
    struct chat chat;
    bool chat_used;
    struct chat_prompt rendered; /* where chat_used; else the request's own text */
    uint32_t n_dropped;
};

static int copy_dialogue(struct dialogue *to, const struct dialogue *from, struct bmoe_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < from->n && rc == 0; i++)
        rc = dialogue_append(to, from->messages[i].role, from->messages[i].text,
                             from->messages[i].bytes, err);
    return rc;
}

static int copy_messages(struct dialogue *to, const json_t *messages, struct bmoe_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < json_array_size(messages) && rc == 0; i++) {
        const json_t *message = json_array_get(messages, i);
        const json_t *content = json_object_get(message, "content");
        int role = request_role(json_string_value(json_object_get(message, "role")));

        rc = dialogue_append(to, (enum chat_role)role, json_string_value(content),
                             json_string_length(content), err);
    }
    return rc;
}

static int collect(struct prompt *p, const struct live *l, const struct request *r,
                   struct bmoe_error *err)
{
    int rc = 0;

    if (r->messages != NULL)
        return copy_messages(&p->next, r->messages, err);
    if (!r->clear_kv)
        rc = copy_dialogue(&p->next, &l->said, err);
    return rc < 0 ? rc : dialogue_append(&p->next, CHAT_USER, r->prompt.text, r->prompt.bytes, err);
}

static int render(struct prompt *p, struct bmoe_error *err)
{
    chat_prompt_fini(&p->rendered);
    p->rendered = (struct chat_prompt){0};
    return chat_render(&p->chat, p->next.messages, p->next.n, &p->rendered, err);
}

static void set_prompt(struct bmoe_generate *g, const struct prompt *p, const struct request *r)
{
    g->prompt = p->chat_used ? p->rendered.text : r->prompt.text;
    g->prompt_bytes = p->chat_used ? p->rendered.bytes : r->prompt.bytes;
    g->words = p->rendered.words;
    g->n_words = p->rendered.n_words;
    g->stable_bytes = p->rendered.stable_bytes;
}

/* Leaves out the oldest exchanges until prompt and answer fit the context. */
static int fit(struct prompt *p, struct live *l, const struct request *r, struct bmoe_error *err)
{
    int64_t room = (int64_t)l->info.n_ctx - (r->n_predict > 0 ? r->n_predict : 1);
    size_t had = p->next.n;
    struct bmoe_generate g;
    int rc = 0;

    bmoe_generate_init(&g);
    while (rc == 0) {
        int64_t n;

        set_prompt(&g, p, r);
        n = bmoe_session_count_tokens(l->run->session, &g, err);
        if (n < 0)
            return (int)n;
        if (n <= room || !dialogue_drop_oldest(&p->next))
            break;
        p->n_dropped = (uint32_t)(had - p->next.n);
        rc = render(p, err);
    }
    return rc;
}

static int prepare(struct prompt *p, struct live *l, const struct request *r,
                   struct bmoe_error *err)
{
    const struct cli_options *o = l->run->options;
    int rc;

    p->chat_used = r->messages != NULL || o->chatml;
    if (!p->chat_used)
        return 0;
    rc = chat_choose(&p->chat, l->info.chat_template, o->chat_format, r->think, err);
    if (rc == 0)
        rc = collect(p, l, r, err);
    if (rc == 0)
        rc = render(p, err);
    if (rc == 0 && r->fit_ctx)
        rc = fit(p, l, r, err);
    if (rc < 0)
        err->scope = BMOE_SCOPE_REQUEST;
    return rc;
}

static void prompt_fini(struct prompt *p)
{
    dialogue_fini(&p->next);
    chat_prompt_fini(&p->rendered);
}

/* ---- the request ---- */

static size_t collect_stops(const char **stop, const struct request *r, const struct cli_options *o,
                            const struct chat *chat)
{
    size_t n = 0;

    for (size_t i = 0; r->stop == NULL && i < o->stop.n; i++)
        stop[n++] = o->stop.item[i];
    for (size_t i = 0; i < json_array_size(r->stop); i++)
        stop[n++] = json_string_value(json_array_get(r->stop, i));
    for (size_t i = 0; chat != NULL && i < CHAT_STOP_MAX; i++) {
        if (chat->format->stop[i] != NULL)
            stop[n++] = chat->format->stop[i];
    }
    return n;
}

static void fill(struct bmoe_generate *g, const struct live *l, const struct request *r)
{
    session_args_generate(g, l->run->options, l->run->grammar);
    g->n_predict = (uint32_t)r->n_predict;
    g->ignore_eos = r->ignore_eos;
    g->keep_kv = !r->clear_kv;
    g->sampling.temp = (float)r->sampling.temp;
    g->sampling.top_k = (int32_t)r->sampling.top_k;
    g->sampling.top_p = (float)r->sampling.top_p;
    g->sampling.min_p = (float)r->sampling.min_p;
    g->sampling.repeat_penalty = (float)r->sampling.repeat_penalty;
    g->sampling.seed = (uint32_t)r->sampling.seed;
    if (r->grammar.text != NULL)
        g->sampling.grammar = r->grammar.text;
    g->on_text = on_text;
    g->on_token = on_token;
    g->on_logits = on_logits;
    g->on_prefill = on_prefill;
}

/* The answer becomes part of the conversation. */
static int keep(struct live *l, struct prompt *p, const struct answering *a, struct bmoe_error *err)
{
    int rc = dialogue_append(&p->next, CHAT_ASSISTANT, a->text.bytes > 0 ? a->text.text : "",
                             a->text.bytes, err);

    if (rc == 0) {
        dialogue_fini(&l->said);
        l->said = p->next;
        p->next = (struct dialogue){0};
    }
    return rc;
}

static bool finish(struct answering *a, struct prompt *p, const struct bmoe_result *result)
{
    struct live *l = a->live;
    struct turn turn = {&a->meter, result};
    struct token_costs none = {.hit_pct = meter_hit_pct(&a->meter.after)};
    struct live_done done = {.cancelled = result->cancelled, .n_dropped = p->n_dropped};
    struct bmoe_error ignored;

    if (a->chat)
        (void)chat_split_end(&a->split);
    if (a->reasoning.bytes > a->reasoning_told || a->text.bytes > a->text_told)
        tell(a, &none); /* what was held back until the end was known */
    done.reasoning = a->reasoning.bytes > 0 ? a->reasoning.text : "";
    done.reasoning_bytes = a->reasoning.bytes;
    done.text = a->text.bytes > 0 ? a->text.text : "";
    done.text_bytes = a->text.bytes;
    csv_trailer(l->run->csv, &turn);
    if (!live_write_done(l, a->request, &turn, &done))
        return false;
    if (a->chat && !done.cancelled)
        (void)keep(l, p, a, &ignored);
    else if (!a->chat && a->request->clear_kv)
        dialogue_cut(&l->said, 0);
    return true;
}

static int generate(struct answering *a, struct prompt *p, struct bmoe_error *err)
{
    struct live *l = a->live;
    const char *stop[2 * CLI_STOP_MAX + CHAT_STOP_MAX];
    struct bmoe_result result = {.size = sizeof(result)};
    struct bmoe_generate g;
    int rc;

    fill(&g, l, a->request);
    set_prompt(&g, p, a->request);
    g.special = a->chat;
    g.stop = stop;
    g.n_stop = collect_stops(stop, a->request, l->run->options, a->chat ? &p->chat : NULL);
    g.user = a;
    meter_begin(&a->meter, l->run->session);
    csv_turn(l->run->csv);
    clock_gettime(CLOCK_MONOTONIC, &a->begun);
    if (atomic_load(&a->request->cancelled) || !cli_signals_request_begin(l->run->signals)) {
        rc = BMOE_E_CANCELLED;
        result.cancelled = true;
    } else {
        rc = bmoe_session_generate(l->run->session, &g, &result, err);
        cli_signals_request_end(l->run->signals);
    }
    meter_end(&a->meter);
    if (a->reasoning.failed || a->text.failed) {
        rc = cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the answer's text");
        err->scope = BMOE_SCOPE_REQUEST;
        return rc;
    }
    if (rc < 0 && rc != BMOE_E_CANCELLED)
        return rc;
    a->unheard = !finish(a, p, &result) || a->unheard;
    return 0;
}

int live_generate(struct live *l, const struct request *r, struct bmoe_error *err)
{
    struct answering a = {.live = l, .request = r};
    struct prompt p = {0};
    int rc;

    if (!live_begin(l, r))
        return 0;
    rc = prepare(&p, l, r, err);
    a.chat = p.chat_used;
    if (rc == 0 && a.chat)
        chat_split_init(&a.split, &p.chat, keep_part, &a);
    if (rc == 0)
        rc = generate(&a, &p, err);
    if (rc < 0)
        live_failed(l, r, err);
    text_buffer_fini(&a.reasoning);
    text_buffer_fini(&a.text);
    prompt_fini(&p);
    return rc < 0 && err->scope != BMOE_SCOPE_REQUEST ? rc : 0;
}
