/* RMS_NORM and MUL, NORM and MUL and ADD before products: the CPU's bits or nearly so alone, the
 * same bits fused and not, plain rows written where and only where somebody reads them, rows coded
 * once for all products of one input, and dense products of few rows by the host with the NPU's
 * bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ggml_ork_fixture.h"
#include "plugin_counts.h"

enum { K = 96, N = 64, ROWS = 7, PRODUCTS = 3 };

struct layer {
    struct ggml_context *weights, *rest;
    struct ggml_tensor *x, *norm, *shift, *rms, *normed, *w[PRODUCTS], *out[PRODUCTS], *extra;
    int n_norms; /* nodes before the products */
    ggml_backend_buffer_t packed, plain;
    struct ggml_cgraph *graph;
};

static float value(int i)
{
    return (float)((i * 7919 + 13) % 2003) / 1001.5f - 1.0f;
}

static void fill(struct ggml_tensor *t, int seed)
{
    const size_t n = (size_t)ggml_nelements(t);
    float *x = malloc(n * sizeof(*x));

    for (size_t i = 0; i < n; i++)
        x[i] = value((int)i + seed * 100);
    ggml_backend_tensor_set(t, x, 0, n * sizeof(*x));
    free(x);
}

/* centred: LayerNorm with a bias. extra: somebody else reads the normalised rows. */
static void make(struct layer *l, ggml_backend_t backend, int64_t rows, bool centred, bool extra)
{
    memset(l, 0, sizeof(*l));
    l->n_norms = centred ? 3 : 2;
    l->weights = fixture_context();
    l->rest = fixture_context();
    l->norm = ggml_new_tensor_1d(l->rest, GGML_TYPE_F32, K);
    l->x = ggml_new_tensor_2d(l->rest, GGML_TYPE_F32, K, rows);
    ggml_set_input(l->x);
    l->shift = ggml_new_tensor_1d(l->rest, GGML_TYPE_F32, K);
    l->rms = (centred ? ggml_norm : ggml_rms_norm)(l->rest, l->x, 1e-5f);
    l->normed = ggml_mul(l->rest, l->rms, l->norm);
    if (centred)
        l->normed = ggml_add(l->rest, l->normed, l->shift);
    l->graph = ggml_new_graph(l->rest);
    for (int i = 0; i < PRODUCTS; i++) {
        l->w[i] = ggml_new_tensor_2d(l->weights, GGML_TYPE_F32, K, N + 16 * i);
        l->out[i] = ggml_mul_mat(l->rest, l->w[i], l->normed);
        ggml_build_forward_expand(l->graph, l->out[i]);
    }
    if (extra) {
        l->extra = ggml_mul(l->rest, l->normed, l->norm);
        ggml_build_forward_expand(l->graph, l->extra);
    }
    l->packed = ggml_backend_alloc_ctx_tensors_from_buft(l->weights, fixture_packed());
    l->plain = ggml_backend_alloc_ctx_tensors(l->rest, backend);
    assert_non_null(l->packed);
    assert_non_null(l->plain);
    fill(l->norm, 3);
    fill(l->shift, 4);
    fill(l->x, 5);
    for (int i = 0; i < PRODUCTS; i++)
        fill(l->w[i], 11 + i);
}

static void end(struct layer *l)
{
    ggml_backend_buffer_free(l->packed);
    ggml_backend_buffer_free(l->plain);
    ggml_free(l->weights);
    ggml_free(l->rest);
}

static struct plugin_counts counts_now(void)
{
    void *proc = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(fixture_ork()),
                                                   "ggml_backend_ork_counts");
    void (*get)(ggml_backend_dev_t, struct plugin_counts *);
    struct plugin_counts counts;

    assert_non_null(proc);
    memcpy(&get, &proc, sizeof(get));
    get(fixture_ork(), &counts);
    return counts;
}

static float *data_of(const struct ggml_tensor *t)
{
    return t->data;
}

/* Nodes [first, first + n) of the layer's graph as a graph of their own. */
static void compute_part(struct layer *l, ggml_backend_t backend, int first, int n)
{
    struct ggml_cgraph *part = ggml_new_graph(l->rest);

    for (int i = first; i < first + n; i++)
        ggml_graph_add_node(part, ggml_graph_node(l->graph, i));
    assert_int_equal(ggml_backend_graph_compute(backend, part), GGML_STATUS_SUCCESS);
}

/* Node by node, by us and by the CPU. */
static void compute_norms(struct layer *l, ggml_backend_t ork, ggml_backend_t cpu,
                          float want[ROWS * K])
{
    const size_t bytes = ROWS * K * sizeof(float);

    compute_part(l, cpu, 0, l->n_norms);
    memcpy(want, l->normed->data, bytes);
    for (int i = 0; i < l->n_norms; i++)
        memset(ggml_graph_node(l->graph, i)->data, 0, bytes);
    for (int i = 0; i < l->n_norms; i++) {
        compute_part(l, ork, i, 1);
        assert_true(ggml_backend_dev_supports_op(fixture_ork(), ggml_graph_node(l->graph, i)));
    }
}

static void norms_are_the_cpus(void **state)
{
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    float want[ROWS * K];
    struct layer l;

    (void)state;
    make(&l, ork, ROWS, false, false);
    compute_norms(&l, ork, cpu, want);
    assert_memory_equal(l.normed->data, want, sizeof(want));
    end(&l);
    make(&l, ork, ROWS, true, false);
    compute_norms(&l, ork, cpu, want); /* the CPU's NORM adds in the order its vectors have */
    assert_true(fixture_distance(l.normed->data, want, ROWS * K) < 1e-6);
    end(&l);
    ggml_backend_free(cpu);
    ggml_backend_free(ork);
}

/* A sum that is no norm's bias is not ours. */
static void other_sums_are_refused(void **state)
{
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct layer l;

    (void)state;
    make(&l, ork, ROWS, true, false);
    assert_false(ggml_backend_dev_supports_op(fixture_ork(), ggml_add(l.rest, l.x, l.shift)));
    assert_false(ggml_backend_dev_supports_op(
        fixture_ork(), ggml_add(l.rest, ggml_mul(l.rest, l.x, l.norm), l.shift)));
    end(&l);
    ggml_backend_free(ork);
}

static void outputs_equal(const struct layer *l, float *const want[PRODUCTS])
{
    for (int i = 0; i < PRODUCTS; i++)
        assert_memory_equal(l->out[i]->data, want[i], ggml_nbytes(l->out[i]));
}

static void fuse(bool centred)
{
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    float *want[PRODUCTS], normed[ROWS * K];
    struct plugin_counts before, after;
    struct layer l;

    make(&l, ork, ROWS, centred, false);
    for (int i = 0; i < l.n_norms + PRODUCTS; i++) /* node by node: nothing can be fused */
        compute_part(&l, ork, i, 1);
    memcpy(normed, l.normed->data, sizeof(normed));
    for (int i = 0; i < PRODUCTS; i++) {
        want[i] = malloc(ggml_nbytes(l.out[i]));
        memcpy(want[i], l.out[i]->data, ggml_nbytes(l.out[i]));
        memset(l.out[i]->data, 0, ggml_nbytes(l.out[i]));
    }
    memset(l.normed->data, 0x55, sizeof(normed));
    before = counts_now();
    assert_int_equal(ggml_backend_graph_compute(ork, l.graph), GGML_STATUS_SUCCESS);
    after = counts_now();
    outputs_equal(&l, want);
    assert_int_equal(after.norms_fused - before.norms_fused, 1);
    assert_int_equal(after.plain_skipped - before.plain_skipped, 1);
    assert_int_equal(after.rows_coded - before.rows_coded, ROWS);
    assert_int_equal(after.rows_shared - before.rows_shared, ROWS * PRODUCTS);
    for (size_t i = 0; i < sizeof(normed); i++) /* nobody read them, nobody wrote them */
        assert_int_equal(((const uint8_t *)l.normed->data)[i], 0x55);
    ggml_set_output(l.normed);
    assert_int_equal(ggml_backend_graph_compute(ork, l.graph), GGML_STATUS_SUCCESS);
    outputs_equal(&l, want);
    assert_memory_equal(l.normed->data, normed, sizeof(normed));
    assert_int_equal(counts_now().plain_skipped, after.plain_skipped);
    end(&l);
    make(&l, ork, ROWS, centred, true);
    assert_int_equal(ggml_backend_graph_compute(ork, l.graph), GGML_STATUS_SUCCESS);
    outputs_equal(&l, want);
    assert_memory_equal(l.normed->data, normed, sizeof(normed));
    assert_int_equal(counts_now().plain_skipped, after.plain_skipped);
    assert_int_equal(counts_now().norms_fused, after.norms_fused + 2);
    end(&l);
    for (int i = 0; i < PRODUCTS; i++)
        free(want[i]);
    ggml_backend_free(ork);
}

static void fused_is_the_same(void **state)
{
    (void)state;
    fuse(false);
    fuse(true);
}

/* One row is the host's (ORK_MIN_ROWS=4 here), and has the bits it has among many on the NPU. */
static void few_rows_are_the_hosts(void **state)
{
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct plugin_counts before = counts_now(), after;
    struct layer many, one;

    (void)state;
    make(&many, ork, ROWS, false, false);
    make(&one, ork, 1, false, false);
    assert_int_equal(ggml_backend_graph_compute(ork, many.graph), GGML_STATUS_SUCCESS);
    after = counts_now();
    assert_int_equal(after.npu_products - before.npu_products, PRODUCTS);
    assert_int_equal(after.host_products, before.host_products);
    assert_int_equal(ggml_backend_graph_compute(ork, one.graph), GGML_STATUS_SUCCESS);
    assert_int_equal(counts_now().host_products - after.host_products, PRODUCTS);
    assert_int_equal(counts_now().npu_products, after.npu_products);
    for (int i = 0; i < PRODUCTS; i++)
        assert_memory_equal(data_of(one.out[i]), data_of(many.out[i]), ggml_nbytes(one.out[i]));
    end(&many);
    end(&one);
    ggml_backend_free(ork);
}

/* More outputs than one submit has: a token's are those it gets in small company. */
static void big_products_go_in_turns(void **state)
{
    const struct product_shape big = {GGML_TYPE_Q8_0, 32, 2064, 4, 2080, 4, 1};
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct product_shape small = big;
    struct product_data all, last;
    float *many, *few;

    (void)state;
    small.tokens = 5;
    fixture_fill(&big, 7, &all);
    last = all;
    last.x_floats = (size_t)(small.tokens * big.k);
    last.n_ids = (size_t)(small.tokens * big.used);
    last.out_floats = last.n_ids * (size_t)big.n;
    last.x += all.x_floats - last.x_floats;
    last.ids += all.n_ids - last.n_ids;
    many = calloc(all.out_floats, sizeof(float));
    few = calloc(last.out_floats, sizeof(float));
    assert_int_equal(fixture_compute(ork, fixture_packed(), &big, &all, SET_WHOLE, many),
                     GGML_STATUS_SUCCESS);
    assert_int_equal(fixture_compute(ork, fixture_packed(), &small, &last, SET_WHOLE, few),
                     GGML_STATUS_SUCCESS);
    assert_memory_equal(many + all.out_floats - last.out_floats, few,
                        last.out_floats * sizeof(float));
    free(many);
    free(few);
    fixture_data_free(&all);
    ggml_backend_free(ork);
}

static int set_up(void **state)
{
    (void)state;
    setenv("ORK_ROTATE", "1", 1); /* the longest pass */
    fixture_load();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_the_cpus),       cmocka_unit_test(other_sums_are_refused),
        cmocka_unit_test(fused_is_the_same),        cmocka_unit_test(few_rows_are_the_hosts),
        cmocka_unit_test(big_products_go_in_turns),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
