/* Inputs in parts, and the product by the host: bit for bit what the device gives, for int8 and for
 * int4 with a scale per group, whole and part by part, rows sent elsewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ork.h"

enum { N = 150, K = 320, ROWS = 23, PARTS = 5 };

struct kind {
    enum ork_type type;
    uint32_t k_slice; /* 0 = one scale per row */
};

static const struct kind kinds[] = {{ORK_I8_I32, 0},   {ORK_I8_I32, 96}, {ORK_I4_I16, 0},
                                    {ORK_I4_I16, 128}, {ORK_I4_I16, 64}, {ORK_I4_I16, 32}};

struct world {
    struct ork_device *device;
    struct ork_weight *weight;
    struct ork_input *input;
    float *x;       /* ROWS x K */
    float *b_scale; /* n_slices x N */
    uint32_t n_slices, slice, code_max;
    struct ork_quantise how;
};

static struct ork_device *open_sim(void)
{
    const struct ork_open_options options = {.size = sizeof(options), .transport = "sim"};
    struct ork_device *device;

    assert_int_equal(ork_device_open(&options, &device, NULL), 0);
    return device;
}

static void make(struct world *w, struct ork_device *device, const struct kind *kind)
{
    const struct ork_weight_options options = {
        .size = sizeof(options), .k_slice = kind->k_slice, .i4_absmax = 7};
    const int most = kind->type == ORK_I8_I32 ? 127 : 7;
    int8_t *codes = malloc((size_t)N * K);

    memset(w, 0, sizeof(*w));
    w->device = device;
    w->slice = kind->k_slice;
    w->code_max = (uint32_t)most;
    w->how = (struct ork_quantise){
        .size = sizeof(w->how), .rotate = true, .per_slice = kind->k_slice > 0};
    assert_int_equal(ork_weight_create(device, kind->type, N, K, &options, &w->weight, NULL), 0);
    for (int i = 0; i < N * K; i++)
        codes[i] = (int8_t)((i * 37 + i / 11) % (2 * most + 1) - most);
    assert_int_equal(ork_weight_pack(w->weight, 0, N, codes), 0);
    free(codes);
    w->n_slices = kind->k_slice ? ork_weight_n_slices(w->weight) : 1;
    w->x = calloc((size_t)ROWS * K, sizeof(float));
    for (int i = 0; i < ROWS * K; i++)
        w->x[i] = sinf((float)i * 0.37f) * (float)(1 + i % 7);
    w->b_scale = calloc((size_t)w->n_slices * N, sizeof(float));
    for (uint32_t i = 0; i < w->n_slices * N; i++)
        w->b_scale[i] = 0.01f * (float)(1 + i % 13);
    assert_int_equal(ork_input_create(device, w->weight, ROWS, &w->input, NULL), 0);
}

static void end(struct world *w)
{
    ork_input_destroy(w->input);
    ork_weight_destroy(w->weight);
    free(w->x);
    free(w->b_scale);
}

static void put(struct world *w, size_t part, uint32_t m, uint32_t row)
{
    float room[K], scales[K / 32];
    int8_t codes[K];

    ork_quantise_row(&w->how, w->code_max, w->x + (size_t)row * K, K, w->slice, room, codes,
                     scales);
    assert_int_equal(ork_input_put(w->input, part, m, codes, scales), 0);
}

static struct ork_matmul call_of(const struct world *w, size_t part, uint32_t m, float *c)
{
    return (struct ork_matmul){.size = sizeof(struct ork_matmul),
                               .weight = w->weight,
                               .input = w->input,
                               .part = part,
                               .m = m,
                               .c = c,
                               .b_scale = w->b_scale,
                               .scales_per_slice = w->how.per_slice};
}

static void host_is_the_device(void **state)
{
    struct ork_device *device = open_sim();
    static float got[ROWS * N], want[ROWS * N];
    static int8_t codes[K + 31];

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const uint32_t rows = ROWS;
        struct ork_matmul call;
        struct world w;

        make(&w, device, &kinds[i]);
        assert_int_equal(ork_input_begin(w.input, &rows, 1, w.how.per_slice), 0);
        for (uint32_t m = ROWS; m-- > 0;)
            put(&w, 0, m, m);
        assert_int_equal(ork_input_finish(w.input), 0);
        call = call_of(&w, 0, ROWS, want);
        assert_int_equal(ork_matmul_run(device, &call, 1, NULL), 0);
        call.c = got;
        memset(got, 0, sizeof(got));
        assert_int_equal(ork_matmul_host(&call, 0, 64, codes), 0);
        assert_int_equal(ork_matmul_host(&call, 64, N - 64, codes), 0);
        assert_memory_equal(got, want, sizeof(want));
        assert_true(ork_matmul_host(&call, 32, 32, codes) < 0);
        assert_true(ork_matmul_host(&call, 0, N + 1, codes) < 0);
        end(&w);
    }
    ork_device_close(device);
}

/* Parts of 0, 1, 2, ... rows give what one part gives, row by row, wherever the rows are sent. */
static void parts_are_the_whole(void **state)
{
    static const uint32_t part_rows[PARTS] = {7, 0, 1, 13, 2};
    struct ork_device *device = open_sim();
    static float got[ROWS * N], want[ROWS * N];
    static int8_t codes[K];
    uint32_t rows[ROWS];

    (void)state;
    for (uint32_t m = 0; m < ROWS; m++)
        rows[m] = (m * 5 + 3) % ROWS;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct ork_matmul calls[PARTS];
        struct world w;
        uint32_t first = 0;
        size_t n = 0;

        make(&w, device, &kinds[i]);
        w.how.row_stride = K;
        assert_int_equal(ork_input_quantise(w.input, ROWS, w.x, &w.how), 0);
        calls[0] = call_of(&w, 0, ROWS, want);
        assert_int_equal(ork_matmul_run(device, calls, 1, NULL), 0);
        assert_int_equal(ork_input_begin(w.input, part_rows, PARTS, w.how.per_slice), 0);
        for (size_t p = 0; p < PARTS; first += part_rows[p++]) {
            for (uint32_t m = 0; m < part_rows[p]; m++)
                put(&w, p, m, first + m);
            if (!part_rows[p])
                continue;
            calls[n] = call_of(&w, p, part_rows[p], got);
            calls[n++].c_rows = rows + first;
        }
        assert_int_equal(ork_input_finish(w.input), 0);
        assert_int_equal(ork_matmul_run(device, calls, n, NULL), 0);
        for (uint32_t m = 0; m < ROWS; m++)
            assert_memory_equal(got + rows[m] * N, want + m * N, N * sizeof(float));
        assert_true(ork_input_put(w.input, 0, 7, codes, w.x) < 0);
        assert_true(ork_input_put(w.input, PARTS, 0, codes, w.x) < 0);
        calls[0].part = PARTS;
        assert_true(ork_matmul_run(device, calls, 1, NULL) < 0);
        end(&w);
    }
    ork_device_close(device);
}

static void an_image_is_the_weight(void **state)
{
    struct ork_device *device = open_sim();
    static int8_t codes[N * K], again[N * K];
    struct ork_weight *copy;
    uint64_t bytes;
    struct world w;

    (void)state;
    make(&w, device, &(struct kind){ORK_I8_I32, 0});
    assert_int_equal(ork_weight_create(device, ORK_I8_I32, N, K, NULL, &copy, NULL), 0);
    assert_int_equal(ork_weight_set_image(copy, ork_weight_image(w.weight, &bytes)), 0);
    assert_int_equal(bytes, ork_weight_bytes(ORK_I8_I32, N, K, NULL, NULL));
    ork_weight_unpack(w.weight, 0, N, codes);
    ork_weight_unpack(copy, 0, N, again);
    assert_memory_equal(codes, again, sizeof(codes));
    ork_weight_destroy(copy);
    end(&w);
    ork_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_the_device),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(an_image_is_the_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
