/*
 * Perplexity: gate_perplexity MODEL. The same number to the last bit streamed and resident, in
 * every mode, with windows and without; and the number that stock libllama gives by the definition
 * of the distribution's llama-perplexity, computed here.
 */
#include "gate_live.h"
#include "gate_text.h"

#include <ggml-backend.h>
#include <llama.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_BYTES = 700, CHUNK = 128, UBATCH = 64 };

static const char *model;

static void make_case(struct gate_case *c, enum bmoe_place place)
{
    gate_case_init(c);
    c->model = model;
    c->repack = true;
    c->budget = GATE_BUDGET_EIGHTH;
    c->n_ubatch = UBATCH;
    c->place = place;
}

static struct bmoe_perplexity_result score(struct bmoe_session *s, uint32_t chunk)
{
    struct bmoe_perplexity p = {
        .size = sizeof p, .text = gate_text(TEXT_BYTES), .text_bytes = TEXT_BYTES, .chunk = chunk};
    struct bmoe_perplexity_result r = {.size = sizeof r};
    struct bmoe_error err = {0};
    if (bmoe_session_perplexity(s, &p, &r, &err) < 0)
        fail_msg("perplexity: %d %s", err.code, err.text);
    return r;
}

static void assert_bits(double a, double b)
{
    if (memcmp(&a, &b, sizeof a) != 0)
        fail_msg("%.17g is not %.17g", a, b);
}

static void streamed_equals_resident(void **state)
{
    static const uint32_t chunks[] = {CHUNK, 0};
    (void)state;
    struct gate_case c;
    struct bmoe_perplexity_result right[2];
    make_case(&c, BMOE_PLACE_AUTO);
    struct bmoe_session *s = gate_live_open(&c, false, NULL);
    for (int i = 0; i < 2; i++)
        right[i] = score(s, chunks[i]);
    bmoe_session_close(s);
    assert_int_equal(right[0].n_windows, TEXT_BYTES / CHUNK);
    assert_int_equal(right[0].n_scored, right[0].n_windows * (CHUNK / 2 - 1));
    assert_true(right[0].ppl > 1 && isfinite(right[0].ppl));
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        make_case(&c, place);
        s = gate_live_open(&c, true, NULL);
        for (int i = 0; i < 2; i++) {
            struct bmoe_perplexity_result r = score(s, chunks[i]);
            assert_bits(right[i].ppl, r.ppl);
            assert_bits(right[i].nll, r.nll);
            assert_int_equal(right[i].n_scored, r.n_scored);
        }
        bmoe_session_close(s);
    }
}

/* Stock libllama, loaded as a program that knows nothing of us would. The engine has loaded the
 * CPU backend already. */
static struct llama_context *stock_context(struct llama_model **out)
{
    ggml_backend_dev_t none[1] = {NULL};
    struct llama_model_params m = llama_model_default_params();
    m.devices = none;
    m.n_gpu_layers = 0;
    *out = llama_model_load_from_file(model, m);
    assert_non_null(*out);
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 1024;
    p.n_batch = p.n_ubatch = UBATCH;
    p.n_outputs_max = UBATCH;
    p.n_threads = p.n_threads_batch = 2;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    p.op_offload = false;
    p.offload_kqv = false;
    struct llama_context *ctx = llama_init_from_model(*out, p);
    assert_non_null(ctx);
    return ctx;
}

static double surprise(const float *logits, int n_vocab, llama_token token)
{
    float most = logits[0];
    double sum = 0;
    for (int i = 1; i < n_vocab; i++)
        most = fmaxf(most, logits[i]);
    for (int i = 0; i < n_vocab; i++)
        sum += (double)expf(logits[i] - most);
    return log(sum) - (double)(logits[token] - most);
}

/* One window: all of it decoded anew, every token behind its middle scored. */
static double window(struct llama_context *ctx, const llama_token *tokens, int n_vocab)
{
    struct llama_batch b = llama_batch_init(UBATCH, 0, 1);
    double nll = 0;
    llama_memory_clear(llama_get_memory(ctx), true);
    for (int at = 0; at < CHUNK; at += UBATCH) {
        b.n_tokens = UBATCH;
        for (int i = 0; i < UBATCH; i++) {
            b.token[i] = tokens[at + i];
            b.pos[i] = at + i;
            b.n_seq_id[i] = 1;
            b.seq_id[i][0] = 0;
            b.logits[i] = at + i >= CHUNK / 2;
        }
        assert_int_equal(llama_decode(ctx, b), 0);
        for (int i = 0; i < UBATCH; i++)
            if (at + i >= CHUNK / 2 && at + i < CHUNK - 1)
                nll += surprise(llama_get_logits_ith(ctx, i), n_vocab, tokens[at + i + 1]);
    }
    llama_batch_free(b);
    return nll;
}

static double stock_ppl(void)
{
    static llama_token tokens[TEXT_BYTES + 8];
    struct llama_model *m;
    struct llama_context *ctx = stock_context(&m);
    const struct llama_vocab *vocab = llama_model_get_vocab(m);
    int n = llama_tokenize(vocab, gate_text(TEXT_BYTES), TEXT_BYTES, tokens, TEXT_BYTES + 8, true,
                           true);
    double nll = 0;
    int scored = 0;
    for (int w = 0; w < n / CHUNK; w++) {
        llama_token *at = tokens + w * CHUNK, kept = at[0];
        if (llama_vocab_get_add_bos(vocab))
            at[0] = llama_vocab_bos(vocab);
        nll += window(ctx, at, llama_vocab_n_tokens(vocab));
        scored += CHUNK / 2 - 1;
        at[0] = kept;
    }
    llama_free(ctx);
    llama_model_free(m);
    return exp(nll / scored);
}

static void stock_gives_the_same(void **state)
{
    (void)state;
    struct gate_case c;
    char ours[32], theirs[32];
    make_case(&c, BMOE_PLACE_AUTO);
    struct bmoe_session *s = gate_live_open(&c, true, NULL);
    struct bmoe_perplexity_result r = score(s, CHUNK);
    bmoe_session_close(s);
    snprintf(ours, sizeof ours, "%.4f", r.ppl); /* as it prints them */
    snprintf(theirs, sizeof theirs, "%.4f", stock_ppl());
    assert_string_equal(ours, theirs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_equals_resident),
        cmocka_unit_test(stock_gives_the_same),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
