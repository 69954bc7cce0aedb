/*
 * Model values that libllama or ggml would abort on, divide by, or loop over for ever. One table of
 * ranges, one of rules between values; each rule is found again by tests/fuzz/mutate_headers when
 * it is taken away. Keys that are absent, or that libllama itself refuses with an error (a wrong
 * type, a shape that does not match), are left to it.
 */
#include "model/gguf_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_LAYERS  512  /* LLAMA_MAX_LAYERS */
#define MAX_EXPERTS 1024 /* LLAMA_MAX_EXPERTS */

/* What every element of "<arch>.<suffix>" must be in. */
static const struct {
    const char *suffix;
    int64_t least, most;
} ranges[] = {
    {"block_count", 1, MAX_LAYERS},
    {"expert_count", 0, MAX_EXPERTS},
    {"expert_used_count", 0, MAX_EXPERTS},
    {"attention.value_expert_count", 0, MAX_EXPERTS},
    {"attention.value_expert_used_count", 0, MAX_EXPERTS},
    {"embedding_length", 1, 1 << 20},
    {"attention.head_count", 0, 1 << 16},
    {"attention.head_count_kv", 0, 1 << 16},
    {"attention.key_length", 1, 1 << 16},
    {"attention.value_length", 1, 1 << 16},
    {"rope.dimension_count", 0, 1 << 16},
};

static int out_of_range(const struct gguf_index *x, const char *key, int64_t value, int64_t least,
                        int64_t most, struct bmoe_error *err)
{
    return gguf_refuse(err, x->shards[0].path,
                       "%s is %" PRId64 ", from %" PRId64 " to %" PRId64 " is possible", key, value,
                       least, most);
}

static int check_ranges(const struct gguf_index *x, struct bmoe_error *err)
{
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, ranges[r].suffix);
        for (uint64_t i = 0; v && v->bits && i < v->n; i++) {
            int64_t value;
            if (!gguf_value_i64(v, i, &value))
                break;
            if (value < ranges[r].least || value > ranges[r].most)
                return out_of_range(x, v->key, value, ranges[r].least, ranges[r].most, err);
        }
    }
    return 0;
}

/* ---- rules between values ---- */

/* The largest element of "<arch>.<suffix>"; 0 when absent or not numbers. */
static uint64_t most_of(const struct gguf_index *x, const char *suffix)
{
    const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, suffix);
    uint64_t most = 0, value;
    for (uint64_t i = 0; v && v->bits && i < v->n; i++)
        if (gguf_value_u64(v, i, &value) && value > most)
            most = value;
    return most;
}

/* used_suffix counts chosen ones of those count_suffix counts: at least one of some, none of none.
 */
static int check_chosen(const struct gguf_index *x, const char *count_suffix,
                        const char *used_suffix, struct bmoe_error *err)
{
    uint64_t n = most_of(x, count_suffix), used = most_of(x, used_suffix);
    if (used <= n && (n == 0 || used > 0))
        return 0;
    return gguf_refuse(err, x->shards[0].path,
                       "%s.%s is %" PRIu64 " while %s is %" PRIu64
                       ": between 1 and all of them can be used",
                       x->arch, used_suffix, used, count_suffix, n);
}

static int check_experts(const struct gguf_index *x, struct bmoe_error *err)
{
    int rc = check_chosen(x, "expert_count", "expert_used_count", err);
    if (rc < 0)
        return rc;
    return check_chosen(x, "attention.value_expert_count", "attention.value_expert_used_count",
                        err);
}

static int check_groups(const struct gguf_index *x, struct bmoe_error *err)
{
    uint64_t n = most_of(x, "expert_count"), groups = most_of(x, "expert_group_count");
    uint64_t used = most_of(x, "expert_group_used_count");
    bool fine = groups == 0 || (groups < n && n % groups == 0);
    if (fine && groups > 1)
        fine = used > 0 && used < groups;
    if (fine)
        return 0;
    return gguf_refuse(err, x->shards[0].path,
                       "%" PRIu64 " experts cannot be divided into %" PRIu64
                       " groups of which %" PRIu64 " are used",
                       n, groups, used);
}

static int check_layers(const struct gguf_index *x, struct bmoe_error *err)
{
    uint64_t n = most_of(x, "block_count"), predict = most_of(x, "nextn_predict_layers");
    uint64_t last = 0;
    if (n && predict >= n)
        return gguf_refuse(err, x->shards[0].path,
                           "%s.nextn_predict_layers is %" PRIu64 " of only %" PRIu64 " layers",
                           x->arch, predict, n);
    for (uint32_t i = 0; i < x->n_tensors; i++) {
        unsigned layer;
        if (sscanf(x->tensors[i].name, "blk.%u.", &layer) == 1 && layer > last)
            last = layer;
    }
    /* A file may come without its prediction layers; twice too many is a damaged number. */
    if (x->n_tensors && n > 2 * (last + 1) + 8)
        return gguf_refuse(err, x->shards[0].path,
                           "%s.block_count is %" PRIu64 ", but the last layer there is %" PRIu64,
                           x->arch, n, last);
    return 0;
}

/* blk.N.ffn_{gate,up,gate_up,down}_exps.weight */
static bool is_expert_matrix(const char *name)
{
    const char *s = strstr(name, ".ffn_");
    if (strncmp(name, "blk.", 4) != 0 || !s)
        return false;
    s += 5;
    return strcmp(s, "gate_exps.weight") == 0 || strcmp(s, "up_exps.weight") == 0 ||
           strcmp(s, "gate_up_exps.weight") == 0 || strcmp(s, "down_exps.weight") == 0;
}

static int check_shapes(const struct gguf_index *x, struct bmoe_error *err)
{
    uint64_t n_expert = most_of(x, "expert_count"), n_embd = most_of(x, "embedding_length");
    for (uint32_t i = 0; i < x->n_tensors; i++) {
        const struct gguf_tensor *t = &x->tensors[i];
        if (is_expert_matrix(t->name) && (uint64_t)t->ne[2] != n_expert)
            return gguf_refuse(err, x->shards[t->shard].path,
                               "tensor '%s' holds %" PRId64 " experts, %s.expert_count is %" PRIu64,
                               t->name, t->ne[2], x->arch, n_expert);
    }
    const struct gguf_tensor *embd = gguf_index_find(x, "token_embd.weight");
    if (embd && n_embd && (uint64_t)embd->ne[0] != n_embd)
        return gguf_refuse(err, x->shards[embd->shard].path,
                           "token_embd.weight is %" PRId64 " wide, %s.embedding_length is %" PRIu64,
                           embd->ne[0], x->arch, n_embd);
    return 0;
}

/* Tensors that are added, multiplied by or convolved with, not multiplied as a matrix: the kernels
 * assert that they are F32, and every converter writes them so. */
static int check_types(const struct gguf_index *x, struct bmoe_error *err)
{
    static const char *const ends[] = {".bias",
                                       "norm.weight",
                                       ".scale",
                                       "_scale.weight",
                                       ".ssm_a",
                                       ".ssm_d",
                                       ".ssm_conv1d.weight",
                                       ".shortconv.conv.weight",
                                       "attn_sinks.weight",
                                       "rope_freqs.weight"};
    for (uint32_t i = 0; i < x->n_tensors; i++) {
        const struct gguf_tensor *t = &x->tensors[i];
        size_t n = strlen(t->name);
        for (size_t k = 0; t->type != 0 && k < sizeof ends / sizeof *ends; k++) {
            size_t m = strlen(ends[k]);
            if (n >= m && strcmp(t->name + n - m, ends[k]) == 0)
                return gguf_refuse(err, x->shards[t->shard].path,
                                   "tensor '%s' is of type %u, where only F32 is possible", t->name,
                                   t->type);
        }
    }
    return 0;
}

/* The kernels assert it of what they are given: not negative, and a number. */
static int check_epsilons(const struct gguf_index *x, struct bmoe_error *err)
{
    for (uint32_t i = 0; i < x->meta.n_values; i++) {
        const struct gguf_value *v = &x->meta.values[i];
        size_t n = strlen(v->key);
        if (n < 7 || strcmp(v->key + n - 7, "epsilon") != 0 || v->type != GGUF_F32)
            continue;
        uint32_t bits = (uint32_t)v->bits[0];
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!(value >= 0 && value < 1))
            return gguf_refuse(err, x->shards[0].path, "%s is %g, from 0 to below 1 is possible",
                               v->key, (double)value);
    }
    return 0;
}

int gguf_check_model(const struct gguf_index *x, struct bmoe_error *err)
{
    typedef int rule_fn(const struct gguf_index *x, struct bmoe_error *err);
    static rule_fn *const rules[] = {check_ranges, check_experts, check_groups,   check_layers,
                                     check_shapes, check_types,   check_epsilons, gguf_check_rope};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof rules / sizeof *rules; i++)
        rc = rules[i](x, err);
    return rc;
}
