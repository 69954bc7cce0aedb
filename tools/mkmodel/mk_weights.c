/*
 * A counter-based generator: element pairs are hashed from the tensor's key and their place, and a
 * sum of two uniform 16-bit numbers makes a triangular distribution of deviation one, cheap and
 * bounded. A router's column 0 holds each expert's preference: -zipf * ln(rank), ranks dealt anew
 * in every layer.
 */
#include "mk_weights.h"

#include <math.h>
#include <stdlib.h>

/* 1 / deviation of the sum of two uniform numbers of 0..65535. */
static const float unit = 1.0f / 26754.5f;

/* splitmix64 by Sebastiano Vigna, public domain: a bijection that spreads every bit. */
static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t hash_name(const char *name, uint64_t seed)
{
    uint64_t hash = mix(seed);

    for (; *name; name++)
        hash = mix(hash ^ (unsigned char)*name);
    return hash;
}

static float half_noise(uint32_t bits)
{
    return (float)((int32_t)(bits & 0xffff) + (int32_t)(bits >> 16) - 65535) * unit;
}

/* Deals the ranks 1..n to the experts and turns them into preferences around 0. */
static int deal_preferences(struct mk_weights *weights, float zipf, struct bmoe_error *error)
{
    int64_t n = weights->tensor->ne[1];
    float *out = calloc((size_t)n, sizeof *out);

    if (!out)
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for %lld experts.", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t j = (int64_t)(mix(weights->key ^ mix((uint64_t)i)) % (uint64_t)(i + 1));

        out[i] = out[j];
        out[j] = (float)(-zipf * (log((double)(i + 1)) - log(0.5 * (double)(n + 1))));
    }
    weights->preferences = out;
    return 0;
}

int mk_weights_init(struct mk_weights *weights, const struct mk_tensor *tensor, uint64_t seed,
                    float zipf, struct bmoe_error *error)
{
    weights->tensor = tensor;
    weights->key = hash_name(tensor->name, seed);
    weights->preferences = NULL;
    if (tensor->fill.kind == MK_FILL_ROUTER && zipf > 0.0f)
        return deal_preferences(weights, zipf, error);
    return 0;
}

void mk_weights_fini(struct mk_weights *weights)
{
    free(weights->preferences);
    weights->preferences = NULL;
}

static void noise_row(uint64_t key, uint64_t pair, int64_t n, float mean, float std, float *out)
{
    for (int64_t i = 0; i < n; i += 2) {
        uint64_t bits = mix(key + pair++ * 0xd1342543de82ef95u);

        out[i] = mean + std * half_noise((uint32_t)bits);
        if (i + 1 < n)
            out[i + 1] = mean + std * half_noise((uint32_t)(bits >> 32));
    }
}

static void flip_signs(uint64_t key, uint64_t place, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        if (mix(~key ^ (place + (uint64_t)i)) & 1)
            out[i] = -out[i];
}

static void rope_row(int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i < n / 4 ? 1.0f : 1e30f;
}

/* One row; `row` counts through all matrices of the tensor. */
static void fill_row(const struct mk_weights *weights, int64_t row, float *out)
{
    const struct mk_fill *fill = &weights->tensor->fill;
    int64_t n = weights->tensor->ne[0];
    uint64_t place = (uint64_t)row * (uint64_t)n;

    if (fill->kind == MK_FILL_ROPE) {
        rope_row(n, out);
        return;
    }
    if (fill->mute_row0 && row % weights->tensor->ne[1] == 0) {
        for (int64_t i = 0; i < n; i++)
            out[i] = 0.0f;
        return;
    }
    noise_row(weights->key, (uint64_t)row * (uint64_t)((n + 1) / 2), n, fill->mean, fill->std, out);
    if (fill->signs)
        flip_signs(weights->key, place, n, out);
    if (fill->has_column0)
        out[0] = fill->column0;
    if (weights->preferences)
        out[0] = weights->preferences[row];
}

void mk_weights_rows(const struct mk_weights *weights, int64_t row, int64_t n_rows, float *out)
{
    for (int64_t i = 0; i < n_rows; i++)
        fill_row(weights, row + i, out + i * weights->tensor->ne[0]);
}
