/*
 * Qwen: qwen3moe is plain attention and routed experts in every layer; qwen3 is the same without
 * experts, for what runs dense models too. qwen35moe has a recurrent
 * layer (gated delta net) in all but every period-th place, a gated query in the others, and a
 * shared expert; it may carry a block that predicts a second token (MTP), which a plain decode does
 * not use.
 */
#include "mk_arch.h"

static void plain(struct mk_plan *plan, bool experts)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_u32(plan, "attention.head_count_kv", shape->kv_heads);
    mk_plan_u32(plan, "attention.key_length", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->head_dim);
    mk_plan_u32(plan, "feed_forward_length", shape->ff);
    mk_plan_f32(plan, "rope.freq_base", 1e6f);
    mk_plan_ends(plan, "output_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        mk_plan_norm(plan, layer, "attn_norm.weight", false);
        mk_arch_attention(plan, layer, shape->head_dim, shape->kv_heads);
        mk_arch_qk_norms(plan, layer, shape->head_dim, 1.6f);
        mk_plan_norm(plan, layer, "ffn_norm.weight", true);
        if (experts) {
            mk_plan_router(plan, layer);
            mk_arch_experts(plan, layer);
        } else {
            mk_arch_dense(plan, layer, "", shape->ff);
        }
    }
}

void mk_arch_qwen3moe(struct mk_plan *plan)
{
    plain(plan, true);
}

void mk_arch_qwen3(struct mk_plan *plan)
{
    plain(plan, false);
}

/* The parts of the rotated elements that count time, height and width in a picture. */
static void rope_keys(struct mk_plan *plan)
{
    uint32_t half = (uint32_t)plan->shape.rope_dim / 2;
    uint32_t third = half / 3;
    uint32_t sections[4] = {half - 2 * third, third, third, 0};

    mk_plan_u32(plan, "rope.dimension_count", plan->shape.rope_dim);
    mk_plan_u32s(plan, "rope.dimension_sections", sections, 4);
    mk_plan_f32(plan, "rope.freq_base", 1e7f);
}

static void recurrent(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    int64_t embd = shape->embd;
    int64_t mixed = 2 * shape->ssm_groups * shape->ssm_state + shape->ssm_inner;

    mk_plan_matrix(plan, layer, "attn_qkv.weight", embd, mixed, 1.0f);
    mk_plan_matrix(plan, layer, "attn_gate.weight", embd, shape->ssm_inner, 1.0f);
    mk_plan_add(plan, layer, "ssm_conv1d.weight", MK_KEEP, (int64_t[4]){shape->conv, mixed},
                (struct mk_fill){.std = 0.6f});
    mk_plan_vector(plan, layer, "ssm_dt.bias", shape->ssm_heads, -2.0f, 0.5f);
    mk_plan_vector(plan, layer, "ssm_a", shape->ssm_heads, -1.0f, 0.3f);
    mk_plan_matrix(plan, layer, "ssm_beta.weight", embd, shape->ssm_heads, 1.0f);
    mk_plan_matrix(plan, layer, "ssm_alpha.weight", embd, shape->ssm_heads, 1.0f);
    mk_plan_vector(plan, layer, "ssm_norm.weight", shape->ssm_state, 1.0f, 0.05f);
    mk_plan_output(plan, layer, "ssm_out.weight", shape->ssm_inner, 1.5f);
}

static void gated_attention(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    int64_t embd = shape->embd;
    int64_t queries = shape->heads * shape->head_dim;
    int64_t keys = shape->kv_heads * shape->head_dim;

    mk_plan_matrix(plan, layer, "attn_q.weight", embd, 2 * queries, 1.0f);
    mk_plan_matrix(plan, layer, "attn_k.weight", embd, keys, 1.0f);
    mk_plan_matrix(plan, layer, "attn_v.weight", embd, keys, 1.0f);
    mk_plan_output(plan, layer, "attn_output.weight", queries, 2.0f);
    mk_arch_qk_norms(plan, layer, shape->head_dim, 1.6f);
}

static void qwen35moe_layer(struct mk_plan *plan, int64_t layer, bool full)
{
    mk_plan_norm(plan, layer, "attn_norm.weight", false);
    if (full)
        gated_attention(plan, layer);
    else
        recurrent(plan, layer);
    mk_plan_norm(plan, layer, "post_attention_norm.weight", true);
    mk_plan_router(plan, layer);
    mk_arch_experts(plan, layer);
    mk_plan_vector(plan, layer, "ffn_gate_inp_shexp.weight", plan->shape.embd, 0.0f, 0.05f);
    mk_arch_dense(plan, layer, "_shexp", plan->shape.shared_ff);
}

void mk_arch_qwen35moe(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_u32(plan, "attention.head_count_kv", shape->kv_heads);
    mk_plan_u32(plan, "attention.key_length", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->head_dim);
    mk_plan_u32(plan, "feed_forward_length", shape->ff);
    mk_plan_u32(plan, "expert_shared_feed_forward_length", shape->shared_ff);
    mk_plan_u32(plan, "full_attention_interval", shape->period);
    rope_keys(plan);
    mk_arch_ssm_keys(plan);
    mk_plan_ends(plan, "output_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < shape->layers; layer++)
        qwen35moe_layer(plan, layer, layer % shape->period == shape->period - 1);
    if (plan->mtp) {
        qwen35moe_layer(plan, shape->layers, true);
        mk_arch_mtp(plan);
    }
}
