/*
 * The reference: libllama as any program would use it, with nothing of ours. What belongs to the
 * run key is set as the engine says it sets it: one graph per llama_decode, logits of the last
 * token only, the processor's best CPU backend and no other device.
 */
#include "gate_run.h"
#include "gate_text.h"

#include <ggml-backend.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stock {
    const struct gate_case *c;
    struct llama_model *model;
    struct llama_context *ctx;
    const struct llama_vocab *vocab;
    struct llama_sampler *sampler;
    struct gate_rows *rows;
    llama_token tokens[8192];
    uint32_t n;
};

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

/* "Load all" brings accelerators too, which libllama would add to the context. */
static void load_cpu_backend(void)
{
    ggml_backend_load_all_from_path(BMOE_BACKENDS_DIR);
    for (size_t i = ggml_backend_reg_count(); i > 0; i--) {
        ggml_backend_reg_t reg = ggml_backend_reg_get(i - 1);
        if (strcmp(ggml_backend_reg_name(reg), "CPU") != 0)
            ggml_backend_unload(reg);
    }
}

static bool open_model(struct stock *s)
{
    const struct gate_case *c = s->c;
    struct llama_model_kv_override kv[2] = {0};
    ggml_backend_dev_t none[1] = {NULL};
    struct llama_model_params p = llama_model_default_params();
    p.devices = none;
    p.n_gpu_layers = 0;
    p.use_extra_bufts = c->repack;
    load_cpu_backend();
    if (c->n_expert_used) {
        s->model = llama_model_load_from_file(c->model, p);
        char arch[64] = "";
        llama_model_meta_val_str(s->model, "general.architecture", arch, sizeof arch);
        llama_model_free(s->model);
        kv[0].tag = LLAMA_KV_OVERRIDE_TYPE_INT;
        kv[0].val_i64 = c->n_expert_used;
        snprintf(kv[0].key, sizeof kv[0].key, "%s.expert_used_count", arch);
        p.kv_overrides = kv;
    }
    s->model = llama_model_load_from_file(c->model, p);
    s->vocab = s->model ? llama_model_get_vocab(s->model) : NULL;
    return s->model != NULL;
}

static bool open_context(struct stock *s)
{
    const struct gate_case *c = s->c;
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = c->n_ctx;
    p.n_batch = p.n_ubatch = c->n_ubatch;
    p.n_seq_max = 1;
    p.n_outputs_max = 1;
    p.n_threads = p.n_threads_batch = (int32_t)c->n_threads;
    p.flash_attn_type =
        c->flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.op_offload = false;
    p.offload_kqv = false;
    s->ctx = llama_init_from_model(s->model, p);
    return s->ctx != NULL;
}

/* How many bytes of the text are n_prompt tokens. */
static uint32_t fit_prompt(struct stock *s)
{
    uint32_t want = s->c->n_prompt;
    for (uint32_t bytes = 1; bytes < 8 * want; bytes++) {
        int n = llama_tokenize(s->vocab, gate_text(bytes), (int32_t)bytes, s->tokens,
                               sizeof s->tokens / sizeof s->tokens[0], true, true);
        if (n == (int)want) {
            s->n = want;
            return bytes;
        }
    }
    return 0;
}

static bool decode(struct stock *s, uint32_t from, uint32_t n, bool wanted)
{
    struct llama_batch b = llama_batch_init((int32_t)n, 0, 1);
    b.n_tokens = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        b.token[i] = s->tokens[from + i];
        b.pos[i] = (llama_pos)(from + i);
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = wanted && i + 1 == n;
    }
    int rc = llama_decode(s->ctx, b);
    llama_batch_free(b);
    return rc == 0 && (!wanted || gate_rows_add(s->rows, llama_get_logits_ith(s->ctx, -1),
                                                (uint32_t)llama_vocab_n_tokens(s->vocab)));
}

static llama_token choose(struct stock *s)
{
    float *logits = llama_get_logits_ith(s->ctx, -1);
    for (llama_token t = 0; t < llama_vocab_n_tokens(s->vocab); t++)
        if (llama_vocab_is_eog(s->vocab, t))
            logits[t] = -1e30f;
    return llama_sampler_sample(s->sampler, s->ctx, -1);
}

static bool run(struct stock *s)
{
    uint32_t n_prompt = s->n;
    for (uint32_t at = 0; at < n_prompt;) {
        uint32_t piece = n_prompt - at < s->c->n_ubatch ? n_prompt - at : s->c->n_ubatch;
        if (!decode(s, at, piece, at + piece == n_prompt))
            return false;
        at += piece;
    }
    for (uint32_t i = 0; i < s->c->n_decode; i++) {
        s->tokens[s->n] = choose(s);
        if (!decode(s, s->n++, 1, true))
            return false;
    }
    return true;
}

static struct llama_sampler *make_sampler(bool greedy)
{
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (greedy) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return chain;
    }
    llama_sampler_chain_add(chain, llama_sampler_init_temp(1.0f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(GATE_SEED));
    return chain;
}

void gate_stock(const struct gate_case *c, struct gate_rows *rows, struct gate_result *out)
{
    static struct stock s;
    s.c = c;
    s.rows = rows;
    llama_log_set(quiet, NULL);
    if (!open_model(&s) || !open_context(&s)) {
        snprintf(out->text, sizeof out->text, "stock libllama does not load %s", c->model);
        return;
    }
    s.sampler = make_sampler(c->greedy);
    out->prompt_bytes = fit_prompt(&s);
    out->n_prompt = s.n;
    if (out->prompt_bytes == 0 || !run(&s)) {
        snprintf(out->text, sizeof out->text, "stock libllama does not decode %s", c->model);
        return;
    }
    out->code = BMOE_OK;
    out->text[0] = '\0';
    llama_sampler_free(s.sampler);
    llama_free(s.ctx);
    llama_model_free(s.model);
}
