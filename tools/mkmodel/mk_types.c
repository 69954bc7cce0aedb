/*
 * Types, mixes and fall-backs. The mixes follow what llama-quantize makes: Q4_K_M keeps half of the
 * values and down projections, and the head, in Q6_K; MXFP4_MOE has MXFP4 experts and Q8_0 for the
 * rest. The fall-backs are also llama-quantize's: a 256-wide type gives way to a 32-wide type of at
 * least its precision, a row that 32 does not divide becomes F16.
 */
#include "mk_types.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Types ggml_quantize_chunk or a plain conversion writes. */
static const enum ggml_type types[] = {
    GGML_TYPE_F32,     GGML_TYPE_F16,   GGML_TYPE_BF16,   GGML_TYPE_Q4_0,    GGML_TYPE_Q4_1,
    GGML_TYPE_Q5_0,    GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,   GGML_TYPE_Q2_K,    GGML_TYPE_Q3_K,
    GGML_TYPE_Q4_K,    GGML_TYPE_Q5_K,  GGML_TYPE_Q6_K,   GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
    GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ1_S, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ3_S,   GGML_TYPE_IQ2_S,
    GGML_TYPE_IQ4_XS,  GGML_TYPE_IQ1_M, GGML_TYPE_TQ1_0,  GGML_TYPE_TQ2_0,   GGML_TYPE_MXFP4,
    GGML_TYPE_NVFP4,   GGML_TYPE_Q1_0,  GGML_TYPE_Q2_0,
};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* A mix: the type of most matrices, of the experts, and the better type of some. */
struct mix {
    const char *name;
    enum ggml_type type;
    enum ggml_type expert;
    enum ggml_type better;
};

static const struct mix mixes[] = {
    {"Q4_K_M", GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K},
    {"Q5_K_M", GGML_TYPE_Q5_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K},
    {"MXFP4_MOE", GGML_TYPE_Q8_0, GGML_TYPE_MXFP4, GGML_TYPE_Q8_0},
};

enum { N_MIXES = sizeof mixes / sizeof mixes[0] };

static int find_type(const char *name, enum ggml_type *type)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (strcasecmp(ggml_type_name(types[i]), name) == 0) {
            *type = types[i];
            return 0;
        }
    }
    return BMOE_E_MISUSE;
}

static int bad_type(const char *name, struct bmoe_error *error)
{
    char list[256];
    size_t used = 0;

    for (int i = 0; i < N_TYPES && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, " %s", ggml_type_name(types[i]));
    return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                     "%s is no type; there are%s, Q4_K_M, Q5_K_M and MXFP4_MOE.", name, list);
}

static int find_mix(const char *name, struct mix *mix, struct bmoe_error *error)
{
    for (int i = 0; i < N_MIXES; i++) {
        if (strcasecmp(mixes[i].name, name) == 0) {
            *mix = mixes[i];
            return 0;
        }
    }
    if (find_type(name, &mix->type) < 0)
        return bad_type(name, error);
    mix->name = name;
    mix->expert = mix->better = mix->type;
    return 0;
}

/* The layers in which a mix spends more bits: the first and the last eighth, and every third. */
static bool more_bits(const struct mk_plan *plan, int64_t layer)
{
    int64_t n = plan->shape.layers;

    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static enum ggml_type mix_type(const struct mk_plan *plan, const struct mix *mix,
                               const struct mk_tensor *tensor)
{
    const char *name = tensor->name;
    bool head =
        plan->tied ? strcmp(name, "token_embd.weight") == 0 : strcmp(name, "output.weight") == 0;

    if (head)
        return mix->better;
    if (mix->better != mix->type && more_bits(plan, tensor->layer) &&
        (strstr(name, "attn_v.") || strstr(name, "ffn_down")))
        return mix->better;
    return tensor->role == MK_EXPERT ? mix->expert : mix->type;
}

/* The type for rows that the blocks of the wanted one do not divide. */
static enum ggml_type fallback(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_Q4_K:
        return GGML_TYPE_Q5_0;
    case GGML_TYPE_Q5_K:
        return GGML_TYPE_Q5_1;
    case GGML_TYPE_Q6_K:
        return GGML_TYPE_Q8_0;
    default:
        return ggml_blck_size(type) > 32 ? GGML_TYPE_IQ4_NL : GGML_TYPE_F16;
    }
}

/* Replaces types that do not fit and counts how often, by the pair of types. */
static void apply_fallbacks(struct mk_plan *plan, int counts[GGML_TYPE_COUNT][GGML_TYPE_COUNT])
{
    for (size_t i = 0; i < plan->n_tensors; i++) {
        struct mk_tensor *tensor = &plan->tensors[i];
        enum ggml_type wanted = tensor->type;

        while (tensor->ne[0] % ggml_blck_size(tensor->type) != 0)
            tensor->type = fallback(tensor->type);
        counts[wanted][tensor->type] += wanted != tensor->type;
    }
}

static void tell_fallbacks(int counts[GGML_TYPE_COUNT][GGML_TYPE_COUNT])
{
    for (int from = 0; from < GGML_TYPE_COUNT; from++)
        for (int to = 0; to < GGML_TYPE_COUNT; to++)
            if (counts[from][to])
                fprintf(stderr,
                        "%d tensors are %s, as their rows are no multiple of the %lld elements "
                        "of a %s block.\n",
                        counts[from][to], ggml_type_name((enum ggml_type)to),
                        (long long)ggml_blck_size((enum ggml_type)from),
                        ggml_type_name((enum ggml_type)from));
}

static int apply_rule(struct mk_plan *plan, const struct mk_type_rule *rule,
                      struct bmoe_error *error)
{
    enum ggml_type type;
    size_t matches = 0;

    if (find_type(rule->type, &type) < 0)
        return bad_type(rule->type, error);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        struct mk_tensor *tensor = &plan->tensors[i];

        if (tensor->role == MK_KEEP || fnmatch(rule->pattern, tensor->name, 0) != 0)
            continue;
        tensor->type = type;
        matches++;
    }
    if (matches == 0)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "--type-for %s matches no tensor whose type is free; --list shows the "
                         "names.",
                         rule->pattern);
    return 0;
}

int mk_types_assign(struct mk_plan *plan, const char *name, const struct mk_type_rule *rules,
                    size_t n_rules, struct bmoe_error *error)
{
    static const int none[GGML_TYPE_COUNT][GGML_TYPE_COUNT];
    int counts[GGML_TYPE_COUNT][GGML_TYPE_COUNT];
    struct mix mix = {0};
    int rc = find_mix(name, &mix, error);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        struct mk_tensor *tensor = &plan->tensors[i];

        tensor->type = tensor->role == MK_KEEP ? GGML_TYPE_F32 : mix_type(plan, &mix, tensor);
    }
    for (size_t i = 0; i < n_rules; i++)
        if ((rc = apply_rule(plan, &rules[i], error)) < 0)
            return rc;
    memcpy(counts, none, sizeof counts);
    apply_fallbacks(plan, counts);
    tell_fallbacks(counts);
    return 0;
}
