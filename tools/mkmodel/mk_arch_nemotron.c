/*
 * Nemotron 3: every layer is one block only, of three kinds in a repeating pattern: M is a
 * state-space block (Mamba 2), E is experts of two matrices without a gate (and a shared one), * is
 * attention.
 */
#include "mk_arch.h"

#include <stdlib.h>

static const char pattern[] = "MEM*MEME";

static char kind(int64_t layer)
{
    return pattern[(size_t)layer % (sizeof pattern - 1)];
}

static void keys(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;
    size_t n = (size_t)shape->layers;
    uint32_t *kv_heads = calloc(n, sizeof *kv_heads);
    uint32_t *ff = calloc(n, sizeof *ff);

    for (size_t i = 0; kv_heads && ff && i < n; i++) {
        kv_heads[i] = kind((int64_t)i) == '*' ? (uint32_t)shape->kv_heads : 0;
        ff[i] = kind((int64_t)i) == 'E' ? (uint32_t)shape->ff : 0;
    }
    if (kv_heads && ff) {
        mk_plan_u32s(plan, "attention.head_count_kv", kv_heads, n);
        mk_plan_u32s(plan, "feed_forward_length", ff, n);
    } else {
        mk_plan_no_memory(plan);
    }
    free(kv_heads);
    free(ff);
    mk_plan_u32(plan, "attention.key_length", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->head_dim);
    mk_plan_f32(plan, "attention.layer_norm_epsilon", 1e-5f);
    mk_plan_u32(plan, "expert_shared_count", 1);
    mk_plan_u32(plan, "expert_shared_feed_forward_length", shape->shared_ff);
    mk_arch_selection_keys(plan, 2.5f);
    mk_arch_ssm_keys(plan);
}

static void state_space(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    int64_t mixed = shape->ssm_inner + 2 * shape->ssm_groups * shape->ssm_state;
    int64_t group = shape->ssm_inner / shape->ssm_groups;

    mk_plan_matrix(plan, layer, "ssm_in.weight", shape->embd,
                   shape->ssm_inner + mixed + shape->ssm_heads, 1.0f);
    mk_plan_add(plan, layer, "ssm_conv1d.weight", MK_KEEP, (int64_t[4]){shape->conv, mixed},
                (struct mk_fill){.std = 0.6f});
    mk_plan_vector(plan, layer, "ssm_conv1d.bias", mixed, 0.0f, 0.1f);
    mk_plan_vector(plan, layer, "ssm_dt.bias", shape->ssm_heads, -2.0f, 0.5f);
    mk_plan_add(plan, layer, "ssm_a", MK_KEEP, (int64_t[4]){1, shape->ssm_heads},
                (struct mk_fill){.mean = -1.0f, .std = 0.3f});
    mk_plan_add(plan, layer, "ssm_d", MK_KEEP, (int64_t[4]){1, shape->ssm_heads},
                (struct mk_fill){.mean = 1.0f, .std = 0.2f});
    mk_plan_add(plan, layer, "ssm_norm.weight", MK_KEEP, (int64_t[4]){group, shape->ssm_groups},
                (struct mk_fill){.mean = 1.0f, .std = 0.05f});
    mk_plan_output(plan, layer, "ssm_out.weight", shape->ssm_inner, 1.5f);
}

static void experts(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_router(plan, layer);
    mk_plan_vector(plan, layer, "exp_probs_b.bias", shape->experts, 0.0f, 0.01f);
    mk_plan_experts(plan, layer, "ffn_up_exps.weight", shape->embd, shape->ff, 1.0f);
    mk_plan_experts_output(plan, layer, "ffn_down_exps.weight", 1.0f);
    mk_plan_matrix(plan, layer, "ffn_up_shexp.weight", shape->embd, shape->shared_ff, 1.0f);
    mk_plan_output(plan, layer, "ffn_down_shexp.weight", shape->shared_ff, 1.0f);
}

void mk_arch_nemotron_h_moe(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;

    keys(plan);
    mk_plan_ends(plan, "output_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        mk_plan_norm(plan, layer, "attn_norm.weight", kind(layer) == 'E');
        if (kind(layer) == 'M')
            state_space(plan, layer);
        else if (kind(layer) == 'E')
            experts(plan, layer);
        else
            mk_arch_attention(plan, layer, shape->head_dim, shape->kv_heads);
    }
}
