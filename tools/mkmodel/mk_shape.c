/*
 * The table of presets and the limits of their numbers. Shapes of the B presets are those of the
 * published models named in `mimics`; the T presets keep what is awkward in these (rows that are no
 * multiple of 256, slices that are no multiple of a sector) at a size that runs in a second.
 */
#include "mk_shape.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct mk_shape presets[] = {
    {.preset = "T1",
     .arch = "qwen3moe",
     .type = "Q4_0",
     .layers = 4,
     .min_layers = 1,
     .embd = 256,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 64,
     .experts = 16,
     .used = 4,
     .ff = 256,
     .vocab = 512,
     .mimics = "Qwen3 MoE"},
    {.preset = "T2",
     .arch = "qwen35moe",
     .type = "Q4_0",
     .layers = 8,
     .min_layers = 4,
     .embd = 256,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 64,
     .experts = 32,
     .used = 8,
     .ff = 256,
     .shared_ff = 256,
     .vocab = 512,
     .period = 4,
     .ssm_heads = 8,
     .ssm_groups = 4,
     .ssm_state = 64,
     .ssm_inner = 512,
     .conv = 4,
     .rope_dim = 32,
     .mimics = "Qwen3.6 (recurrent, shared expert)"},
    {.preset = "T3",
     .arch = "gemma4",
     .type = "Q4_0",
     .layers = 6,
     .min_layers = 6,
     .embd = 352,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 64,
     .experts = 16,
     .used = 4,
     .ff = 352,
     .dense_ff = 352,
     .vocab = 1024,
     .period = 6,
     .window = 64,
     .global_head_dim = 128,
     .global_kv_heads = 1,
     .mimics = "Gemma 4 (fused gate and up)"},
    {.preset = "T4",
     .arch = "gpt-oss",
     .type = "MXFP4_MOE",
     .layers = 4,
     .min_layers = 1,
     .embd = 352,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 64,
     .experts = 8,
     .used = 4,
     .ff = 352,
     .vocab = 512,
     .window = 128,
     .mimics = "gpt-oss (biases, odd slices)"},
    {.preset = "T5",
     .arch = "nemotron_h_moe",
     .type = "Q4_0",
     .layers = 8,
     .min_layers = 4,
     .embd = 672,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 64,
     .experts = 16,
     .used = 6,
     .ff = 480,
     .shared_ff = 960,
     .vocab = 512,
     .ssm_heads = 8,
     .ssm_groups = 4,
     .ssm_state = 64,
     .ssm_inner = 512,
     .conv = 4,
     .mimics = "Nemotron 3 Nano (no gate)"},
    {.preset = "T6",
     .arch = "lfm2moe",
     .type = "Q4_0",
     .layers = 6,
     .min_layers = 3,
     .embd = 256,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 64,
     .experts = 64,
     .used = 8,
     .ff = 256,
     .dense_ff = 512,
     .dense_layers = 2,
     .vocab = 512,
     .period = 3,
     .conv = 3,
     .mimics = "LFM2.5 (selection bias, dense layers)"},
    {.preset = "T7",
     .arch = "deepseek2",
     .type = "Q4_0",
     .layers = 4,
     .min_layers = 2,
     .embd = 256,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 64,
     .experts = 16,
     .used = 4,
     .ff = 256,
     .shared_ff = 256,
     .dense_ff = 512,
     .dense_layers = 1,
     .vocab = 512,
     .q_lora = 96,
     .kv_lora = 128,
     .rope_dim = 32,
     .mimics = "GLM-4.7-Flash (latent attention)"},
    {.preset = "T8",
     .arch = "qwen3",
     .type = "Q4_0",
     .layers = 8,
     .min_layers = 1,
     .embd = 512,
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 64,
     .ff = 1536,
     .vocab = 512,
     .mimics = "Qwen3 (no experts)"},
    {.preset = "B1",
     .arch = "qwen35moe",
     .type = "Q4_0",
     .layers = 8,
     .min_layers = 4,
     .embd = 2048,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 256,
     .experts = 256,
     .used = 8,
     .ff = 512,
     .shared_ff = 512,
     .vocab = 248320,
     .period = 4,
     .ssm_heads = 32,
     .ssm_groups = 16,
     .ssm_state = 128,
     .ssm_inner = 4096,
     .conv = 4,
     .rope_dim = 64,
     .mimics = "Qwen3.6-35B-A3B, 8 of 40 layers"},
    {.preset = "B2",
     .arch = "gemma4",
     .type = "Q4_0",
     .layers = 6,
     .min_layers = 6,
     .embd = 2816,
     .heads = 16,
     .kv_heads = 8,
     .head_dim = 256,
     .experts = 128,
     .used = 8,
     .ff = 704,
     .dense_ff = 2112,
     .vocab = 262144,
     .period = 6,
     .window = 1024,
     .global_head_dim = 512,
     .global_kv_heads = 2,
     .mimics = "Gemma 4 26B-A4B, 6 of 30 layers"},
    {.preset = "B3",
     .arch = "gpt-oss",
     .type = "MXFP4_MOE",
     .layers = 6,
     .min_layers = 1,
     .embd = 2880,
     .heads = 64,
     .kv_heads = 8,
     .head_dim = 64,
     .experts = 32,
     .used = 4,
     .ff = 2880,
     .vocab = 201088,
     .window = 128,
     .mimics = "gpt-oss-20b, 6 of 24 layers"},
    {.preset = "B4",
     .arch = "qwen3moe",
     .type = "Q4_0",
     .layers = 4,
     .min_layers = 1,
     .embd = 2560,
     .heads = 24,
     .kv_heads = 2,
     .head_dim = 256,
     .experts = 512,
     .used = 10,
     .ff = 640,
     .vocab = 32000,
     .mimics = "512 small experts, as Qwen3.8-Flash-Next and Ling-3.0 have"},
    {.preset = "bench",
     .arch = "qwen3moe",
     .type = "Q4_0",
     .layers = 12,
     .min_layers = 1,
     .embd = 2048,
     .heads = 32,
     .kv_heads = 4,
     .head_dim = 128,
     .experts = 128,
     .used = 8,
     .ff = 768,
     .vocab = 32000,
     .mimics = "Qwen3-30B-A3B, 12 of 48 layers"},
};

enum { N_PRESETS = sizeof presets / sizeof presets[0] };

const struct mk_shape *mk_shape_at(int i)
{
    return i >= 0 && i < N_PRESETS ? &presets[i] : NULL;
}

const struct mk_shape *mk_shape_find(const char *name)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (strcasecmp(presets[i].preset, name) == 0)
            return &presets[i];
    return NULL;
}

const struct mk_shape *mk_shape_of_arch(const char *arch)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].arch, arch) == 0)
            return &presets[i];
    return NULL;
}

int mk_shape_settle(struct mk_shape *shape, struct bmoe_error *error)
{
    if (shape->used > shape->experts)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "--used %lld is more than --experts %lld; ask for fewer.",
                         (long long)shape->used, (long long)shape->experts);
    if (shape->layers < shape->min_layers)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "%s needs %lld layers or more to have one of each kind.", shape->arch,
                         (long long)shape->min_layers);
    if (shape->heads % shape->kv_heads != 0)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "--heads %lld is no multiple of the %lld --kv-heads.",
                         (long long)shape->heads, (long long)shape->kv_heads);
    /* Here the shared expert is as wide as a routed one. */
    if (strcmp(shape->arch, "deepseek2") == 0)
        shape->shared_ff = shape->ff;
    if (strcmp(shape->arch, "lfm2moe") == 0) {
        /* This architecture has no key for the size of a head. */
        shape->head_dim = shape->embd / shape->heads;
        if (shape->embd % shape->heads != 0 || shape->head_dim % 2 != 0)
            return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                             "The heads of lfm2moe share --embd: make it an even multiple of "
                             "the %lld --heads.",
                             (long long)shape->heads);
    }
    return 0;
}
