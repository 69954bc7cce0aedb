/*
 * The table of architectures, and the parts several of them share. Gains here are chosen so that
 * attention looks at a few positions rather than at the mean of all, and an expert's sum stays of
 * order one.
 */
#include "mk_arch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*fill)(struct mk_plan *plan);
    bool tied;
} table[] = {
    {"qwen3moe", mk_arch_qwen3moe, false},
};

enum { N_ARCHS = sizeof table / sizeof table[0] };

int mk_arch_fill(struct mk_plan *plan, struct mk_error *error)
{
    for (int i = 0; i < N_ARCHS; i++) {
        if (strcmp(table[i].name, plan->shape.arch) != 0)
            continue;
        table[i].fill(plan);
        if (plan->error.code != 0)
            return mk_error_set(error, plan->error.code, "%s", plan->error.text);
        return 0;
    }
    return mk_error_set(error, -EINVAL, "No architecture is called %s.", plan->shape.arch);
}

bool mk_arch_always_tied(const char *arch)
{
    for (int i = 0; i < N_ARCHS; i++)
        if (strcmp(table[i].name, arch) == 0)
            return table[i].tied;
    return false;
}

void mk_arch_experts(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_experts(plan, layer, "ffn_gate_exps.weight", shape->embd, shape->ff, 1.0f);
    mk_plan_experts(plan, layer, "ffn_up_exps.weight", shape->embd, shape->ff, 1.0f);
    mk_plan_experts_output(plan, layer, "ffn_down_exps.weight", 3.0f);
}

void mk_arch_dense(struct mk_plan *plan, int64_t layer, const char *suffix, int64_t ff)
{
    char name[64];

    snprintf(name, sizeof name, "ffn_gate%s.weight", suffix);
    mk_plan_matrix(plan, layer, name, plan->shape.embd, ff, 1.0f);
    snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
    mk_plan_matrix(plan, layer, name, plan->shape.embd, ff, 1.0f);
    snprintf(name, sizeof name, "ffn_down%s.weight", suffix);
    mk_plan_output(plan, layer, name, ff, 1.5f);
}

void mk_arch_attention(struct mk_plan *plan, int64_t layer, int64_t head_dim, int64_t kv_heads)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_matrix(plan, layer, "attn_q.weight", shape->embd, shape->heads * head_dim, 1.5f);
    mk_plan_matrix(plan, layer, "attn_k.weight", shape->embd, kv_heads * head_dim, 1.5f);
    mk_plan_matrix(plan, layer, "attn_v.weight", shape->embd, kv_heads * head_dim, 1.0f);
    mk_plan_output(plan, layer, "attn_output.weight", shape->heads * head_dim, 1.5f);
}

void mk_arch_qk_norms(struct mk_plan *plan, int64_t layer, int64_t head_dim)
{
    mk_plan_vector(plan, layer, "attn_q_norm.weight", head_dim, 1.6f, 0.1f);
    mk_plan_vector(plan, layer, "attn_k_norm.weight", head_dim, 1.6f, 0.1f);
}
