/* The plug-in through ggml's public calls: products against the CPU backend, what is refused, how
 * weights may be set, and that streams and graphs leave nothing behind.
 *
 * One file although long: each test is short, all share the shapes and bounds below, and the tests
 * of every code and rotation run it whole. */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ggml_ork_fixture.h"
#include "ork.h"

/* Uniform values lose 0.0039 of their norm on each side by 8-bit codes, together 0.0056; the CPU
 * codes activations too, for quantised weights. */
#define W8A8_BOUND 1e-2
/* By 4-bit codes of one scale per 128 or per row: steps of 1/7 of the largest. */
#define W4A4_BOUND 0.2

static bool is_int4(void)
{
    const char *quant = getenv("ORK_QUANT");

    return quant && !strncmp(quant, "w4a4", 4);
}

static bool is_rotated(void)
{
    return getenv("ORK_ROTATE") != NULL;
}

static double bound(void)
{
    /* Rotated, uniform values are nearly normal: the largest stands out more, the steps are wider.
     */
    return (is_int4() ? W4A4_BOUND : W8A8_BOUND) * (is_rotated() ? 1.5 : 1.0);
}

static const struct product_shape shapes[] = {
    {GGML_TYPE_F32, 64, 48, 1, 5, 0, 1},       {GGML_TYPE_F16, 96, 33, 1, 1, 0, 1},
    {GGML_TYPE_BF16, 128, 16, 1, 9, 0, 3},     {GGML_TYPE_Q8_0, 1024, 100, 1, 37, 0, 1},
    {GGML_TYPE_Q4_0, 256, 64, 1, 4, 0, 1},     {GGML_TYPE_Q4_1, 256, 64, 1, 4, 0, 1},
    {GGML_TYPE_Q5_0, 256, 64, 1, 4, 0, 1},     {GGML_TYPE_Q5_1, 256, 64, 1, 4, 0, 1},
    {GGML_TYPE_Q4_K, 512, 64, 1, 4, 0, 1},     {GGML_TYPE_Q5_K, 512, 64, 1, 4, 0, 1},
    {GGML_TYPE_Q6_K, 512, 64, 1, 4, 0, 1},     {GGML_TYPE_IQ4_NL, 256, 64, 1, 4, 0, 1},
    {GGML_TYPE_MXFP4, 256, 64, 1, 4, 0, 1},    {GGML_TYPE_F16, 64, 32, 3, 6, 0, 3},
    {GGML_TYPE_Q4_0, 128, 96, 16, 33, 4, 1},   {GGML_TYPE_Q8_0, 64, 128, 16, 33, 4, 4},
    {GGML_TYPE_F32, 32, 16, 8, 1, 2, 1},       {GGML_TYPE_MXFP4, 64, 96, 4, 70, 4, 4},
    {GGML_TYPE_Q4_0, 128, 96, 160, 300, 8, 1},
};

static ggml_backend_t open_ork(void)
{
    ggml_backend_t backend = ggml_backend_dev_init(fixture_ork(), NULL);

    assert_non_null(backend);
    return backend;
}

static void products_are_the_cpus(void **state)
{
    ggml_backend_t ork = open_ork();
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    double worst = 0.0;

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        struct product_data data;
        float *want, *got, *again;
        double distance;

        fixture_fill(&shapes[i], (uint32_t)i + 1, &data);
        want = calloc(data.out_floats, sizeof(float));
        got = calloc(data.out_floats, sizeof(float));
        again = calloc(data.out_floats, sizeof(float));
        assert_int_equal(
            fixture_compute(cpu, fixture_cpu_buft(), &shapes[i], &data, SET_WHOLE, want),
            GGML_STATUS_SUCCESS);
        assert_int_equal(fixture_compute(ork, fixture_packed(), &shapes[i], &data, SET_WHOLE, got),
                         GGML_STATUS_SUCCESS);
        assert_int_equal(fixture_compute(ork, ggml_backend_get_default_buffer_type(ork), &shapes[i],
                                         &data, SET_WHOLE, again),
                         GGML_STATUS_SUCCESS);
        distance = fixture_distance(got, want, data.out_floats);
        worst = distance > worst ? distance : worst;
        if (!(distance < bound()))
            fail_msg("%s, case %zu: off by %g", ggml_type_name(shapes[i].type), i, distance);
        assert_memory_equal(got, again, data.out_floats * sizeof(float));
        free(want);
        free(got);
        free(again);
        fixture_data_free(&data);
    }
    print_message("worst relative error of %zu products: %.2e\n", sizeof(shapes) / sizeof(*shapes),
                  worst);
    ggml_backend_free(cpu);
    ggml_backend_free(ork);
}

/* However the bytes come, the codes are the same; so are a token's results in any company. */
static void weights_come_in_any_order(void **state)
{
    const struct product_shape shape = {GGML_TYPE_Q4_0, 128, 96, 16, 33, 4, 1};
    ggml_backend_t ork = open_ork();
    struct product_data data;
    float *out[3];

    (void)state;
    fixture_fill(&shape, 5, &data);
    for (int how = SET_WHOLE; how <= SET_BY_ROWS; how++) {
        out[how] = calloc(data.out_floats, sizeof(float));
        assert_int_equal(
            fixture_compute(ork, fixture_packed(), &shape, &data, (enum set_how)how, out[how]),
            GGML_STATUS_SUCCESS);
        assert_memory_equal(out[how], out[0], data.out_floats * sizeof(float));
    }
    for (int64_t t = 0; t < shape.tokens; t++) {
        struct product_shape one = shape;
        struct product_data part = data;
        float alone[4 * 96];

        one.tokens = 1;
        part.x += t * shape.k;
        part.ids += t * shape.used;
        part.x_floats = (size_t)shape.k;
        part.n_ids = 4;
        part.out_floats = sizeof(alone) / sizeof(*alone);
        assert_int_equal(fixture_compute(ork, fixture_packed(), &one, &part, SET_WHOLE, alone),
                         GGML_STATUS_SUCCESS);
        assert_memory_equal(alone, out[0] + t * 4 * 96, sizeof(alone));
    }
    for (int i = 0; i < 3; i++)
        free(out[i]);
    fixture_data_free(&data);
    ggml_backend_free(ork);
}

static struct ork_stats stats_now(void)
{
    void *proc = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(fixture_ork()),
                                                   "ggml_backend_ork_stats");
    void (*get)(ggml_backend_dev_t, struct ork_stats *);
    struct ork_stats stats;

    assert_non_null(proc);
    memcpy(&get, &proc, sizeof(get));
    get(fixture_ork(), &stats);
    return stats;
}

/* However many experts have rows, a layer costs as many submits as one product. */
static void experts_go_together(void **state)
{
    const struct product_shape dense = {GGML_TYPE_Q4_0, 128, 96, 1, 33, 0, 1};
    const struct product_shape routed = {GGML_TYPE_Q4_0, 128, 96, 32, 33, 4, 1};
    ggml_backend_t ork = open_ork();
    struct ork_stats s[3];
    struct product_data data;
    float *out = calloc(96 * 33 * 4, sizeof(float));

    (void)state;
    s[0] = stats_now();
    fixture_fill(&dense, 1, &data);
    assert_int_equal(fixture_compute(ork, fixture_packed(), &dense, &data, SET_WHOLE, out), 0);
    fixture_data_free(&data);
    s[1] = stats_now();
    fixture_fill(&routed, 1, &data);
    assert_int_equal(fixture_compute(ork, fixture_packed(), &routed, &data, SET_WHOLE, out), 0);
    fixture_data_free(&data);
    s[2] = stats_now();
    assert_int_equal(s[1].matmuls - s[0].matmuls, 1);
    assert_int_equal(s[2].matmuls - s[1].matmuls, 32);
    assert_int_equal(s[2].macs - s[1].macs, (uint64_t)33 * 4 * 128 * 96);
    assert_in_range(s[1].submits - s[0].submits, 1, 3); /* one for each core */
    assert_in_range(s[2].submits - s[1].submits, 1, 3);
    assert_int_equal(s[2].saturated_cells, 0);
    free(out);
    ggml_backend_free(ork);
}

/* Tensors of other types or shapes bound to one place: each is multiplied as it was set. */
static void tensors_share_a_place(void **state)
{
    static const struct product_shape two[] = {{GGML_TYPE_Q8_0, 64, 32, 1, 5, 0, 1},
                                               {GGML_TYPE_F16, 64, 48, 1, 5, 0, 1}};
    ggml_backend_buffer_t place = ggml_backend_buft_alloc_buffer(fixture_packed(), 1 << 16);
    ggml_backend_t ork = open_ork();

    (void)state;
    ggml_backend_buffer_set_usage(place, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (int round = 0; round < 2; round++) {
        struct ggml_context *ctx = fixture_context();
        struct ggml_tensor *w[2];

        for (int i = 0; i < 2; i++) {
            w[i] = fixture_weight(ctx, &two[i]);
            assert_int_equal(
                ggml_backend_tensor_alloc(place, w[i], ggml_backend_buffer_get_base(place)), 0);
        }
        for (int i = 0; i < 2; i++) {
            struct ggml_context *rest = fixture_context();
            struct ggml_tensor *node = fixture_node(rest, &two[i], w[i]);
            ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(rest, ork);
            struct ggml_cgraph *graph = ggml_new_graph(rest);
            float want[5 * 48], *got = node->data;
            struct product_data data;

            fixture_fill(&two[i], 3 + (uint32_t)round, &data);
            assert_int_equal(
                fixture_compute(ork, fixture_packed(), &two[i], &data, SET_WHOLE, want), 0);
            ggml_build_forward_expand(graph, node);
            ggml_backend_tensor_set(w[i], data.w, 0, data.w_bytes);
            ggml_backend_tensor_set(node->src[1], data.x, 0, data.x_floats * sizeof(float));
            assert_int_equal(ggml_backend_graph_compute(ork, graph), GGML_STATUS_SUCCESS);
            assert_memory_equal(got, want, data.out_floats * sizeof(float));
            fixture_data_free(&data);
            ggml_backend_buffer_free(buffer);
            ggml_free(rest);
        }
        ggml_free(ctx);
    }
    ggml_backend_buffer_free(place);
    ggml_backend_free(ork);
}

static void half_a_row_is_an_error_not_an_answer(void **state)
{
    struct ggml_context *ctx = fixture_context();
    const struct product_shape shape = {GGML_TYPE_F32, 64, 32, 1, 2, 0, 1};
    struct ggml_context *rest = fixture_context();
    struct ggml_tensor *w = fixture_weight(ctx, &shape);
    struct ggml_tensor *node = fixture_node(rest, &shape, w);
    ggml_backend_t ork = open_ork();
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, fixture_packed());
    ggml_backend_buffer_t others = ggml_backend_alloc_ctx_tensors(rest, ork);
    struct ggml_cgraph *graph = ggml_new_graph(rest);
    const float some[8] = {1.0f};

    (void)state;
    ggml_build_forward_expand(graph, node);
    ggml_backend_tensor_memset(node->src[1], 0, 0, ggml_nbytes(node->src[1]));
    assert_int_equal(ggml_backend_graph_compute(ork, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_set(w, some, 32, sizeof(some));
    assert_int_equal(ggml_backend_graph_compute(ork, graph), GGML_STATUS_FAILED);
    ggml_backend_buffer_free(others);
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(ork);
    ggml_free(rest);
    ggml_free(ctx);
}

static void an_expert_that_is_not_there_is_an_error(void **state)
{
    const struct product_shape shape = {GGML_TYPE_F16, 64, 32, 4, 3, 2, 1};
    ggml_backend_t ork = open_ork();
    struct product_data data;
    float out[3 * 2 * 32] = {0};

    (void)state;
    fixture_fill(&shape, 9, &data);
    for (int i = 0; i < 2; i++) {
        data.ids[3] = i ? -1 : 4;
        assert_int_equal(fixture_compute(ork, fixture_packed(), &shape, &data, SET_WHOLE, out),
                         GGML_STATUS_FAILED);
    }
    fixture_data_free(&data);
    ggml_backend_free(ork);
}

/* What the scheduler copies to the CPU is what the NPU computes with. */
static void packed_weights_can_be_read_back(void **state)
{
    const struct product_shape shape = {GGML_TYPE_F32, 64, 32, 2, 1, 0, 2};
    struct ggml_context *ctx = fixture_context();
    struct ggml_tensor *w = fixture_weight(ctx, &shape);
    struct ggml_tensor *view = ggml_view_1d(ctx, w, 64, 33 * 64 * sizeof(float));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, fixture_packed());
    struct product_data data;
    float *back, part[64];

    (void)state;
    fixture_fill(&shape, 3, &data);
    back = calloc(1, data.w_bytes);
    ggml_backend_tensor_set(w, data.w, 0, data.w_bytes);
    ggml_backend_tensor_get(w, back, 0, data.w_bytes);
    assert_true(fixture_distance(back, data.w, data.w_bytes / sizeof(float)) < bound());
    ggml_backend_tensor_get(view, part, 0, sizeof(part));
    assert_memory_equal(part, back + 33 * 64, sizeof(part));
    ggml_backend_tensor_get(w, part, 40, 48);
    assert_memory_equal(part, back + 10, 48);
    ggml_backend_buffer_clear(buffer, 0);
    ggml_backend_tensor_get(w, part, 0, sizeof(part));
    for (int i = 0; i < 64; i++)
        assert_true(part[i] == 0.0f);
    free(back);
    fixture_data_free(&data);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* The largest row sum is exact in float, so every cell is known: 127 is its own code. */
static void whole_numbers_are_exact(void **state)
{
    const struct product_shape shape = {GGML_TYPE_F32, 96, 32, 1, 3, 0, 1};
    ggml_backend_t ork;
    struct product_data data;
    float *w, out[3 * 32];

    (void)state;
    if (is_int4() || is_rotated())
        skip();
    ork = open_ork();
    fixture_fill(&shape, 21, &data);
    w = data.w;
    for (int i = 0; i < 96 * 32; i++)
        w[i] = (float)(i % 96 ? (i * 37) % 255 - 127 : 127);
    for (int i = 0; i < 96 * 3; i++)
        data.x[i] = (float)(i % 96 ? (i * 53) % 255 - 127 : -127);
    assert_int_equal(fixture_compute(ork, fixture_packed(), &shape, &data, SET_WHOLE, out),
                     GGML_STATUS_SUCCESS);
    for (int t = 0; t < 3; t++)
        for (int n = 0; n < 32; n++) {
            float sum = 0.0f;

            for (int k = 0; k < 96; k++)
                sum += w[n * 96 + k] * data.x[t * 96 + k];
            assert_true(out[t * 32 + n] == sum);
        }
    fixture_data_free(&data);
    ggml_backend_free(ork);
}

static void a_nan_stays_one(void **state)
{
    const struct product_shape shape = {GGML_TYPE_F32, 64, 32, 1, 2, 0, 1};
    ggml_backend_t ork = open_ork();
    struct product_data data;
    float out[2 * 32];

    (void)state;
    fixture_fill(&shape, 2, &data);
    data.x[70] = INFINITY;
    assert_int_equal(fixture_compute(ork, fixture_packed(), &shape, &data, SET_WHOLE, out),
                     GGML_STATUS_SUCCESS);
    for (int n = 0; n < 32; n++)
        assert_true(isfinite(out[n]) && isnan(out[32 + n]));
    fixture_data_free(&data);
    ggml_backend_free(ork);
}

/* ---- what is refused --------------------------------------------------------------------- */

static bool supported(const struct product_shape *shape, ggml_backend_buffer_type_t type)
{
    struct ggml_context *ctx = fixture_context();
    struct ggml_tensor *w = fixture_weight(ctx, shape);
    struct ggml_tensor *node = fixture_node(ctx, shape, w);
    bool yes;

    w->buffer = type ? ggml_backend_buft_alloc_buffer(type, 0) : NULL;
    yes = ggml_backend_dev_supports_op(fixture_ork(), node);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(ctx);
    return yes;
}

/* As libllama asks: a weight in an empty buffer of each type in turn. */
static void the_packed_type_is_found_by_asking(void **state)
{
    ggml_backend_buffer_type_t plain = ggml_backend_dev_buffer_type(fixture_ork());

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        assert_true(supported(&shapes[i], NULL));
        assert_true(supported(&shapes[i], fixture_packed()));
        assert_false(supported(&shapes[i], plain));
        assert_false(supported(&shapes[i], fixture_cpu_buft()));
    }
    assert_true(ggml_backend_buft_is_host(plain));
    assert_false(ggml_backend_buft_is_host(fixture_packed()));
    assert_true(ggml_backend_dev_supports_buft(fixture_ork(), fixture_cpu_buft()));
}

static void the_rest_is_refused(void **state)
{
    static const struct product_shape no[] = {
        {GGML_TYPE_F32, 48, 32, 1, 1, 0, 1},   /* K not in blocks */
        {GGML_TYPE_F32, 64, 8, 1, 1, 0, 1},    /* N too small */
        {GGML_TYPE_Q2_K, 256, 64, 1, 1, 0, 1}, /* a type not listed */
        {GGML_TYPE_F32, 64, 32, 1, 1, 0, 1},   /* made wrong below */
    };
    struct ggml_context *ctx = fixture_context();
    struct ggml_tensor *w = fixture_weight(ctx, &no[3]);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 4);
    struct ggml_tensor *batch = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 64, 4, 4);
    struct ggml_tensor *two = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 64, 32, 2);
    struct ggml_tensor *half = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, 64, 4);
    struct ggml_tensor *ops[] = {ggml_add(ctx, x, x),
                                 ggml_mul(ctx, x, x),
                                 ggml_soft_max(ctx, x),
                                 ggml_mul_mat(ctx, w, half),
                                 ggml_mul_mat(ctx, two, batch),           /* broadcast */
                                 ggml_mul_mat(ctx, ggml_cont(ctx, w), x), /* an activation */
                                 ggml_mul_mat(ctx, ggml_view_2d(ctx, w, 64, 16, w->nb[1], 0), x)};
    const size_t n_ops = sizeof(ops) / sizeof(struct ggml_tensor *);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_false(supported(&no[i], NULL));
        assert_false(supported(&no[i], fixture_packed()));
    }
    for (size_t i = 0; i < n_ops; i++)
        if (ggml_backend_dev_supports_op(fixture_ork(), ops[i]))
            fail_msg("op %zu, %s, is taken", i, ggml_op_desc(ops[i]));
    assert_true(ggml_backend_dev_supports_op(fixture_ork(), ggml_mul_mat(ctx, w, x)));
    assert_true(ggml_backend_dev_supports_op(
        fixture_ork(), ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 0))));
    ggml_set_input(w);
    assert_false(ggml_backend_dev_supports_op(fixture_ork(), ggml_mul_mat(ctx, w, x)));
    ggml_free(ctx);
}

/* ---- life -------------------------------------------------------------------------------- */

static void the_device_says_what_it_is(void **state)
{
    struct ggml_backend_dev_props props;

    (void)state;
    ggml_backend_dev_get_props(fixture_ork(), &props);
    assert_string_equal(props.name, "ORK0");
    assert_non_null(strstr(props.description, "simulator"));
    assert_int_equal(props.type, GGML_BACKEND_DEVICE_TYPE_IGPU);
    assert_true(props.memory_total > 0 && props.memory_free <= props.memory_total);
    assert_null(props.device_id);
    assert_false(props.caps.async || props.caps.events || props.caps.mmap_support);
    assert_null(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(fixture_ork()),
                                                  "ggml_backend_split_buffer_type"));
}

static void *compute_often(void *arg)
{
    const struct product_shape shape = {GGML_TYPE_Q8_0, 64, 64, 8, 12, 2, 1};
    ggml_backend_t ork = open_ork();
    struct product_data data;
    float *first, *next;

    fixture_fill(&shape, 77, &data);
    first = calloc(data.out_floats, sizeof(float));
    next = calloc(data.out_floats, sizeof(float));
    for (int i = 0; i < *(const int *)arg; i++) {
        assert_int_equal(fixture_compute(ork, fixture_packed(), &shape, &data,
                                         SET_BY_MATRIX_BACKWARDS, i ? next : first),
                         GGML_STATUS_SUCCESS);
        if (i)
            assert_memory_equal(next, first, data.out_floats * sizeof(float));
    }
    fixture_data_free(&data);
    ggml_backend_free(ork);
    free(next);
    return first;
}

static void streams_do_not_meet(void **state)
{
    int often = 40;
    pthread_t threads[3];
    void *out[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute_often, &often), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], &out[i]);
    for (int i = 1; i < 3; i++)
        assert_memory_equal(out[i], out[0], 64 * 12 * 2 * sizeof(float));
    for (int i = 0; i < 3; i++)
        free(out[i]);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRAPHS 100 /* each takes many times as long, and what is lost is told at the end */
#else
#define GRAPHS 1000
#endif

static size_t heap_bytes(void)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* Weights, graphs and streams come and go; memory of the device and of the heap is what it was. */
static void a_thousand_graphs_leave_nothing(void **state)
{
    int often = GRAPHS;
    size_t before, after, total, heap;
    uint64_t device;
    int warm = 20;

    (void)state;
    free(compute_often(&warm));
    ggml_backend_dev_memory(fixture_ork(), &before, &total);
    device = stats_now().bo_bytes;
    heap = heap_bytes();
    free(compute_often(&often));
    ggml_backend_dev_memory(fixture_ork(), &after, &total);
    assert_int_equal(after, before);
    assert_int_equal(stats_now().bo_bytes, device);
    if (heap)
        print_message("heap after %d graphs: %zd bytes more\n", often,
                      (ssize_t)(heap_bytes() - heap));
    assert_true(!heap || heap_bytes() < heap + 16 * (size_t)often);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_says_what_it_is),
        cmocka_unit_test(products_are_the_cpus),
        cmocka_unit_test(weights_come_in_any_order),
        cmocka_unit_test(experts_go_together),
        cmocka_unit_test(tensors_share_a_place),
        cmocka_unit_test(half_a_row_is_an_error_not_an_answer),
        cmocka_unit_test(an_expert_that_is_not_there_is_an_error),
        cmocka_unit_test(packed_weights_can_be_read_back),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(a_nan_stays_one),
        cmocka_unit_test(the_packed_type_is_found_by_asking),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(streams_do_not_meet),
        cmocka_unit_test(a_thousand_graphs_leave_nothing),
    };

    fixture_load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
