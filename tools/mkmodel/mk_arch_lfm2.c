/*
 * LFM2: short convolutions in all but every period-th layer, which has attention; dense layers
 * first, then experts selected by a sigmoid with a bias. The final norm is called token_embd_norm,
 * and the head is the embedding.
 */
#include "mk_arch.h"

#include <stdlib.h>

static bool has_attention(const struct mk_shape *shape, int64_t layer)
{
    return layer % shape->period == shape->period - 1;
}

static void keys(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;
    uint32_t *kv_heads = calloc((size_t)shape->layers, sizeof *kv_heads);

    for (int64_t i = 0; kv_heads && i < shape->layers; i++)
        kv_heads[i] = has_attention(shape, i) ? (uint32_t)shape->kv_heads : 0;
    if (kv_heads)
        mk_plan_u32s(plan, "attention.head_count_kv", kv_heads, (size_t)shape->layers);
    else
        mk_plan_no_memory(plan);
    free(kv_heads);
    mk_plan_u32(plan, "attention.key_length", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->head_dim);
    mk_plan_u32(plan, "feed_forward_length", shape->dense_ff);
    mk_plan_u32(plan, "leading_dense_block_count", shape->dense_layers);
    mk_plan_u32(plan, "expert_gating_func", 2);
    mk_plan_u32(plan, "shortconv.l_cache", shape->conv);
    mk_plan_f32(plan, "rope.freq_base", 1e6f);
}

static void convolution(struct mk_plan *plan, int64_t layer)
{
    int64_t embd = plan->shape.embd;

    mk_plan_add(plan, layer, "shortconv.conv.weight", MK_KEEP, (int64_t[4]){plan->shape.conv, embd},
                (struct mk_fill){.std = 0.6f});
    mk_plan_matrix(plan, layer, "shortconv.in_proj.weight", embd, 3 * embd, 1.0f);
    mk_plan_output(plan, layer, "shortconv.out_proj.weight", embd, 1.0f);
}

void mk_arch_lfm2moe(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;

    keys(plan);
    mk_plan_ends(plan, "token_embd_norm.weight", 1.0f);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        bool dense = layer < shape->dense_layers;

        mk_plan_norm(plan, layer, "attn_norm.weight", false);
        if (has_attention(shape, layer)) {
            mk_arch_attention(plan, layer, shape->head_dim, shape->kv_heads);
            mk_arch_qk_norms(plan, layer, shape->head_dim, 1.6f);
        } else {
            convolution(plan, layer);
        }
        mk_plan_norm(plan, layer, "ffn_norm.weight", !dense);
        if (dense) {
            mk_arch_dense(plan, layer, "", shape->dense_ff);
            continue;
        }
        mk_plan_router(plan, layer);
        mk_plan_vector(plan, layer, "exp_probs_b.bias", shape->experts, 0.0f, 0.01f);
        mk_arch_experts(plan, layer);
    }
}
