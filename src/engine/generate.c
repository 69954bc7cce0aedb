/* One answer: prompt, then a token at a time, until an end the request names or the model chooses.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/text.h"

#include <stdlib.h>
#include <string.h>

struct run {
    struct bmoe_session *s;
    const struct bmoe_generate *g;
    struct bmoe_result r;
    struct llama_sampler *sampler;
    struct text text;
    size_t n_told; /* bytes of the answer the caller has seen */
    int64_t start_us;
    llama_token *ends; /* n_ends tokens that end an answer; where they are ignored */
    uint32_t n_ends;
};

void bmoe_generate_init(struct bmoe_generate *g)
{
    *g = (struct bmoe_generate){
        .size = sizeof *g,
        .sampling = {
            .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1.0f, .seed = LLAMA_DEFAULT_SEED}};
}

/* Tells the caller what is new; false when it wants to stop. */
static bool tell(struct run *run)
{
    size_t n = run->text.n_out - run->n_told;
    if (n == 0 || !run->g->on_text)
        return true;
    const char *from = run->text.out + run->n_told;
    run->n_told += n;
    return run->g->on_text(run->g->user, from, n);
}

static int add_piece(struct run *run, llama_token token, struct bmoe_error *err)
{
    char small[256], *piece = small;
    int n = llama_token_to_piece(run->s->vocab, token, small, sizeof small, 0, run->g->special);
    if (n < 0) {
        piece = malloc((size_t)-n);
        n = piece ? llama_token_to_piece(run->s->vocab, token, piece, -n, 0, run->g->special) : -1;
    }
    bool ok = n >= 0 && text_add(&run->text, piece, (size_t)n);
    if (piece != small)
        free(piece);
    if (!ok)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the answer");
    return BMOE_OK;
}

static void show_logits(const struct run *run, bool prompt)
{
    if (run->g->on_logits)
        run->g->on_logits(run->g->user, llama_get_logits_ith(run->s->ctx, -1), run->s->n_vocab,
                          prompt);
}

static int cancelled(struct bmoe_error *err)
{
    return error_set(err, BMOE_E_CANCELLED, BMOE_SCOPE_REQUEST, "cancelled");
}

/* To ask libllama of each token of a large vocabulary takes milliseconds: once a request. */
static int find_ends(struct run *run, struct bmoe_error *err)
{
    const struct llama_vocab *vocab = run->s->vocab;
    uint32_t n = 0;
    if (!run->g->ignore_eos)
        return BMOE_OK;
    for (uint32_t t = 0; t < run->s->n_vocab; t++)
        n += llama_vocab_is_eog(vocab, (llama_token)t);
    run->ends = malloc(n * sizeof *run->ends + 1);
    if (!run->ends)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the answer");
    for (uint32_t t = 0; t < run->s->n_vocab; t++)
        if (llama_vocab_is_eog(vocab, (llama_token)t))
            run->ends[run->n_ends++] = (llama_token)t;
    return BMOE_OK;
}

/* The greedy choice of end tokens is taken away from the logits, as libllama's programs do it. */
static void forbid_end(struct run *run)
{
    float *logits = llama_get_logits_ith(run->s->ctx, -1);
    for (uint32_t i = 0; i < run->n_ends; i++)
        logits[run->ends[i]] = -1e30f;
}

/* Chooses and takes one token. 1: go on, 0: the answer ends, negative: an error. */
static int take_token(struct run *run, struct bmoe_error *err)
{
    struct bmoe_session *s = run->s;
    if (run->g->ignore_eos)
        forbid_end(run);
    llama_token token = llama_sampler_sample(run->sampler, s->ctx, -1);
    if (run->r.n_predicted == 0)
        run->r.first_token_s = (double)(clock_now_us() - run->start_us) / 1e6;
    if (llama_vocab_is_eog(s->vocab, token))
        return 0;
    run->r.n_predicted++;
    int rc = add_piece(run, token, err);
    if (rc < 0)
        return rc;
    if (!tell(run))
        return cancelled(err);
    if (run->g->on_token)
        run->g->on_token(run->g->user, token);
    if (run->text.stopped) {
        run->r.stopped_by_string = true;
        return 0;
    }
    if ((run->g->n_predict && run->r.n_predicted == run->g->n_predict) || s->n_kv == s->n_ctx) {
        run->r.stopped_by_limit = true;
        return 0;
    }
    s->tokens[s->n_kv] = token;
    return 1;
}

static int answer(struct run *run, struct bmoe_error *err)
{
    struct bmoe_session *s = run->s;
    int64_t start = clock_now_us();
    int64_t before = s->decode_tokens;
    int rc;
    s->decoding = true;
    while ((rc = take_token(run, err)) > 0) {
        rc = context_decode(s, 1, 1, err);
        if (rc < 0)
            break;
        s->decode_tokens++;
        show_logits(run, false);
    }
    s->decoding = false;
    int64_t spent = clock_now_us() - start;
    run->r.decode_s = (double)spent / 1e6;
    if (s->decode_tokens > before)
        s->decode_us += spent;
    return rc;
}

/* The prompt's tokens in *out, which the caller frees; answers how many. */
static int prompt_tokens(const struct run *run, llama_token **out, struct bmoe_error *err)
{
    const struct bmoe_generate *g = run->g;
    const struct prompt_text text = {.text = g->prompt,
                                     .bytes = g->prompt_bytes,
                                     .words = g->words,
                                     .n_words = g->n_words,
                                     .add_special = !g->no_bos};
    if (!g->tokens)
        return prompt_words_tokenize(run->s, &text, out, err);
    for (size_t i = 0; i < g->n_tokens; i++)
        if (g->tokens[i] < 0 || (uint32_t)g->tokens[i] >= run->s->n_vocab)
            return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                             "token %zu of the prompt is %d; the vocabulary has %u", i,
                             g->tokens[i], run->s->n_vocab);
    if (g->n_tokens > INT32_MAX)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST, "a prompt of %zu tokens",
                         g->n_tokens);
    *out = malloc(g->n_tokens * sizeof **out + 1);
    if (!*out)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the tokens");
    memcpy(*out, g->tokens, g->n_tokens * sizeof **out);
    return (int)g->n_tokens;
}

/* The beginning of the prompt that the next one will have too, in tokens, where a state is to be
 * kept there; 0: at the prompt's end. */
static uint32_t stable_tokens(const struct run *run, const llama_token *tokens, uint32_t n)
{
    const struct bmoe_generate *g = run->g;
    llama_token *stable = NULL;
    size_t n_words = 0;
    if (g->tokens || g->stable_bytes == 0 || g->stable_bytes >= g->prompt_bytes ||
        state_cuttable(run->s))
        return 0;
    while (n_words < g->n_words && g->words[n_words].end <= g->stable_bytes)
        n_words++;
    const struct prompt_text text = {.text = g->prompt,
                                     .bytes = g->stable_bytes,
                                     .words = g->words,
                                     .n_words = n_words,
                                     .add_special = !g->no_bos};
    int k = prompt_words_tokenize(run->s, &text, &stable, NULL);
    bool begins = k > 0 && (uint32_t)k < n && memcmp(stable, tokens, k * sizeof *stable) == 0;
    free(stable);
    return begins ? (uint32_t)k : 0;
}

static int run_all(struct run *run, struct bmoe_error *err)
{
    struct bmoe_session *s = run->s;
    llama_token *tokens = NULL;
    run->sampler = sampler_create(s, &run->g->sampling, err);
    if (!run->sampler)
        return err->code;
    int rc = find_ends(run, err);
    if (rc < 0)
        return rc;
    rc = prompt_tokens(run, &tokens, err);
    if (rc >= 0)
        rc = prompt_run(s, tokens, (uint32_t)rc, run->g->keep_kv,
                        stable_tokens(run, tokens, (uint32_t)rc), run->g, &run->r, err);
    free(tokens);
    if (rc < 0)
        return rc;
    show_logits(run, true);
    return answer(run, err);
}

/* The answer moves to the session, whatever ended it. */
static void keep_text(struct run *run)
{
    struct bmoe_session *s = run->s;
    if (!run->text.stopped && text_flush(&run->text))
        tell(run);
    free(s->text);
    s->text = run->text.out;
    s->text_bytes = run->text.n_out;
    run->text.out = NULL;
    run->r.text = s->text ? s->text : "";
    run->r.text_bytes = s->text_bytes;
}

int bmoe_session_generate(struct bmoe_session *s, const struct bmoe_generate *g,
                          struct bmoe_result *out, struct bmoe_error *err)
{
    struct bmoe_generate full;
    bmoe_generate_init(&full);
    memcpy(&full, g, g->size < sizeof full ? g->size : sizeof full);
    struct bmoe_error local = {0};
    struct run run = {.s = s, .g = &full, .start_us = clock_now_us()};
    run.text.stop = full.stop;
    run.text.n_stop = full.n_stop;
    atomic_store(&s->cancelled, false);
    s->n_requests++;
    int rc = full.prompt || full.tokens
                 ? run_all(&run, &local)
                 : error_set(&local, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST, "no prompt");
    keep_text(&run);
    run.r.cancelled = rc == BMOE_E_CANCELLED;
    run.r.n_past = s->n_kv;
    if (out) {
        size_t size = out->size < sizeof run.r ? out->size : sizeof run.r;
        memcpy((char *)out + sizeof(size_t), (char *)&run.r + sizeof(size_t),
               size - sizeof(size_t));
    }
    if (run.sampler)
        llama_sampler_free(run.sampler);
    free(run.ends);
    text_fini(&run.text);
    if (rc < 0 && err)
        *err = local;
    return rc < 0 ? rc : BMOE_OK;
}

int64_t bmoe_session_count_tokens(struct bmoe_session *s, const struct bmoe_generate *g,
                                  struct bmoe_error *err)
{
    struct bmoe_generate full;
    bmoe_generate_init(&full);
    memcpy(&full, g, g->size < sizeof full ? g->size : sizeof full);
    struct run run = {.s = s, .g = &full};
    llama_token *tokens = NULL;
    int n = full.prompt || full.tokens
                ? prompt_tokens(&run, &tokens, err)
                : error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST, "no prompt");
    free(tokens);
    return n;
}
