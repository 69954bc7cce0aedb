/*
 * The table of architectures, and the parts several of them share. Gains here are chosen so that
 * attention looks at a few positions rather than at the mean of all, and an expert's sum stays of
 * order one.
 */
#include "mk_arch.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*fill)(struct mk_plan *plan);
    struct mk_arch_traits traits;
} table[] = {
    {"qwen3moe", mk_arch_qwen3moe, {0}},
    {"qwen35moe", mk_arch_qwen35moe, {.may_fuse = true, .may_mtp = true}},
    {"gemma4", mk_arch_gemma4, {.tied = true, .fused = true, .may_fuse = true}},
    {"gpt-oss", mk_arch_gpt_oss, {.never_tied = true}},
    {"nemotron_h_moe", mk_arch_nemotron_h_moe, {0}},
    {"lfm2moe", mk_arch_lfm2moe, {.tied = true}},
    {"deepseek2", mk_arch_deepseek2, {.may_fuse = true, .may_mtp = true}},
    {"qwen3", mk_arch_qwen3, {0}},
};

enum { N_ARCHS = sizeof table / sizeof table[0] };

int mk_arch_fill(struct mk_plan *plan, struct bmoe_error *error)
{
    for (int i = 0; i < N_ARCHS; i++) {
        if (strcmp(table[i].name, plan->shape.arch) != 0)
            continue;
        table[i].fill(plan);
        if (plan->error.code != 0)
            return error_set(error, plan->error.code, BMOE_SCOPE_PROCESS, "%s", plan->error.text);
        return 0;
    }
    return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS, "No architecture is called %s.",
                     plan->shape.arch);
}

struct mk_arch_traits mk_arch_traits(const char *arch)
{
    for (int i = 0; i < N_ARCHS; i++)
        if (strcmp(table[i].name, arch) == 0)
            return table[i].traits;
    return (struct mk_arch_traits){0};
}

void mk_arch_experts(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;

    if (plan->fused) {
        mk_plan_experts(plan, layer, "ffn_gate_up_exps.weight", shape->embd, 2 * shape->ff, 1.0f);
    } else {
        mk_plan_experts(plan, layer, "ffn_gate_exps.weight", shape->embd, shape->ff, 1.0f);
        mk_plan_experts(plan, layer, "ffn_up_exps.weight", shape->embd, shape->ff, 1.0f);
    }
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

void mk_arch_qk_norms(struct mk_plan *plan, int64_t layer, int64_t head_dim, float mean)
{
    mk_plan_vector(plan, layer, "attn_q_norm.weight", head_dim, mean, 0.05f * mean);
    mk_plan_vector(plan, layer, "attn_k_norm.weight", head_dim, mean, 0.05f * mean);
}

void mk_arch_ssm_keys(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_u32(plan, "ssm.conv_kernel", shape->conv);
    mk_plan_u32(plan, "ssm.inner_size", shape->ssm_inner);
    mk_plan_u32(plan, "ssm.state_size", shape->ssm_state);
    mk_plan_u32(plan, "ssm.time_step_rank", shape->ssm_heads);
    mk_plan_u32(plan, "ssm.group_count", shape->ssm_groups);
}

void mk_arch_selection_keys(struct mk_plan *plan, float scale)
{
    enum { SIGMOID = 2 };

    mk_plan_u32(plan, "expert_gating_func", SIGMOID);
    mk_plan_bool(plan, "expert_weights_norm", true);
    mk_plan_f32(plan, "expert_weights_scale", scale);
}

void mk_arch_mtp(struct mk_plan *plan)
{
    int64_t layer = plan->shape.layers;
    int64_t embd = plan->shape.embd;

    mk_plan_u32(plan, "block_count", layer + 1);
    mk_plan_u32(plan, "nextn_predict_layers", 1);
    mk_plan_matrix(plan, layer, "nextn.eh_proj.weight", 2 * embd, embd, 1.0f);
    mk_plan_vector(plan, layer, "nextn.enorm.weight", embd, 1.0f, 0.05f);
    mk_plan_vector(plan, layer, "nextn.hnorm.weight", embd, 1.0f, 0.05f);
    mk_plan_vector(plan, layer, "nextn.shared_head_norm.weight", embd, 1.0f, 0.05f);
}
