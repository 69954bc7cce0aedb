/* From text to a context that holds it. A prompt is refused before any work when it is empty or
 * does not fit. */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

int prompt_tokenize(struct bmoe_session *s, const char *text, size_t bytes, bool add_special,
                    llama_token **out, struct bmoe_error *err)
{
    struct prompt_text p = {.text = text, .bytes = bytes, .add_special = add_special};
    return prompt_words_tokenize(s, &p, out, err);
}

static uint32_t common_prefix(const struct bmoe_session *s, const llama_token *tokens, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && k < s->n_kv && s->tokens[k] == tokens[k])
        k++;
    return k;
}

static int check(const struct bmoe_session *s, uint32_t n, struct bmoe_error *err)
{
    if (n == 0)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST, "the prompt is empty");
    if (n >= s->n_ctx)
        return error_set(
            err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
            "the prompt has %u tokens and the context holds %u with room for an answer; "
            "give a larger context (-c)",
            n, s->n_ctx - 1);
    return BMOE_OK;
}

/* How much of what the memory holds the prompt begins with; the memory is cut to that. Where it
 * cannot be cut, a state that was kept serves, or nothing. */
static uint32_t reuse_prefix(struct bmoe_session *s, const llama_token *tokens, uint32_t n)
{
    uint32_t common = common_prefix(s, tokens, n);
    if (common == n)
        common--; /* the last token's logits are wanted */
    struct kv_state *k = &s->boundary;
    if (common < s->n_kv && k->n > 0 && k->n <= common && !state_cuttable(s) && state_restore(s, k))
        return s->n_kv;
    return context_keep(s, common);
}

/* The next piece; a state is to be kept after token number `stable`. */
static uint32_t next_piece(const struct bmoe_session *s, uint32_t n, uint32_t stable)
{
    uint32_t to = s->n_kv < stable ? stable : n;
    return context_piece(s, to - s->n_kv);
}

/* What on_prefill is told from within a graph. */
struct telling {
    const struct bmoe_session *s;
    const struct bmoe_generate *g;
    uint32_t common, total;
};

static void tell_within(void *user, uint32_t tokens)
{
    const struct telling *t = user;
    t->g->on_prefill(t->g->user, t->s->n_kv - t->common + tokens, t->total);
}

int prompt_run(struct bmoe_session *s, const llama_token *tokens, uint32_t n, bool reuse,
               uint32_t stable, const struct bmoe_generate *g, struct bmoe_result *out,
               struct bmoe_error *err)
{
    int rc = check(s, n, err);
    if (rc < 0)
        return rc;
    uint32_t common = reuse ? reuse_prefix(s, tokens, n) : context_keep(s, 0);
    if (stable == 0 || stable > n)
        stable = n;
    memcpy(s->tokens, tokens, n * sizeof *tokens);
    out->n_prompt = n;
    out->n_reused = common;
    int64_t start = clock_now_us();
    struct telling telling = {s, g, common, n - common};
    progress_tell_to(s, g->on_prefill ? tell_within : NULL, &telling);
    if (g->on_prefill)
        g->on_prefill(g->user, 0, n - common);
    while (s->n_kv < n && rc == BMOE_OK) {
        uint32_t piece = next_piece(s, n, stable);
        rc = context_decode(s, piece, s->n_kv + piece == n ? 1 : 0, err);
        if (rc < 0 && prefill_fall_back(s, err)) {
            out->n_reused = common = telling.common = 0;
            telling.total = n;
            rc = BMOE_OK;
            continue;
        }
        if (rc == BMOE_OK && s->n_kv == stable && !state_cuttable(s)) {
            s->boundary.partial = true;
            state_save(s, &s->boundary);
        }
        if (rc == BMOE_OK && g->on_prefill)
            g->on_prefill(g->user, s->n_kv - common, n - common);
    }
    progress_tell_to(s, NULL, NULL);
    int64_t spent = clock_now_us() - start;
    out->prefill_s = (double)spent / 1e6;
    if (rc == BMOE_OK) {
        s->prefill_us += spent;
        s->prefill_tokens += n - common;
    }
    return rc;
}
