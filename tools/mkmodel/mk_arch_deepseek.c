/*
 * DeepSeek 2, the form GLM-4.7-Flash comes in: latent attention (keys and values from one low-rank
 * vector), dense layers first, a shared expert, selection by a sigmoid with a bias; it may carry a
 * block that predicts a second token (MTP), which a plain decode does not use.
 */
#include "mk_arch.h"

#include <math.h>

static void keys(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_u32(plan, "attention.head_count_kv", 1);
    mk_plan_u32(plan, "attention.key_length", shape->kv_lora + shape->rope_dim);
    mk_plan_u32(plan, "attention.value_length", shape->kv_lora);
    mk_plan_u32(plan, "attention.key_length_mla", shape->head_dim + shape->rope_dim);
    mk_plan_u32(plan, "attention.value_length_mla", shape->head_dim);
    mk_plan_u32(plan, "attention.q_lora_rank", shape->q_lora);
    mk_plan_u32(plan, "attention.kv_lora_rank", shape->kv_lora);
    mk_plan_u32(plan, "rope.dimension_count", shape->rope_dim);
    mk_plan_f32(plan, "rope.freq_base", 1e6f);
    mk_plan_u32(plan, "feed_forward_length", shape->dense_ff);
    mk_plan_u32(plan, "leading_dense_block_count", shape->dense_layers);
    mk_plan_u32(plan, "expert_shared_count", 1);
    mk_arch_selection_keys(plan, 1.8f);
}

static void latent_attention(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    int64_t head = shape->head_dim;
    /* Both are maps from the latent vector; attn_k_b is stored transposed. */
    struct mk_fill map = {.std = 1.0f / sqrtf((float)shape->kv_lora)};

    mk_plan_vector(plan, layer, "attn_q_a_norm.weight", shape->q_lora, 1.0f, 0.05f);
    mk_plan_vector(plan, layer, "attn_kv_a_norm.weight", shape->kv_lora, 1.0f, 0.05f);
    mk_plan_matrix(plan, layer, "attn_q_a.weight", shape->embd, shape->q_lora, 1.0f);
    mk_plan_matrix(plan, layer, "attn_q_b.weight", shape->q_lora,
                   shape->heads * (head + shape->rope_dim), 2.0f);
    mk_plan_matrix(plan, layer, "attn_kv_a_mqa.weight", shape->embd,
                   shape->kv_lora + shape->rope_dim, 1.0f);
    mk_plan_add(plan, layer, "attn_k_b.weight", MK_MATRIX,
                (int64_t[4]){head, shape->kv_lora, shape->heads}, map);
    mk_plan_add(plan, layer, "attn_v_b.weight", MK_MATRIX,
                (int64_t[4]){shape->kv_lora, head, shape->heads}, map);
    mk_plan_output(plan, layer, "attn_output.weight", shape->heads * head, 1.5f);
}

static void deepseek2_layer(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    bool dense = layer < shape->dense_layers;

    mk_plan_norm(plan, layer, "attn_norm.weight", false);
    latent_attention(plan, layer);
    mk_plan_norm(plan, layer, "ffn_norm.weight", !dense);
    if (dense) {
        mk_arch_dense(plan, layer, "", shape->dense_ff);
        return;
    }
    mk_plan_router(plan, layer);
    mk_plan_vector(plan, layer, "exp_probs_b.bias", shape->experts, 0.0f, 0.01f);
    mk_arch_experts(plan, layer);
    mk_arch_dense(plan, layer, "_shexp", shape->shared_ff);
}

void mk_arch_deepseek2(struct mk_plan *plan)
{
    keys(plan);
    mk_plan_ends(plan, "output_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < plan->shape.layers; layer++)
        deepseek2_layer(plan, layer);
    if (plan->mtp) {
        deepseek2_layer(plan, plan->shape.layers);
        mk_arch_mtp(plan);
    }
}
