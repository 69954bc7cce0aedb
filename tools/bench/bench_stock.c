/* libllama as it comes: the file mapped, the same tokens. */
#include "bench.h"

#include "base/clock.h"
#include "base/host.h"

#include <llama.h>
#include <stdlib.h>

static void hush(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static llama_token greedy(struct llama_context *ctx, int32_t n_vocab)
{
    const float *logits = llama_get_logits_ith(ctx, -1);
    llama_token best = 3;
    for (llama_token t = 4; t < n_vocab; t++)
        if (logits[t] > logits[best])
            best = t;
    return best;
}

int bench_stock_open(struct bench_stock *s, const struct bench_options *o, bool repack)
{
    struct llama_model_params mp = llama_model_default_params();
    ggml_backend_dev_t none[1] = {NULL};
    *s = (struct bench_stock){.n_decode = o->n_decode};
    llama_log_set(hush, NULL);
    mp.devices = none;
    mp.n_gpu_layers = 0;
    mp.load_mode = LLAMA_LOAD_MODE_MMAP;
    mp.use_extra_bufts = repack;
    s->model = llama_model_load_from_file(o->model, mp);
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = 1024;
    cp.n_batch = cp.n_ubatch = 512;
    cp.n_outputs_max = 1;
    cp.n_threads = cp.n_threads_batch = (int32_t)(o->threads ? o->threads : host_cpu_count(""));
    s->ctx = s->model ? llama_init_from_model(s->model, cp) : NULL;
    if (!s->ctx)
        return -1;
    s->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(s->model));
    bench_tokens(s->tokens, 512, (uint32_t)s->n_vocab);
    return 0;
}

int bench_stock_run(struct bench_stock *s, double *prefill, double *decode)
{
    llama_memory_clear(llama_get_memory(s->ctx), true);
    int64_t start = clock_now_us();
    int rc = llama_decode(s->ctx, llama_batch_get_one(s->tokens, 512));
    int64_t filled = clock_now_us();
    for (unsigned i = 0; rc == 0 && i < s->n_decode; i++) {
        llama_token next = greedy(s->ctx, s->n_vocab);
        rc = llama_decode(s->ctx, llama_batch_get_one(&next, 1));
    }
    *prefill = (double)(filled - start) / 1e6;
    *decode = (double)(clock_now_us() - filled) / 1e6;
    return rc;
}

void bench_stock_close(struct bench_stock *s)
{
    if (s->ctx)
        llama_free(s->ctx);
    if (s->model)
        llama_model_free(s->model);
    *s = (struct bench_stock){0};
}
