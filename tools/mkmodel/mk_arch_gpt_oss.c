/*
 * gpt-oss: biases on everything, experts' too, attention sinks, sliding attention in every second
 * layer.
 */
#include "mk_arch.h"

#include <math.h>

/* A bias of what a layer adds to the stream: small, and silent in the carrier. */
static void output_bias(struct mk_plan *plan, int64_t layer, const char *name, int64_t n_experts)
{
    float std = 0.1f / sqrtf(2.0f * (float)plan->shape.layers);

    mk_plan_add(plan, layer, name, MK_KEEP, (int64_t[4]){plan->shape.embd, n_experts},
                (struct mk_fill){.std = std, .has_column0 = true});
}

static void expert_bias(struct mk_plan *plan, int64_t layer, const char *name)
{
    mk_plan_add(plan, layer, name, MK_KEEP, (int64_t[4]){plan->shape.ff, plan->shape.experts},
                (struct mk_fill){.std = 0.1f});
}

void mk_arch_gpt_oss(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;
    int64_t keys = shape->kv_heads * shape->head_dim;

    mk_plan_u32(plan, "attention.head_count_kv", shape->kv_heads);
    mk_plan_u32(plan, "attention.key_length", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->head_dim);
    mk_plan_u32(plan, "attention.sliding_window", shape->window);
    mk_plan_u32(plan, "feed_forward_length", shape->ff);
    mk_plan_u32(plan, "rope.dimension_count", shape->head_dim);
    mk_plan_f32(plan, "rope.freq_base", 150000.0f);
    mk_plan_ends(plan, "output_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        mk_plan_norm(plan, layer, "attn_norm.weight", false);
        mk_arch_attention(plan, layer, shape->head_dim, shape->kv_heads);
        mk_plan_vector(plan, layer, "attn_q.bias", shape->heads * shape->head_dim, 0.0f, 0.1f);
        mk_plan_vector(plan, layer, "attn_k.bias", keys, 0.0f, 0.1f);
        mk_plan_vector(plan, layer, "attn_v.bias", keys, 0.0f, 0.1f);
        output_bias(plan, layer, "attn_output.bias", 0);
        mk_plan_vector(plan, layer, "attn_sinks.weight", shape->heads, 0.0f, 1.0f);
        mk_plan_norm(plan, layer, "post_attention_norm.weight", true);
        mk_plan_router(plan, layer);
        mk_plan_vector(plan, layer, "ffn_gate_inp.bias", shape->experts, 0.0f, 0.1f);
        mk_arch_experts(plan, layer);
        expert_bias(plan, layer, "ffn_gate_exps.bias");
        expert_bias(plan, layer, "ffn_up_exps.bias");
        output_bias(plan, layer, "ffn_down_exps.bias", shape->experts);
    }
}
