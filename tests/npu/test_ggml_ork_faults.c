/* What a program sees when the NPU goes away or is full. One fault per run, since the plug-in opens
 * its device once: `dead` (ORK_SIM=dead_after=...), `full` and `domains` (ORK_SIM=iova_base=...),
 * set by the caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ggml_ork_fixture.h"

static const struct product_shape routed = {GGML_TYPE_Q8_0, 64, 64, 8, 12, 2, 1};

/* Right until it dies, an error from then on, in every stream. */
static void a_dead_device_is_an_error(void **state)
{
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct product_data data;
    float *first, *next;
    int right = 0;

    (void)state;
    fixture_fill(&routed, 3, &data);
    first = calloc(data.out_floats, sizeof(float));
    next = calloc(data.out_floats, sizeof(float));
    while (right < 1000) {
        float *out = right ? next : first;

        if (fixture_compute(ork, fixture_packed(), &routed, &data, SET_WHOLE, out) !=
            GGML_STATUS_SUCCESS)
            break;
        assert_memory_equal(out, first, data.out_floats * sizeof(float));
        right++;
    }
    assert_in_range(right, 1, 999);
    print_message("%d graphs before the device died\n", right);
    ggml_backend_free(ork);
    ork = ggml_backend_dev_init(fixture_ork(), NULL);
    assert_int_equal(fixture_compute(ork, fixture_packed(), &routed, &data, SET_WHOLE, next),
                     GGML_STATUS_FAILED);
    ggml_backend_free(ork);
    fixture_data_free(&data);
    free(first);
    free(next);
}

/* Too many weights for the address space: no buffer, nothing kept, and what fits still runs. */
static void a_full_device_refuses_the_weights(void **state)
{
    const struct product_shape large = {GGML_TYPE_F16, 1024, 1024, 64, 1, 0, 64};
    struct ggml_context *ctx = fixture_context();
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct product_data data;
    size_t before, after, total;
    float *out;

    (void)state;
    fixture_fill(&routed, 3, &data);
    out = calloc(data.out_floats, sizeof(float));
    assert_int_equal(fixture_compute(ork, fixture_packed(), &routed, &data, SET_WHOLE, out),
                     GGML_STATUS_SUCCESS);
    ggml_backend_dev_memory(fixture_ork(), &before, &total);
    assert_true(total < 1024 * 1024 * 64);
    fixture_weight(ctx, &large);
    assert_null(ggml_backend_alloc_ctx_tensors_from_buft(ctx, fixture_packed()));
    ggml_backend_dev_memory(fixture_ork(), &after, &total);
    assert_true(after >= before); /* the driver lets go of spare buffers first */
    assert_int_equal(fixture_compute(ork, fixture_packed(), &routed, &data, SET_WHOLE, out),
                     GGML_STATUS_SUCCESS);
    free(out);
    fixture_data_free(&data);
    ggml_backend_free(ork);
    ggml_free(ctx);
}

/* Weights that do not fit one address space fill the next, and products in all of them are right.
 */
static void weights_fill_one_domain_after_the_other(void **state)
{
    enum { TENSORS = 4 };
    const struct product_shape shape = {GGML_TYPE_F16, 1024, 1024, 16, 3, 2, 1}; /* 16 MiB of 24 */
    struct ggml_context *ctx[TENSORS];
    ggml_backend_buffer_t buffers[TENSORS];
    ggml_backend_t ork = ggml_backend_dev_init(fixture_ork(), NULL);
    struct product_data data;
    float *first, *out;

    (void)state;
    fixture_fill(&shape, 3, &data);
    first = calloc(data.out_floats, sizeof(float));
    out = calloc(data.out_floats, sizeof(float));
    for (int i = 0; i < TENSORS; i++) {
        if (i < TENSORS - 1) {
            float *to = i ? out : first;

            assert_int_equal(fixture_compute(ork, fixture_packed(), &shape, &data, SET_WHOLE, to),
                             GGML_STATUS_SUCCESS);
            assert_memory_equal(to, first, data.out_floats * sizeof(float));
        }
        ctx[i] = fixture_context();
        fixture_weight(ctx[i], &shape);
        buffers[i] = ggml_backend_alloc_ctx_tensors_from_buft(ctx[i], fixture_packed());
        assert_true((buffers[i] != NULL) == (i < TENSORS - 1));
    }
    for (int i = 0; i < TENSORS; i++) {
        ggml_backend_buffer_free(buffers[i]);
        ggml_free(ctx[i]);
    }
    free(first);
    free(out);
    fixture_data_free(&data);
    ggml_backend_free(ork);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest domains[] = {cmocka_unit_test(weights_fill_one_domain_after_the_other)};
    const struct CMUnitTest dead[] = {cmocka_unit_test(a_dead_device_is_an_error)};
    const struct CMUnitTest full[] = {cmocka_unit_test(a_full_device_refuses_the_weights)};

    if (argc != 2 || !getenv("ORK_SIM"))
        return 2;
    fixture_load();
    if (!strcmp(argv[1], "dead"))
        return cmocka_run_group_tests(dead, NULL, NULL);
    if (!strcmp(argv[1], "domains"))
        return cmocka_run_group_tests(domains, NULL, NULL);
    return cmocka_run_group_tests(full, NULL, NULL);
}
