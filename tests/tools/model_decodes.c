/*
 * Loads a model with libllama, decodes a text and then 64 tokens greedily, and checks that every
 * logit is finite, that they spread, and that the answer is more than one token over and over. Run
 * by test-mkmodel.sh for each generated model: model_decodes MODEL BACKENDS_FOLDER Prints one line
 * of figures; exit 0 when all holds, 1 with a sentence otherwise.
 */
#include "ggml-backend.h"
#include "llama.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_DECODE = 64, N_CONTEXT = 256, MAX_PROMPT = 128, FIRST_BYTE = 3 };

/* What was seen of the logits. */
struct seen {
    bool finite;
    double min_spread; /* smallest standard deviation of one position's logits */
    double max_spread;
    int n_distinct;
};

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT)
        fputs(text, stderr);
}

/* Looks at one position's logits and returns the token with the highest. */
static llama_token look(const float *logits, int n, struct seen *seen)
{
    double sum = 0;
    double squares = 0;
    llama_token best = 0;

    for (int i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            seen->finite = false;
        sum += logits[i];
        squares += (double)logits[i] * logits[i];
        if (logits[i] > logits[best])
            best = i;
    }
    double spread = sqrt(fmax(0, squares / n - sum / n * sum / n));
    seen->min_spread = fmin(seen->min_spread, spread);
    seen->max_spread = fmax(seen->max_spread, spread);
    return best;
}

static int decode(struct llama_context *context, const struct llama_vocab *vocab, struct seen *seen)
{
    static const char text[] = "It was a bright cold day in April, and the clocks said: 13.";
    int n_vocab = llama_vocab_n_tokens(vocab);
    llama_token tokens[MAX_PROMPT];
    int n = llama_tokenize(vocab, text, (int)strlen(text), tokens, MAX_PROMPT, true, false);
    bool *met = calloc((size_t)n_vocab, sizeof *met);
    int rc = n > 0 && met ? 0 : -1;

    for (int i = 0; i < N_DECODE && rc == 0; i++) {
        llama_token next;

        rc = llama_decode(context, llama_batch_get_one(tokens, n));
        if (rc != 0)
            break;
        next = look(llama_get_logits_ith(context, -1), n_vocab, seen);
        seen->n_distinct += !met[next];
        met[next] = true;
        /* Greedy first; then letters, as a greedy answer of random weights may well be a cycle. */
        tokens[0] = i < N_DECODE / 2 ? next : FIRST_BYTE + 'a' + i * 7 % 26;
        n = 1;
    }
    free(met);
    return rc;
}

static int judge(const char *path, const struct seen *seen)
{
    printf("%s: spread %.2f .. %.2f, %d distinct tokens of %d\n", path, seen->min_spread,
           seen->max_spread, seen->n_distinct, N_DECODE);
    if (!seen->finite)
        fprintf(stderr, "%s: a logit is not finite.\n", path);
    else if (seen->min_spread < 0.2 || seen->max_spread > 20)
        fprintf(stderr, "%s: the spread of the logits is out of 0.2 .. 20.\n", path);
    else if (seen->n_distinct < 16)
        fprintf(stderr, "%s: the best token is one of %d only.\n", path, seen->n_distinct);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct seen seen = {.finite = true, .min_spread = INFINITY};
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *model;
    struct llama_context *context = NULL;
    int rc = 1;

    if (argc != 3)
        return 2;
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[2]);
    model_params.n_gpu_layers = 0;
    model = llama_model_load_from_file(argv[1], model_params);
    params.n_ctx = N_CONTEXT;
    params.n_threads = params.n_threads_batch = 2;
    if (model)
        context = llama_init_from_model(model, params);
    if (context && decode(context, llama_model_get_vocab(model), &seen) == 0)
        rc = judge(argv[1], &seen);
    else
        fprintf(stderr, "%s does not load and decode.\n", argv[1]);
    llama_free(context);
    llama_model_free(model);
    return rc;
}
