/*
 * Holds the plan: the list of tensors, grown as the architectures add to it, and the metadata in a
 * gguf context. Called by the architectures and, for what every file has, by mk_plan_init.
 */
#include "mk_plan.h"

#include "base/checked.h"
#include "gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 128, CONTEXT_LENGTH = 32768 };

void mk_plan_no_memory(struct mk_plan *plan)
{
    error_set(&plan->error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
              "Out of memory for the plan of the file.");
}

/* Writes `ARCH.key` into buffer and returns it. */
static const char *full_key(const struct mk_plan *plan, const char *key, char buffer[MAX_KEY])
{
    snprintf(buffer, MAX_KEY, "%s.%s", plan->shape.arch, key);
    return buffer;
}

void mk_plan_u32(struct mk_plan *plan, const char *key, int64_t value)
{
    char buffer[MAX_KEY];

    gguf_set_val_u32(plan->keys, full_key(plan, key, buffer), (uint32_t)value);
}

void mk_plan_f32(struct mk_plan *plan, const char *key, float value)
{
    char buffer[MAX_KEY];

    gguf_set_val_f32(plan->keys, full_key(plan, key, buffer), value);
}

void mk_plan_bool(struct mk_plan *plan, const char *key, bool value)
{
    char buffer[MAX_KEY];

    gguf_set_val_bool(plan->keys, full_key(plan, key, buffer), value);
}

void mk_plan_u32s(struct mk_plan *plan, const char *key, const uint32_t *values, size_t n)
{
    char buffer[MAX_KEY];

    gguf_set_arr_data(plan->keys, full_key(plan, key, buffer), GGUF_TYPE_UINT32, values, n);
}

void mk_plan_bools(struct mk_plan *plan, const char *key, const bool *values, size_t n)
{
    char buffer[MAX_KEY];

    gguf_set_arr_data(plan->keys, full_key(plan, key, buffer), GGUF_TYPE_BOOL, values, n);
}

int mk_plan_init(struct mk_plan *plan, const struct mk_shape *shape)
{
    char name[96];

    memset(plan, 0, sizeof *plan);
    plan->shape = *shape;
    plan->keys = gguf_init_empty();
    if (!plan->keys)
        return error_set(&plan->error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for the metadata.");
    snprintf(name, sizeof name, "synthetic %s, %lld layers of %lld experts", shape->arch,
             (long long)shape->layers, (long long)shape->experts);
    gguf_set_val_str(plan->keys, "general.architecture", shape->arch);
    gguf_set_val_str(plan->keys, "general.name", name);
    mk_plan_u32(plan, "vocab_size", shape->vocab);
    mk_plan_u32(plan, "context_length", CONTEXT_LENGTH);
    mk_plan_u32(plan, "embedding_length", shape->embd);
    mk_plan_u32(plan, "block_count", shape->layers);
    mk_plan_u32(plan, "attention.head_count", shape->heads);
    if (shape->experts) {
        mk_plan_u32(plan, "expert_count", shape->experts);
        mk_plan_u32(plan, "expert_used_count", shape->used);
        mk_plan_u32(plan, "expert_feed_forward_length", shape->ff);
    }
    mk_plan_f32(plan, "attention.layer_norm_rms_epsilon", 1e-6f);
    return 0;
}

void mk_plan_fini(struct mk_plan *plan)
{
    gguf_free(plan->keys);
    free(plan->tensors);
    memset(plan, 0, sizeof *plan);
}

/* Room for one more tensor, or NULL with the plan's error set. */
static struct mk_tensor *new_tensor(struct mk_plan *plan)
{
    if (plan->n_tensors == plan->capacity) {
        size_t capacity = plan->capacity ? 2 * plan->capacity : 64;
        struct mk_tensor *grown = reallocarray(plan->tensors, capacity, sizeof *grown);

        if (!grown) {
            mk_plan_no_memory(plan);
            return NULL;
        }
        plan->tensors = grown;
        plan->capacity = capacity;
    }
    return memset(&plan->tensors[plan->n_tensors++], 0, sizeof *plan->tensors);
}

void mk_plan_add(struct mk_plan *plan, int64_t layer, const char *name, enum mk_role role,
                 const int64_t ne[4], struct mk_fill fill)
{
    struct mk_tensor *tensor;
    uint64_t elements = 1;

    if (plan->error.code != 0 || !(tensor = new_tensor(plan)))
        return;
    if (layer < 0)
        snprintf(tensor->name, sizeof tensor->name, "%s", name);
    else
        snprintf(tensor->name, sizeof tensor->name, "blk.%lld.%s", (long long)layer, name);
    for (int i = 0; i < 4; i++) {
        tensor->ne[i] = ne[i] ? ne[i] : 1;
        tensor->n_dims += ne[i] != 0;
        if (tensor->ne[i] < 0 || !checked_mul_u64(elements, (uint64_t)tensor->ne[i], &elements) ||
            elements > INT64_MAX / 8)
            error_set(&plan->error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                      "The shape of %s is out of range; give smaller numbers.", tensor->name);
    }
    tensor->layer = layer;
    tensor->role = role;
    tensor->fill = fill;
}

/* Noise of gain/sqrt(in), the deviation that maps inputs of order one to outputs of order gain. */
static struct mk_fill dense_fill(int64_t in, float gain)
{
    return (struct mk_fill){.std = gain / sqrtf((float)in)};
}

static struct mk_fill output_fill(const struct mk_plan *plan, int64_t in, float gain)
{
    struct mk_fill fill = dense_fill(in, gain / sqrtf(2.0f * (float)plan->shape.layers));

    fill.mute_row0 = true;
    return fill;
}

void mk_plan_matrix(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, int64_t out,
                    float gain)
{
    mk_plan_add(plan, layer, name, MK_MATRIX, (int64_t[4]){in, out}, dense_fill(in, gain));
}

void mk_plan_output(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, float gain)
{
    mk_plan_add(plan, layer, name, MK_MATRIX, (int64_t[4]){in, plan->shape.embd},
                output_fill(plan, in, gain));
}

void mk_plan_experts(struct mk_plan *plan, int64_t layer, const char *name, int64_t in, int64_t out,
                     float gain)
{
    mk_plan_add(plan, layer, name, MK_EXPERT, (int64_t[4]){in, out, plan->shape.experts},
                dense_fill(in, gain));
}

void mk_plan_experts_output(struct mk_plan *plan, int64_t layer, const char *name, float gain)
{
    const struct mk_shape *shape = &plan->shape;

    mk_plan_add(plan, layer, name, MK_EXPERT, (int64_t[4]){shape->ff, shape->embd, shape->experts},
                output_fill(plan, shape->ff, gain));
}

void mk_plan_vector(struct mk_plan *plan, int64_t layer, const char *name, int64_t n, float mean,
                    float std)
{
    mk_plan_add(plan, layer, name, MK_KEEP, (int64_t[4]){n},
                (struct mk_fill){.mean = mean, .std = std});
}

void mk_plan_norm(struct mk_plan *plan, int64_t layer, const char *name, bool keep_carrier)
{
    struct mk_fill fill = {.mean = 1.0f, .std = 0.05f, .has_column0 = true};

    fill.column0 = keep_carrier ? MK_CARRIER_GAIN : 0.0f;
    mk_plan_add(plan, layer, name, MK_KEEP, (int64_t[4]){plan->shape.embd}, fill);
}

void mk_plan_router(struct mk_plan *plan, int64_t layer)
{
    struct mk_fill fill = dense_fill(plan->shape.embd, 1.0f);

    fill.kind = MK_FILL_ROUTER;
    mk_plan_add(plan, layer, "ffn_gate_inp.weight", MK_KEEP,
                (int64_t[4]){plan->shape.embd, plan->shape.experts}, fill);
}

void mk_plan_ends(struct mk_plan *plan, const char *norm_name, float std)
{
    const struct mk_shape *shape = &plan->shape;
    struct mk_fill embedding = {.std = std, .column0 = MK_CARRIER * std, .has_column0 = true};
    struct mk_fill norm = {.mean = 1.0f, .std = 0.05f, .has_column0 = true};

    mk_plan_add(plan, -1, "token_embd.weight", MK_MATRIX, (int64_t[4]){shape->embd, shape->vocab},
                embedding);
    /* A tied head would answer every token with itself: signs in the norm part it from the input.
     */
    norm.signs = plan->tied;
    if (plan->tied)
        norm.mean = 3.0f / (std * sqrtf((float)shape->embd));
    mk_plan_add(plan, -1, norm_name, MK_KEEP, (int64_t[4]){shape->embd}, norm);
    if (!plan->tied)
        mk_plan_matrix(plan, -1, "output.weight", shape->embd, shape->vocab, 3.0f);
}
