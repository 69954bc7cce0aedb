/*
 * Scoring choices by their first token. Prefix and suffix are tokenized and computed apart, each in
 * pieces of a ubatch, whether the prefix's state was kept or not: so the graphs, and with them the
 * bits, are the same either way. Of a state kept for another prefix only what ends on a border of
 * pieces is used, for the same reason.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct deciding {
    struct bmoe_session *s;
    const struct bmoe_decide *d;
    llama_token *tokens; /* n of them, the first n_prefix the prefix's */
    uint32_t n, n_prefix;
    llama_token *firsts; /* a token per choice */
    struct bmoe_decide_result r;
};

void bmoe_decide_init(struct bmoe_decide *d)
{
    *d = (struct bmoe_decide){.size = sizeof *d};
}

static int no_memory(struct bmoe_error *err)
{
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the decision");
}

/* ---- what is refused before anything is computed ---- */

static int first_token(struct deciding *w, size_t i, struct bmoe_error *err)
{
    llama_token *tokens = NULL;
    const char *choice = w->d->choices[i];
    int n = prompt_tokenize(w->s, choice, strlen(choice), false, &tokens, err);
    if (n > 0)
        w->firsts[i] = tokens[0];
    free(tokens);
    if (n == 0)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "choice %zu is empty: it has no first token to score", i);
    return n < 0 ? n : BMOE_OK;
}

static int read_choices(struct deciding *w, struct bmoe_error *err)
{
    if (w->d->n_choices == 0)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "the list of choices is empty: there is nothing to decide");
    w->firsts = calloc(w->d->n_choices, sizeof *w->firsts);
    if (!w->firsts)
        return no_memory(err);
    for (size_t i = 0; i < w->d->n_choices; i++) {
        int rc = first_token(w, i, err);
        if (rc < 0)
            return rc;
        for (size_t k = 0; k < i; k++)
            if (w->firsts[k] == w->firsts[i])
                return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                                 "choices %zu and %zu begin with the same token, so their scores "
                                 "would be one; give choices that differ from the start",
                                 k, i);
    }
    return BMOE_OK;
}

static int read_text(struct deciding *w, struct bmoe_error *err)
{
    const struct bmoe_decide *d = w->d;
    llama_token *prefix = NULL, *suffix = NULL;
    int n_prefix =
        prompt_tokenize(w->s, d->prefix ? d->prefix : "", d->prefix_bytes, true, &prefix, err);
    int n_suffix = n_prefix < 0 ? 0
                                : prompt_tokenize(w->s, d->suffix ? d->suffix : "", d->suffix_bytes,
                                                  false, &suffix, err);
    int rc = n_prefix < 0 ? n_prefix : n_suffix < 0 ? n_suffix : BMOE_OK;
    if (rc == BMOE_OK) {
        w->n_prefix = (uint32_t)n_prefix;
        w->n = (uint32_t)n_prefix + (uint32_t)n_suffix;
        w->tokens = malloc((w->n + 1) * sizeof *w->tokens);
        if (!w->tokens)
            rc = no_memory(err);
    }
    if (rc == BMOE_OK && n_prefix)
        memcpy(w->tokens, prefix, (size_t)n_prefix * sizeof *prefix);
    if (rc == BMOE_OK && n_suffix)
        memcpy(w->tokens + n_prefix, suffix, (size_t)n_suffix * sizeof *suffix);
    free(prefix);
    free(suffix);
    return rc;
}

static int check_size(const struct deciding *w, struct bmoe_error *err)
{
    if (w->n == 0)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST, "the prompt is empty");
    if (w->n > w->s->n_ctx)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
                         "the prompt has %u tokens and the context holds %u; give a larger context "
                         "(-c)",
                         w->n, w->s->n_ctx);
    return BMOE_OK;
}

/* ---- the work ---- */

static bool keeps_prefix(const struct deciding *w)
{
    return w->s->keep_prefix && w->d->reuse_prefix && w->n > w->n_prefix;
}

/* How much of the kept state this prefix can begin with. */
static uint32_t usable(const struct deciding *w)
{
    const struct kv_state *k = &w->s->prefix;
    uint32_t common = 0, ubatch = context_piece(w->s, UINT32_MAX);
    while (common < k->n && common < w->n_prefix && k->tokens[common] == w->tokens[common])
        common++;
    if (common == k->n && common == w->n_prefix)
        return common;
    if (common == k->n && common % ubatch == 0)
        return common;
    return state_copy_cuttable(w->s) ? common - common % ubatch : 0;
}

static void begin(struct deciding *w)
{
    struct bmoe_session *s = w->s;
    uint32_t n = keeps_prefix(w) ? usable(w) : 0;
    int64_t start = clock_now_us();
    if (n > 0 && state_restore(s, &s->prefix)) {
        w->r.n_reused = context_keep(s, n);
        w->r.restore_s = (double)(clock_now_us() - start) / 1e6;
    } else {
        context_keep(s, 0);
    }
    memcpy(s->tokens, w->tokens, w->n * sizeof *w->tokens);
}

static void tell(const struct deciding *w, uint32_t tokens)
{
    if (w->d->on_prefill)
        w->d->on_prefill(w->d->user, w->s->n_kv + tokens - w->r.n_reused, w->n - w->r.n_reused);
}

static void tell_within(void *user, uint32_t tokens)
{
    tell(user, tokens);
}

/* Computes up to token number `to`, with logits for the last of all. */
static int compute(struct deciding *w, uint32_t to, struct bmoe_error *err)
{
    struct bmoe_session *s = w->s;
    int64_t start = clock_now_us();
    uint32_t from = s->n_kv;
    int rc = BMOE_OK;
    while (s->n_kv < to && rc == BMOE_OK) {
        uint32_t piece = context_piece(s, to - s->n_kv);
        rc = context_decode(s, piece, s->n_kv + piece == w->n, err);
        if (rc < 0 && prefill_fall_back(s, err)) {
            w->r.n_reused = w->r.n_prefilled = from = 0;
            rc = to > w->n_prefix && w->n_prefix > 0 ? compute(w, w->n_prefix, err) : BMOE_OK;
            continue;
        }
        if (rc == BMOE_OK)
            tell(w, 0);
    }
    int64_t spent = clock_now_us() - start;
    w->r.prefill_s += (double)spent / 1e6;
    if (rc == BMOE_OK) {
        s->prefill_us += spent;
        s->prefill_tokens += to - from;
        w->r.n_prefilled += to - from;
    }
    return rc;
}

static void store(struct deciding *w)
{
    struct bmoe_session *s = w->s;
    if (!keeps_prefix(w) || w->n_prefix == 0 || w->r.n_reused == w->n_prefix)
        return;
    int64_t start = clock_now_us();
    s->prefix.partial = false;
    state_save(s, &s->prefix);
    w->r.store_s = (double)(clock_now_us() - start) / 1e6;
}

static int score(struct deciding *w, struct bmoe_error *err)
{
    struct bmoe_session *s = w->s;
    const float *logits = llama_get_logits_ith(s->ctx, -1);
    double *logp = realloc(s->choice_logp, w->d->n_choices * sizeof *logp);
    if (!logp)
        return no_memory(err);
    s->choice_logp = logp;
    for (size_t i = 0; i < w->d->n_choices; i++) {
        logp[i] = -logits_surprise(logits, s->n_vocab, w->firsts[i]);
        if (isnan(logp[i]))
            return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_REQUEST,
                             "the model's logits are not numbers on this text: the file may be "
                             "damaged");
        if (logp[i] > logp[w->r.best])
            w->r.best = (uint32_t)i;
    }
    w->r.choice_logp = logp;
    w->r.n_choices = (uint32_t)w->d->n_choices;
    return BMOE_OK;
}

static int decide(struct deciding *w, struct bmoe_error *err)
{
    int rc = read_choices(w, err);
    if (rc == BMOE_OK)
        rc = read_text(w, err);
    if (rc == BMOE_OK)
        rc = check_size(w, err);
    if (rc < 0)
        return rc;
    w->r.n_tokens = w->n;
    begin(w);
    tell(w, 0);
    progress_tell_to(w->s, tell_within, w);
    lens_begin(w->s, (uint32_t)w->d->n_choices);
    rc = compute(w, w->n_prefix, err);
    if (rc == BMOE_OK)
        store(w);
    if (rc == BMOE_OK)
        rc = compute(w, w->n, err);
    progress_tell_to(w->s, NULL, NULL);
    if (rc == BMOE_OK)
        rc = score(w, err);
    if (rc == BMOE_OK)
        lens_tell(w->s, w->firsts);
    lens_end(w->s);
    return rc;
}

int bmoe_session_decide(struct bmoe_session *s, const struct bmoe_decide *d,
                        struct bmoe_decide_result *out, struct bmoe_error *err)
{
    struct bmoe_decide full;
    struct bmoe_error local = {0};
    bmoe_decide_init(&full);
    memcpy(&full, d, d->size < sizeof full ? d->size : sizeof full);
    struct deciding w = {.s = s, .d = &full};
    atomic_store(&s->cancelled, false);
    s->n_requests++;
    int rc = decide(&w, &local);
    w.r.cancelled = rc == BMOE_E_CANCELLED;
    w.r.prefix_state_bytes = s->prefix.n > 0 ? s->prefix.bytes : 0;
    size_t size = out->size < sizeof w.r ? out->size : sizeof w.r;
    memcpy((char *)out + sizeof(size_t), (char *)&w.r + sizeof(size_t), size - sizeof(size_t));
    free(w.tokens);
    free(w.firsts);
    if (rc < 0 && err)
        *err = local;
    return rc;
}
