/*
 * Gemma 4: sliding attention in all but every period-th layer; these look at everything, have heads
 * of another size and no values of their own (the keys serve). Every layer has a dense block beside
 * the experts, whose gate and up are one tensor and whose down has a scale for each expert. What a
 * block adds goes through a norm of its own, so these norms set its size. The router sees the
 * residual stream through a scale instead of a norm's weight. The head is the embedding.
 */
#include "mk_arch.h"

#include <math.h>
#include <stdlib.h>

/* A norm behind a block: of the size of an addition to the stream, and silent in the carrier. */
static void post_norm(struct mk_plan *plan, int64_t layer, const char *name)
{
    float size = 1.0f / sqrtf(2.0f * (float)plan->shape.layers);
    struct mk_fill fill = {.mean = size, .std = 0.05f * size, .has_column0 = true};

    mk_plan_add(plan, layer, name, MK_KEEP, (int64_t[4]){plan->shape.embd}, fill);
}

static bool is_full(const struct mk_shape *shape, int64_t layer)
{
    return layer % shape->period == shape->period - 1;
}

static void keys(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;
    uint32_t *kv_heads = calloc((size_t)shape->layers, sizeof *kv_heads);
    bool *sliding = calloc((size_t)shape->layers, sizeof *sliding);

    for (int64_t i = 0; kv_heads && sliding && i < shape->layers; i++) {
        sliding[i] = !is_full(shape, i);
        kv_heads[i] = (uint32_t)(sliding[i] ? shape->kv_heads : shape->global_kv_heads);
    }
    if (kv_heads && sliding) {
        mk_plan_u32s(plan, "attention.head_count_kv", kv_heads, (size_t)shape->layers);
        mk_plan_bools(plan, "attention.sliding_window_pattern", sliding, (size_t)shape->layers);
    } else {
        mk_plan_no_memory(plan);
    }
    free(kv_heads);
    free(sliding);
    mk_plan_u32(plan, "attention.key_length", shape->global_head_dim);
    mk_plan_u32(plan, "attention.value_length", shape->global_head_dim);
    mk_plan_u32(plan, "attention.key_length_swa", shape->head_dim);
    mk_plan_u32(plan, "attention.value_length_swa", shape->head_dim);
    mk_plan_u32(plan, "attention.sliding_window", shape->window);
    mk_plan_u32(plan, "attention.shared_kv_layers", 0);
    mk_plan_u32(plan, "embedding_length_per_layer_input", 0);
    mk_plan_u32(plan, "feed_forward_length", shape->dense_ff);
    mk_plan_u32(plan, "rope.dimension_count", shape->global_head_dim);
    mk_plan_u32(plan, "rope.dimension_count_swa", shape->head_dim);
    mk_plan_f32(plan, "rope.freq_base", 1e6f);
    mk_plan_f32(plan, "rope.freq_base_swa", 1e4f);
    mk_plan_f32(plan, "final_logit_softcapping", 30.0f);
}

static void attention(struct mk_plan *plan, int64_t layer)
{
    const struct mk_shape *shape = &plan->shape;
    bool full = is_full(shape, layer);
    int64_t head_dim = full ? shape->global_head_dim : shape->head_dim;
    int64_t kv = head_dim * (full ? shape->global_kv_heads : shape->kv_heads);

    mk_plan_norm(plan, layer, "attn_norm.weight", false);
    mk_plan_matrix(plan, layer, "attn_q.weight", shape->embd, shape->heads * head_dim, 1.0f);
    mk_plan_matrix(plan, layer, "attn_k.weight", shape->embd, kv, 1.0f);
    if (!full)
        mk_plan_matrix(plan, layer, "attn_v.weight", shape->embd, kv, 1.0f);
    mk_plan_output(plan, layer, "attn_output.weight", shape->heads * head_dim, 1.0f);
    /* Scores are not divided by the root of the head's size here, so the norms are. */
    mk_arch_qk_norms(plan, layer, head_dim, 1.6f / powf((float)head_dim, 0.25f));
    post_norm(plan, layer, "post_attention_norm.weight");
}

/* Brings the stream to the router: the graph divides it by its size and by the root of its width.
 */
static void router(struct mk_plan *plan, int64_t layer)
{
    float root = sqrtf((float)plan->shape.embd);
    struct mk_fill scale = {.mean = root, .std = 0.05f * root, .has_column0 = true};

    scale.column0 = MK_CARRIER_GAIN * root;
    mk_plan_router(plan, layer);
    mk_plan_add(plan, layer, "ffn_gate_inp.scale", MK_KEEP, (int64_t[4]){plan->shape.embd}, scale);
}

void mk_arch_gemma4(struct mk_plan *plan)
{
    const struct mk_shape *shape = &plan->shape;
    struct mk_fill rope = {.kind = MK_FILL_ROPE};

    keys(plan);
    /* The graph multiplies embeddings by the root of their width. */
    mk_plan_ends(plan, "output_norm.weight", 1.0f / sqrtf((float)shape->embd));
    mk_plan_add(plan, -1, "rope_freqs.weight", MK_KEEP, (int64_t[4]){shape->global_head_dim / 2},
                rope);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        attention(plan, layer);
        mk_plan_norm(plan, layer, "ffn_norm.weight", false);
        mk_arch_dense(plan, layer, "", shape->dense_ff);
        mk_plan_norm(plan, layer, "post_ffw_norm_1.weight", false);
        router(plan, layer);
        mk_plan_norm(plan, layer, "pre_ffw_norm_2.weight", false);
        mk_arch_experts(plan, layer);
        mk_plan_vector(plan, layer, "ffn_down_exps.scale", shape->experts, 1.0f, 0.2f);
        mk_plan_norm(plan, layer, "post_ffw_norm_2.weight", false);
        post_norm(plan, layer, "post_ffw_norm.weight");
        mk_plan_vector(plan, layer, "layer_output_scale.weight", 1, 0.97f, 0.0f);
    }
}
