/* The products are summed in another order than ggml's, in 16 lanes: only the ranking matters. */
#include "stream/next_experts.h"

#include "graph/routing.h"

#include <ggml-backend.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef float lanes __attribute__((vector_size(64)));
#define N_LANES ((int64_t)(sizeof(lanes) / sizeof(float)))

static inline __attribute__((always_inline)) float dot_lanes(const float *a, const float *b,
                                                             int64_t n)
{
    lanes sum = {0}, x, y;
    int64_t i = 0;
    for (; i + N_LANES <= n; i += N_LANES) {
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        sum += x * y;
    }
    float all = 0;
    for (int k = 0; k < N_LANES; k++)
        all += sum[k];
    for (; i < n; i++)
        all += a[i] * b[i];
    return all;
}

static float dot_any(const float *a, const float *b, int64_t n)
{
    return dot_lanes(a, b, n);
}

/* Programs are built for any x86-64, of which this takes four times as long as of these. */
#if defined(__x86_64__)
static __attribute__((target("avx2,fma"))) float dot_avx2(const float *a, const float *b, int64_t n)
{
    return dot_lanes(a, b, n);
}

static __attribute__((target("avx512f"))) float dot_avx512(const float *a, const float *b,
                                                           int64_t n)
{
    return dot_lanes(a, b, n);
}

static dot_fn *dot_best(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return dot_avx512;
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 ? dot_avx2 : dot_any;
}
#else
static dot_fn *dot_best(void)
{
    return dot_any;
}
#endif

bool predictor_init(struct predictor *p, const struct graph_map *map)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < graph_map_n_sites(map); i++)
        if (graph_map_site(map, i)->n_expert > most)
            most = graph_map_site(map, i)->n_expert;
    *p = (struct predictor){.map = map, .dot = dot_best(), .scores = malloc(most * sizeof(float))};
    return p->scores != NULL;
}

void predictor_fini(struct predictor *p)
{
    free(p->scores);
    *p = (struct predictor){0};
}

/* Adds the n_used best of the scores to the set; each is taken out of the scores. */
static void add_best(float *scores, uint32_t n_expert, uint32_t n_used, uint64_t *set)
{
    for (uint32_t k = 0; k < n_used; k++) {
        uint32_t best = 0;
        for (uint32_t e = 1; e < n_expert; e++)
            if (scores[e] > scores[best])
                best = e;
        set[best / 64] |= (uint64_t)1 << (best % 64);
        scores[best] = -INFINITY;
    }
}

static bool readable(const struct ggml_tensor *t)
{
    struct ggml_backend_buffer *buffer = t->view_src ? t->view_src->buffer : t->buffer;
    return t->data && t->type == GGML_TYPE_F32 && t->nb[0] == sizeof(float) &&
           (!buffer || ggml_backend_buffer_is_host(buffer));
}

bool predict_next(struct predictor *p, uint32_t next, struct ggml_tensor *ids, uint32_t n_expert,
                  uint64_t *set)
{
    const struct graph_site *site = graph_map_site(p->map, next);
    struct ggml_tensor *here = graph_router(ids, n_expert);
    if (!here || site->router == GRAPH_NONE)
        return false;
    const struct ggml_tensor *x = here->src[1];
    const struct ggml_tensor *router = graph_map_weight(p->map, site->router)->tensor;
    if (!readable(x) || !readable(router) || router->ne[0] != x->ne[0])
        return false;
    memset(set, 0, ROUTING_WORDS(site->n_expert) * sizeof *set);
    int64_t step = (x->ne[1] + NEXT_EXPERTS_ROWS - 1) / NEXT_EXPERTS_ROWS;
    for (int64_t t = 0; t < x->ne[1]; t += step) {
        const float *row = (const float *)((const char *)x->data + (size_t)t * x->nb[1]);
        for (uint32_t e = 0; e < site->n_expert; e++)
            p->scores[e] = p->dot(
                row, (const float *)((const char *)router->data + e * router->nb[1]), x->ne[0]);
        add_best(p->scores, site->n_expert, site->n_used, set);
    }
    return true;
}
