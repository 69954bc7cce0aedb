/*
 * The list of ggml's devices: the CPU is there, and no backend that was loaded for the listing
 * stays registered, as libllama would add it to every context.
 */
#include "bmoe.h"

#include <ggml-backend.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct seen {
    int n, n_cpu;
};

static void on_device(void *user, const struct bmoe_device *device)
{
    struct seen *seen = user;

    assert_int_equal(device->size, sizeof(*device));
    assert_true(device->name[0] != '\0');
    assert_non_null(device->description);
    assert_true(device->free_bytes <= device->total_bytes);
    seen->n++;
    seen->n_cpu += strcmp(device->kind, "cpu") == 0;
}

static void test_list(void **state)
{
    size_t n_before = ggml_backend_reg_count();
    struct bmoe_error err = {0};

    (void)state;
    for (int round = 0; round < 2; round++) {
        struct seen seen = {0};

        assert_int_equal(bmoe_devices_visit(NULL, on_device, &seen, &err), 0);
        assert_true(seen.n >= 1);
        assert_int_equal(seen.n_cpu, 1);
        assert_int_equal(ggml_backend_reg_count(), n_before);
    }
}

static void test_refusals(void **state)
{
    struct bmoe_error err = {0};
    struct seen seen = {0};

    (void)state;
    assert_int_equal(bmoe_devices_visit(NULL, NULL, NULL, &err), BMOE_E_MISUSE);
    assert_int_equal(bmoe_devices_visit("/nonexistent", on_device, &seen, &err), BMOE_E_SEAM);
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_int_equal(seen.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
