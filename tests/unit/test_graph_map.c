/* Learning a graph by its ops: weights and their uses, experts, routing sites, with and without
 * names; reading a routing decision through its strides; and guessing the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_map.h"
#include "graph/routing.h"
#include "stream/next_experts.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <stdlib.h>
#include <string.h>

#define N_EXPERT 70
#define N_USED   3

static _Alignas(64) char memory[64];

struct model {
    struct ggml_context *ctx;
    ggml_backend_buffer_t weights;
    struct ggml_tensor *embd, *norm, *gate_inp, *gate, *up, *down, *bias, *second;
    struct ggml_tensor *ids, *ids2;
    struct graph_map *map;
};

static struct ggml_tensor *weight(struct model *m, const char *name, int64_t a, int64_t b,
                                  int64_t c)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(m->ctx, GGML_TYPE_F32, a, b, c);
    ggml_set_name(t, name);
    t->buffer = m->weights;
    return t;
}

/* One MoE layer and a second routing, whose ids have the first one's name when `shared`. */
static void build(struct model *m, bool shared)
{
    struct ggml_init_params p = {.mem_size = 1 << 20, .no_alloc = true};
    m->ctx = ggml_init(p);
    m->weights = ggml_backend_cpu_buffer_from_ptr(memory, sizeof memory);
    ggml_backend_buffer_set_usage(m->weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    m->embd = weight(m, "embd", 32, 100, 1);
    m->norm = weight(m, "norm", 32, 1, 1);
    m->gate_inp = weight(m, "gate_inp", 32, N_EXPERT, 1);
    m->gate = weight(m, "gate", 32, 16, N_EXPERT);
    m->up = weight(m, "up", 32, 16, N_EXPERT);
    m->down = weight(m, "down", 16, 32, N_EXPERT);
    m->bias = weight(m, "bias", 16, N_EXPERT, 1);
    struct ggml_tensor *tokens = ggml_new_tensor_1d(m->ctx, GGML_TYPE_I32, 5);
    struct ggml_tensor *x = ggml_get_rows(m->ctx, m->embd, tokens);
    x = ggml_mul(m->ctx, x, m->norm);
    struct ggml_tensor *scores = ggml_mul_mat(m->ctx, m->gate_inp, x);
    struct ggml_tensor *sorted = ggml_argsort(m->ctx, scores, GGML_SORT_ORDER_DESC);
    m->ids = ggml_view_2d(m->ctx, sorted, N_USED, 5, sorted->nb[1], 0);
    m->ids2 = ggml_view_2d(m->ctx, sorted, N_USED, 5, sorted->nb[1], 0);
    ggml_set_name(m->ids, "topk-0");
    ggml_set_name(m->ids2, shared ? "topk-0" : "topk-1");
    x = ggml_reshape_3d(m->ctx, x, 32, 1, 5);
    struct ggml_tensor *g = ggml_mul_mat_id(m->ctx, m->gate, x, m->ids);
    g = ggml_add_id(m->ctx, g, m->bias, m->ids);
    struct ggml_tensor *u = ggml_mul_mat_id(m->ctx, m->up, x, m->ids);
    struct ggml_tensor *d = ggml_mul_mat_id(m->ctx, m->down, ggml_mul(m->ctx, g, u), m->ids);
    m->second = weight(m, "second", 32, 16, N_EXPERT);
    d = ggml_mul_mat_id(m->ctx, m->second, ggml_reshape_3d(m->ctx, d, 32, N_USED, 5), m->ids2);
    struct ggml_cgraph *graph = ggml_new_graph(m->ctx);
    ggml_build_forward_expand(graph, d);
    assert_int_equal(graph_map_create(&m->map, NULL), 0);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++)
        graph_map_add_node(m->map, ggml_graph_node(graph, i));
    assert_int_equal(graph_map_finish(m->map, NULL), 0);
}

static void drop(struct model *m)
{
    graph_map_destroy(m->map);
    ggml_backend_buffer_free(m->weights);
    ggml_free(m->ctx);
}

static unsigned uses(const struct model *m, const struct ggml_tensor *t)
{
    uint32_t i = graph_map_find_weight(m->map, t);
    assert_int_not_equal(i, GRAPH_NONE);
    return graph_map_weight(m->map, i)->uses;
}

static void test_uses(void **state)
{
    (void)state;
    struct model m;
    build(&m, false);
    assert_int_equal(graph_map_n_weights(m.map), 8);
    assert_int_equal(uses(&m, m.embd), GRAPH_USE_ROWS);
    assert_int_equal(uses(&m, m.norm), GRAPH_USE_OTHER);
    assert_int_equal(uses(&m, m.gate_inp), GRAPH_USE_MATRIX);
    assert_int_equal(uses(&m, m.gate), GRAPH_USE_EXPERTS);
    assert_int_equal(uses(&m, m.bias), GRAPH_USE_OTHER);
    assert_int_equal(graph_map_find_weight(m.map, m.ids), GRAPH_NONE);
    drop(&m);
}

static void check_site(bool shared)
{
    struct model m;
    build(&m, shared);
    assert_int_equal(graph_map_n_sites(m.map), 2);
    const struct graph_site *site = graph_map_site(m.map, 0);
    assert_int_equal(site->n_expert, N_EXPERT);
    assert_int_equal(site->n_matrices, 3);
    const struct ggml_tensor *want[] = {m.gate, m.up, m.down};
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(graph_map_weight(m.map, site->matrices[i])->tensor, want[i]);
    uint32_t second = graph_map_site(m.map, 1)->ids_ordinal;
    assert_int_equal(graph_map_find_site(m.map, m.ids, site->ids_ordinal), 0);
    assert_int_equal(graph_map_find_site(m.map, m.ids2, second), 1);
    assert_int_equal(graph_map_find_site(m.map, m.ids, second), shared ? 1 : 0);
    assert_int_equal(graph_map_find_site(m.map, m.ids, 1000), shared ? GRAPH_NONE : 0);
    drop(&m);
}

static void test_site_by_name(void **state)
{
    (void)state;
    check_site(false);
}

static void test_site_by_ordinal(void **state)
{
    (void)state;
    check_site(true);
}

static void test_no_weights_is_an_error(void **state)
{
    (void)state;
    struct graph_map *map;
    struct bmoe_error err;
    assert_int_equal(graph_map_create(&map, NULL), 0);
    assert_int_equal(graph_map_finish(map, &err), BMOE_E_SEAM);
    assert_true(strlen(err.text) > 0);
    graph_map_destroy(map);
}

/* ids is a view of rows of N_EXPERT: only the first N_USED of each count. */
static void test_routing_strides(void **state)
{
    (void)state;
    struct model m;
    build(&m, false);
    static int32_t rows[5][N_EXPERT];
    for (int t = 0; t < 5; t++)
        for (int k = 0; k < N_EXPERT; k++)
            rows[t][k] = k < N_USED ? (t * 17 + k * 64) % N_EXPERT : 1;
    rows[4][0] = -1;
    rows[4][1] = N_EXPERT;
    m.ids->data = rows;
    uint64_t set[ROUTING_WORDS(N_EXPERT)];
    bool want[N_EXPERT] = {false};
    uint32_t n = 0;
    for (int t = 0; t < 5; t++)
        for (int k = 0; k < N_USED; k++)
            if (rows[t][k] >= 0 && rows[t][k] < N_EXPERT && !want[rows[t][k]]) {
                want[rows[t][k]] = true;
                n++;
            }
    struct routing r;
    assert_true(routing_read(&r, set, N_EXPERT, m.ids, NULL, 0));
    assert_int_equal(r.n_tokens, 5);
    assert_int_equal(r.n_used, N_USED);
    assert_int_equal(r.n_routed, n);
    for (unsigned e = 0; e < N_EXPERT; e++)
        assert_int_equal(set[e / 64] >> (e % 64) & 1, want[e]);
    drop(&m);
}

/* Both sites have one router here: what is guessed for the second is what its scores say. */
static void test_next_experts(void **state)
{
    enum { N_TOKENS = 5, COLS = 32 };
    static float w[N_EXPERT][COLS], x[N_TOKENS][COLS];
    uint64_t want[ROUTING_WORDS(N_EXPERT)] = {0}, set[ROUTING_WORDS(N_EXPERT)];
    struct predictor p;
    struct model m;
    (void)state;
    build(&m, false);
    struct ggml_tensor *matmul = graph_router(m.ids, N_EXPERT);
    assert_ptr_equal(matmul->src[0], m.gate_inp);
    assert_null(graph_router(m.ids, N_EXPERT + 1));
    uint32_t router = graph_map_site(m.map, 0)->router;
    assert_ptr_equal(graph_map_weight(m.map, router)->tensor, m.gate_inp);
    for (unsigned e = 0; e < N_EXPERT; e++)
        for (unsigned c = 0; c < COLS; c++)
            w[e][c] = (float)((e * 13 + c * 7) % N_EXPERT);
    for (unsigned t = 0; t < N_TOKENS; t++) { /* column t of the router ranks token t's experts */
        x[t][t] = 1;
        for (unsigned e = 0; e < N_EXPERT; e++)
            if (w[e][t] >= N_EXPERT - N_USED)
                want[e / 64] |= (uint64_t)1 << (e % 64);
    }
    assert_true(predictor_init(&p, m.map));
    assert_false(predict_next(&p, 1, m.ids, N_EXPERT, set)); /* no data yet */
    m.gate_inp->data = w;
    matmul->src[1]->data = x;
    assert_true(predict_next(&p, 1, m.ids, N_EXPERT, set));
    assert_memory_equal(set, want, sizeof want);
    m.gate_inp->type = GGML_TYPE_F16;
    assert_false(predict_next(&p, 1, m.ids, N_EXPERT, set));
    predictor_fini(&p);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_site_by_name),
        cmocka_unit_test(test_site_by_ordinal),
        cmocka_unit_test(test_no_weights_is_an_error),
        cmocka_unit_test(test_routing_strides),
        cmocka_unit_test(test_next_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
