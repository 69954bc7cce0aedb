/*
 * Qwen3 MoE: plain attention with normed queries and keys, routed experts in every layer.
 */
#include "mk_arch.h"

void mk_arch_qwen3moe(struct mk_plan *plan)
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
        mk_arch_qk_norms(plan, layer, shape->head_dim);
        mk_plan_norm(plan, layer, "ffn_norm.weight", true);
        mk_plan_router(plan, layer);
        mk_arch_experts(plan, layer);
    }
}
