/*
 * How well the model predicts a text. With windows: each begins anew, its second half is scored, as
 * the distribution's llama-perplexity defines it, so that the figures can be compared; a tail
 * shorter than a window is left out. Without: one window, every token after the first `skip`
 * scored.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* At most so much for rows of logits. */
#define LOGIT_BYTES ((uint64_t)512 << 20)

struct scoring {
    struct bmoe_session *s;
    const struct bmoe_perplexity *p;
    const llama_token *tokens;
    uint32_t n_tokens;
    double nll;
    uint32_t n_scored, n_windows;
};

/* -log softmax(logits)[token]: maximum taken out in float, the sum in double, as llama-perplexity
 * does. */
double logits_surprise(const float *logits, uint32_t n_vocab, int32_t token)
{
    float most = logits[0];
    for (uint32_t i = 1; i < n_vocab; i++)
        most = logits[i] > most ? logits[i] : most;
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += (double)expf(logits[i] - most);
    return -((double)(logits[token] - most) - log(sum));
}

/* Scores the tokens that positions [from, to) predict, position i being row i - first_row of the
 * last decode. */
static void score_rows(struct scoring *sc, uint32_t from, uint32_t to, uint32_t first_row)
{
    for (uint32_t i = from; i < to; i++) {
        const float *logits = llama_get_logits_ith(sc->s->ctx, (int32_t)(i - first_row));
        sc->nll += logits_surprise(logits, sc->s->n_vocab, sc->s->tokens[i + 1]);
        sc->n_scored++;
    }
}

/* Of the window, n_kv tokens and `within` of the running graph are computed. */
static void tell(const struct scoring *sc, uint32_t within)
{
    uint32_t chunk = sc->p->chunk;
    uint32_t done = sc->s->n_kv + within;
    uint32_t total = chunk ? sc->n_tokens / chunk * chunk : sc->n_tokens;
    double ppl = sc->n_scored ? exp(sc->nll / sc->n_scored) : 0;
    if (sc->p->on_progress)
        sc->p->on_progress(sc->p->user, sc->n_windows * chunk + done, total, ppl);
}

static void tell_within(void *user, uint32_t tokens)
{
    tell(user, tokens);
}

/* One window of n tokens, of which positions from `first` on are scored. */
static int window(struct scoring *sc, uint32_t n, uint32_t first, struct bmoe_error *err)
{
    struct bmoe_session *s = sc->s;
    const double nll = sc->nll;
    const uint32_t n_scored = sc->n_scored;
    const int64_t start = clock_now_us();
    context_keep(s, 0);
    while (s->n_kv < n) {
        uint32_t at = s->n_kv;
        uint32_t piece = sc->p->step ? 1 : context_piece(s, n - at);
        uint32_t from = first > at ? first : at;
        uint32_t wanted = from < at + piece ? at + piece - from : 0;
        if (wanted > s->n_outputs) {
            piece -= wanted - s->n_outputs;
            wanted = s->n_outputs;
        }
        int rc = context_decode(s, piece, wanted, err);
        if (rc < 0 && prefill_fall_back(s, err)) {
            sc->nll = nll;
            sc->n_scored = n_scored;
            continue;
        }
        if (rc < 0)
            return rc;
        uint32_t to = at + piece < n - 1 ? at + piece : n - 1;
        if (from < to)
            score_rows(sc, from, to, at);
        tell(sc, 0);
    }
    s->prefill_tokens += n;
    s->prefill_us += clock_now_us() - start;
    return BMOE_OK;
}

static int run_windows(struct scoring *sc, uint32_t chunk, struct bmoe_error *err)
{
    struct bmoe_session *s = sc->s;
    uint32_t total = sc->n_tokens / chunk;
    bool bos = llama_vocab_get_add_bos(s->vocab);
    for (uint32_t w = 0; w < total; w++) {
        memcpy(s->tokens, sc->tokens + (size_t)w * chunk, chunk * sizeof *s->tokens);
        if (bos)
            s->tokens[0] = llama_vocab_bos(s->vocab);
        int rc = window(sc, chunk, chunk / 2, err);
        if (rc < 0)
            return rc;
        sc->n_windows++;
        if (sc->p->on_window)
            sc->p->on_window(sc->p->user, w + 1, total, exp(sc->nll / sc->n_scored));
    }
    return BMOE_OK;
}

static int run_whole(struct scoring *sc, struct bmoe_error *err)
{
    uint32_t skip = sc->p->skip ? sc->p->skip : 8;
    memcpy(sc->s->tokens, sc->tokens, sc->n_tokens * sizeof *sc->tokens);
    int rc = window(sc, sc->n_tokens, skip - 1, err);
    sc->n_windows = 1;
    if (rc == BMOE_OK && sc->p->on_window)
        sc->p->on_window(sc->p->user, 1, 1, exp(sc->nll / sc->n_scored));
    return rc;
}

static int check(const struct scoring *sc, struct bmoe_error *err)
{
    const struct bmoe_perplexity *p = sc->p;
    uint32_t n = sc->n_tokens, room = sc->s->n_ctx;
    if (p->chunk && (p->chunk < 4 || p->chunk > room))
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "windows of %u tokens: 4 to the context's %u", p->chunk, room);
    if (p->chunk && n < p->chunk)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
                         "the text has %u tokens, less than one window of %u", n, p->chunk);
    if (!p->chunk && n > room)
        return error_set(
            err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
            "the text has %u tokens and the context holds %u; give a larger context or "
            "windows",
            n, room);
    uint32_t skip = p->skip ? p->skip : 8;
    if (!p->chunk && n <= skip)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
                         "the text has %u tokens, of which the first %u are not scored", n, skip);
    return BMOE_OK;
}

/* Logit rows are memory, in a wide graph of a large vocabulary gigabytes: the context is made anew
 * for as many as this needs and LOGIT_BYTES hold, and pieces are narrower where those are fewer. */
static int want_rows(struct bmoe_session *s, uint32_t n, struct bmoe_error *err)
{
    uint64_t most =
        s->hooks.logit_rows ? s->hooks.logit_rows : LOGIT_BYTES / (s->n_vocab * sizeof(float));
    uint32_t rows = n < s->n_batch ? n : s->n_batch;
    most = most > 0 ? most : 1;
    rows = rows < most ? rows : (uint32_t)most;
    if (rows <= s->n_outputs)
        return BMOE_OK;
    log_line(&s->log, BMOE_LOG_INFO, "plan: %u rows of logits for perplexity take %.1f MiB more",
             rows, (double)(rows - s->n_outputs) * s->n_vocab * sizeof(float) / (1 << 20));
    return context_create(s, rows, err);
}

static int score(struct scoring *sc, struct bmoe_error *err)
{
    int rc = check(sc, err);
    if (rc == BMOE_OK)
        rc = want_rows(sc->s, sc->p->chunk ? sc->p->chunk : sc->n_tokens, err);
    progress_tell_to(sc->s, tell_within, sc);
    if (rc == BMOE_OK)
        rc = sc->p->chunk ? run_windows(sc, sc->p->chunk, err) : run_whole(sc, err);
    progress_tell_to(sc->s, NULL, NULL);
    if (rc == BMOE_OK && !isfinite(sc->nll))
        rc = error_set(err, BMOE_E_MODEL, BMOE_SCOPE_REQUEST,
                       "the model's logits are not finite on this text: the file may be damaged");
    return rc;
}

int bmoe_session_perplexity(struct bmoe_session *s, const struct bmoe_perplexity *p,
                            struct bmoe_perplexity_result *out, struct bmoe_error *err)
{
    struct bmoe_perplexity full = {.size = sizeof full};
    memcpy(&full, p, p->size < sizeof full ? p->size : sizeof full);
    llama_token *tokens = NULL;
    int64_t start = clock_now_us();
    atomic_store(&s->cancelled, false);
    s->n_requests++;
    if (!full.text)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST, "no text");
    int rc = prompt_tokenize(s, full.text, full.text_bytes, true, &tokens, err);
    struct scoring sc = {
        .s = s, .p = &full, .tokens = tokens, .n_tokens = rc < 0 ? 0 : (uint32_t)rc};
    if (rc >= 0)
        rc = score(&sc, err);
    free(tokens);
    context_keep(s, 0);
    if (rc < 0)
        return rc;
    struct bmoe_perplexity_result r = {.ppl = exp(sc.nll / sc.n_scored),
                                       .nll = sc.nll / sc.n_scored,
                                       .n_scored = sc.n_scored,
                                       .n_windows = sc.n_windows,
                                       .seconds = (double)(clock_now_us() - start) / 1e6};
    size_t size = out->size < sizeof r ? out->size : sizeof r;
    memcpy((char *)out + sizeof(size_t), (char *)&r + sizeof(size_t), size - sizeof(size_t));
    return BMOE_OK;
}
