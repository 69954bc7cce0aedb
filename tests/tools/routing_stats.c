/*
 * Measures how a model routes a text: which share of a layer's experts the first 300 tokens use,
 * and how often a least-recently-used cache of an eighth and of a quarter of each layer's experts
 * then has what the next tokens want, fed from the text one by one. docs/mkmodel.md quotes it; run
 * as routing_stats MODEL BACKENDS_FOLDER TEXT_FILE [MIN:MAX ...] Up to three ranges, in per cent,
 * make it a test of the three figures: exit 1 when one is outside.
 */
#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 300, MAX_TOKENS = 1200, MAX_LAYERS = 512, MAX_EXPERTS = 1024, MAX_USED = 256 };

/* One layer: when each expert was used last, 0 for never, and what two caches would have had. */
struct layer {
    long last[MAX_EXPERTS];
    long n_wanted;
    long n_hits[2];
};

struct stats {
    struct layer layers[MAX_LAYERS];
    long clock;
    int n_experts;
    bool decoding;
};

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT)
        fputs(text, stderr);
}

/* True if an expert is among the `size` used last: fewer than that were used after it. */
static bool is_cached(const struct layer *layer, int n_experts, int expert, int size)
{
    int later = 0;

    if (layer->last[expert] == 0)
        return false;
    for (int i = 0; i < n_experts; i++)
        later += layer->last[i] > layer->last[expert];
    return later < size;
}

static void use_experts(struct stats *stats, struct layer *layer, const int32_t *ids, int n)
{
    for (int i = 0; i < n && stats->decoding; i++) {
        layer->n_wanted++;
        for (int k = 0; k < 2; k++)
            layer->n_hits[k] +=
                is_cached(layer, stats->n_experts, ids[i], stats->n_experts / (k ? 4 : 8));
    }
    for (int i = 0; i < n; i++)
        layer->last[ids[i]] = ++stats->clock;
}

/* The layer of a routing node's name, or -1 for any other node. */
static long layer_of(const char *name)
{
    static const char prefix[] = "ffn_moe_topk-";
    long number;
    char *end;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    number = strtol(name + sizeof prefix - 1, &end, 10);
    return *end || number >= MAX_LAYERS ? -1 : number;
}

/* The scheduler's callback: sees the routing node of each layer after it is computed. */
static bool on_node(struct ggml_tensor *node, bool ask, void *data)
{
    struct stats *stats = data;
    int32_t ids[MAX_USED];
    long number = layer_of(node->name);

    if (number < 0 || ask)
        return number >= 0;
    for (int64_t token = 0; token < node->ne[1]; token++) {
        ggml_backend_tensor_get(node, ids, (size_t)token * node->nb[1],
                                (size_t)node->ne[0] * sizeof ids[0]);
        use_experts(stats, &stats->layers[number], ids, (int)node->ne[0]);
    }
    return true;
}

static int tokenize_file(const struct llama_vocab *vocab, const char *path, llama_token *tokens)
{
    static char text[4 * MAX_TOKENS];
    llama_token all[4 * MAX_TOKENS + 1];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    int n_tokens =
        llama_tokenize(vocab, text, (int)n, all, (int)(sizeof all / sizeof all[0]), true, false);

    if (file)
        fclose(file);
    if (n_tokens > MAX_TOKENS)
        n_tokens = MAX_TOKENS;
    if (n_tokens > 0)
        memcpy(tokens, all, (size_t)n_tokens * sizeof *tokens);
    return n_tokens;
}

static int run(struct llama_context *context, llama_token *tokens, int n, struct stats *stats,
               double *share_used)
{
    long used = 0;
    long all = 0;
    int rc = llama_decode(context, llama_batch_get_one(tokens, N_PROMPT));

    for (int i = 0; i < MAX_LAYERS; i++) {
        int of_layer = 0;

        for (int e = 0; e < stats->n_experts; e++)
            of_layer += stats->layers[i].last[e] != 0;
        used += of_layer;
        all += of_layer ? stats->n_experts : 0;
    }
    *share_used = all ? 100.0 * (double)used / (double)all : 0;
    stats->decoding = true;
    for (int i = N_PROMPT; i < n && rc == 0; i++)
        rc = llama_decode(context, llama_batch_get_one(&tokens[i], 1));
    return rc;
}

static double hit_rate(const struct stats *stats, int k)
{
    long hits = 0;
    long wanted = 0;

    for (int i = 0; i < MAX_LAYERS; i++) {
        hits += stats->layers[i].n_hits[k];
        wanted += stats->layers[i].n_wanted;
    }
    return wanted ? 100.0 * (double)hits / (double)wanted : 0;
}

static int judge(const double figures[3], char **ranges, int n)
{
    for (int i = 0; i < n && i < 3; i++) {
        char *end;
        double min = strtod(ranges[i], &end);
        double max = *end == ':' ? strtod(end + 1, &end) : -1;

        if (*end || max < min)
            return 2;
        if (figures[i] < min || figures[i] > max) {
            fprintf(stderr, "%.1f is outside of %s.\n", figures[i], ranges[i]);
            return 1;
        }
    }
    return 0;
}

static int expert_count(const struct llama_model *model)
{
    char arch[64] = "";
    char key[96];
    char value[32] = "";

    llama_model_meta_val_str(model, "general.architecture", arch, sizeof arch);
    snprintf(key, sizeof key, "%s.expert_count", arch);
    llama_model_meta_val_str(model, key, value, sizeof value);
    return (int)strtol(value, NULL, 10);
}

int main(int argc, char **argv)
{
    static struct stats stats;
    llama_token tokens[MAX_TOKENS];
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *model;
    struct llama_context *context = NULL;
    double figures[3] = {0};
    int n = 0;

    if (argc < 4)
        return 2;
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[2]);
    model_params.n_gpu_layers = 0;
    model = llama_model_load_from_file(argv[1], model_params);
    params.n_ctx = MAX_TOKENS;
    params.cb_eval = on_node;
    params.cb_eval_user_data = &stats;
    if (model) {
        stats.n_experts = expert_count(model);
        context = llama_init_from_model(model, params);
        n = tokenize_file(llama_model_get_vocab(model), argv[3], tokens);
    }
    if (!context || stats.n_experts < 1 || stats.n_experts > MAX_EXPERTS || n <= N_PROMPT ||
        run(context, tokens, n, &stats, &figures[0]) != 0) {
        fprintf(stderr, "%s cannot be measured with %s.\n", argv[1], argv[3]);
        return 1;
    }
    figures[1] = hit_rate(&stats, 0);
    figures[2] = hit_rate(&stats, 1);
    printf("%d tokens use %.1f %% of the experts; over the next %d a cache of 1/8 of the experts "
           "hits %.1f %%, of 1/4 %.1f %%\n",
           N_PROMPT, figures[0], n - N_PROMPT, figures[1], figures[2]);
    llama_free(context);
    llama_model_free(model);
    return judge(figures, argv + 4, argc - 4);
}
