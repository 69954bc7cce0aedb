/* mk_mxfp4_encode against ggml's own, byte for byte: random weights of many scales, every tie, rows
 * of zeros, and scales at the ends of what a float holds. */
#include "mk_mxfp4.h"

#include <ggml.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1024 };

static void same_bytes(const float *weights)
{
    uint8_t ours[N / 32 * 17], theirs[N / 32 * 17];
    assert_int_equal(ggml_row_size(GGML_TYPE_MXFP4, N), sizeof theirs);
    mk_mxfp4_encode(weights, N, ours);
    ggml_quantize_chunk(GGML_TYPE_MXFP4, weights, theirs, 0, 1, N, NULL);
    assert_memory_equal(ours, theirs, sizeof ours);
}

static void random_weights(void **state)
{
    (void)state;
    uint32_t x = 2463534242u;
    float weights[N];
    for (int scale = -120; scale < 120; scale++) {
        for (int i = 0; i < N; i++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            weights[i] = ldexpf((float)(int32_t)x, scale - 31);
        }
        same_bytes(weights);
    }
}

/* Quarters of a step meet each value and each middle between two; the first weight of a block sets
 * its scale. */
static void ties(void **state)
{
    (void)state;
    float weights[N];
    for (int i = 0; i < N; i++)
        weights[i] = i % 32 ? ((float)(i % 128) - 64) / 4 : 15.5f;
    same_bytes(weights);
    for (int i = 0; i < N; i++)
        weights[i] = nextafterf(weights[i], i % 2 ? 100 : -100);
    same_bytes(weights);
}

static void the_ends(void **state)
{
    (void)state;
    float weights[N] = {0};
    same_bytes(weights);
    for (int i = 0; i < N; i++)
        weights[i] = i % 3 ? -0.0f : ldexpf((float)(i % 7), i % 2 ? -126 : 124);
    same_bytes(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_weights), cmocka_unit_test(ties),
                                       cmocka_unit_test(the_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
