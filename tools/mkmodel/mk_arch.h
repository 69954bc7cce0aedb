/*
 * The architectures: each is a function that adds the keys and tensors libllama 0.7 asks for (its
 * loader lists them through llama_model_init_from_user) to a plan. mk_arch_qwen.c, mk_arch_gemma.c,
 * ... hold one family each; the table is in mk_arch.c.
 */
#ifndef MK_ARCH_H
#define MK_ARCH_H

#include "mk_plan.h"

/* Adds everything of the plan's architecture; BMOE_E_MISUSE if shape.arch is none of ours. */
int mk_arch_fill(struct mk_plan *plan, struct bmoe_error *error);

/* What an architecture's files may or must have. */
struct mk_arch_traits {
    bool tied; /* no output.weight of their own, always */
    bool never_tied;
    bool fused; /* gate and up of the experts in one tensor, always */
    bool may_fuse;
    bool may_mtp; /* a block that predicts a second token */
};

/* The traits of a known architecture. */
struct mk_arch_traits mk_arch_traits(const char *arch);

void mk_arch_qwen3moe(struct mk_plan *plan);
void mk_arch_qwen3(struct mk_plan *plan);
void mk_arch_qwen35moe(struct mk_plan *plan);
void mk_arch_gemma4(struct mk_plan *plan);
void mk_arch_gpt_oss(struct mk_plan *plan);
void mk_arch_nemotron_h_moe(struct mk_plan *plan);
void mk_arch_lfm2moe(struct mk_plan *plan);
void mk_arch_deepseek2(struct mk_plan *plan);

/* Shared parts: gate, up and down of the routed experts, and of one dense or shared block. */
void mk_arch_experts(struct mk_plan *plan, int64_t layer);
void mk_arch_dense(struct mk_plan *plan, int64_t layer, const char *suffix, int64_t ff);
/* q, k, v and output of plain attention, and norms of q and k around `mean`. */
void mk_arch_attention(struct mk_plan *plan, int64_t layer, int64_t head_dim, int64_t kv_heads);
void mk_arch_qk_norms(struct mk_plan *plan, int64_t layer, int64_t head_dim, float mean);
void mk_arch_ssm_keys(struct mk_plan *plan);
/* Selection by a sigmoid with a bias, weights normed and then scaled. */
void mk_arch_selection_keys(struct mk_plan *plan, float scale);
/* What makes the block behind the last layer one that predicts a second token. */
void mk_arch_mtp(struct mk_plan *plan);

#endif
