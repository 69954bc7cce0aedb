/* The decoder's fuzz harness on pseudo-random inputs, in ordinary runs: changed programs of every
 * kind and raw entries. The harness aborts on a finding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A few changed entries; values that are near legal ones, far from them, or single bits. */
static size_t changes(uint8_t *data, uint64_t *seed)
{
    const size_t n = 1 + next(seed) % 4;
    data[0] = (uint8_t)(next(seed) % 64);
    for (size_t i = 0; i < n; i++) {
        uint8_t *at = data + 1 + 6 * i;
        const uint32_t index = next(seed) & (next(seed) % 4 ? 0x7f : 0xffff);
        const uint32_t kind = next(seed) % 3;
        const uint32_t value = kind == 0   ? next(seed) % 0x2000
                               : kind == 1 ? UINT32_C(1) << next(seed) % 32
                                           : next(seed) * 2 + next(seed) % 2;
        at[0] = (uint8_t)index;
        at[1] = (uint8_t)(index >> 8);
        for (size_t b = 0; b < 4; b++)
            at[2 + b] = (uint8_t)(value >> 8 * b);
    }
    return 1 + 6 * n;
}

static void test_changed_programs(void **state)
{
    uint8_t data[64];
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < 20000; i++)
        LLVMFuzzerTestOneInput(data, changes(data, &seed));
}

static void test_raw_entries(void **state)
{
    static const uint16_t targets[] = {0x0101, 0x0201, 0x0801, 0x1001, 0x2001, 0x0041, 0x0081, 0};
    uint8_t data[1 + 8 * 120];
    uint64_t seed = 2;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const size_t n = 1 + next(&seed) % 120;
        data[0] = 7;
        for (size_t e = 0; e < n; e++) {
            const uint32_t target = targets[next(&seed) % 8], value = next(&seed);
            const uint32_t reg = (target >> 8 == 2   ? 0x1000u
                                  : target >> 8 == 8 ? 0x3000u
                                  : target == 0x1001 ? 0x4000u
                                                     : 0u) +
                                 next(&seed) % 64 * 4;
            const uint64_t entry = (uint64_t)target << 48 | (uint64_t)value << 16 | reg;
            for (size_t b = 0; b < 8; b++)
                data[1 + 8 * e + b] = (uint8_t)(entry >> 8 * b);
        }
        LLVMFuzzerTestOneInput(data, 1 + 8 * n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changed_programs),
        cmocka_unit_test(test_raw_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
