/* The generated register header: positions against values captured from silicon, range checks,
 * and the tables built from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ork_regs.h"
#include "regs.h"

static void test_known_values(void **state)
{
    (void)state;
    assert_int_equal(ORK_CNA_CBUF_CON0_WEIGHT_BANK(10) | ORK_CNA_CBUF_CON0_DATA_BANK(2), 0xa2);
    assert_int_equal(ORK_CNA_CONV_CON1_PROC_PRECISION(ORK_PRECISION_INT4) |
                         ORK_CNA_CONV_CON1_IN_PRECISION(ORK_PRECISION_INT4),
                     0x360);
    assert_int_equal(ORK_DPU_BS_OW_CFG_SIZE_E_2(3) | ORK_DPU_BS_OW_CFG_SIZE_E_1(3) |
                         ORK_DPU_BS_OW_CFG_SIZE_E_0(3) | ORK_DPU_BS_OW_CFG_OD_BYPASS(1),
                     0x36e);
    assert_int_equal(ORK_CNA_DMA_CON2_SURF_STRIDE(-3), 0x0ffffffd);
    assert_int_equal(ORK_GET_CNA_DMA_CON2_SURF_STRIDE(0x0ffffffd), -3);
    assert_int_equal(ORK_GET_CNA_DMA_CON2_SURF_STRIDE(0x3c), 0x3c);
    assert_int_equal(ORK_DPU_DATA_FORMAT_OUT_PRECISION(5) | ORK_DPU_DATA_FORMAT_IN_PRECISION(2) |
                         ORK_DPU_DATA_FORMAT_PROC_PRECISION(2),
                     0xa8000002);
}

static void test_overflow_survives_or(void **state)
{
    (void)state;
    assert_true(ORK_CNA_CBUF_CON0_DATA_BANK(16) & ORK_FIELD_OVERFLOW);
    assert_true((ORK_CNA_CBUF_CON0_DATA_BANK(16) | ORK_CNA_CBUF_CON0_WEIGHT_BANK(1)) >> 32);
    assert_true(ORK_CNA_DMA_CON2_SURF_STRIDE(INT64_C(1) << 27) & ORK_FIELD_OVERFLOW);
    assert_false(ORK_CNA_DMA_CON2_SURF_STRIDE(-(INT64_C(1) << 27)) & ORK_FIELD_OVERFLOW);
    assert_true(ORK_CNA_FEATURE_DATA_ADDR(UINT64_C(1) << 32) & ORK_FIELD_OVERFLOW);
}

static void test_entry(void **state)
{
    const uint64_t e = ORK_ENTRY(ORK_TARGET_CNA, ORK_REG_CNA_CBUF_CON0, 0xdeadbeef);

    (void)state;
    assert_true(e == UINT64_C(0x0201deadbeef1040));
    assert_int_equal(ORK_ENTRY_TARGET(e), 0x201);
    assert_int_equal(ORK_ENTRY_VALUE(e), 0xdeadbeef);
    assert_int_equal(ORK_ENTRY_REG(e), 0x1040);
}

/* Every register lies in its block's range, fields do not overlap and make up the mask. */
static void test_tables(void **state)
{
    size_t n, n_fields;
    const struct ork_reg_desc *regs = ork_reg_table(&n);

    (void)state;
    assert_true(n > 120);
    for (size_t i = 0; i < n; i++) {
        const struct ork_field_desc *f = ork_reg_fields(regs[i].offset, &n_fields);
        uint32_t mask = 0;

        assert_ptr_equal(ork_reg_find(regs[i].offset), &regs[i]);
        for (size_t j = 0; j < n_fields; j++) {
            assert_int_equal(mask & ORK_BITS(f[j].lo, f[j].bits), 0);
            mask |= ORK_BITS(f[j].lo, f[j].bits);
        }
        assert_int_equal(n_fields ? mask : 0xffffffffu, regs[i].mask);
    }
    assert_string_equal(ork_block_find(0x201)->name, "CNA");
    assert_null(ork_block_find(0x41));
    assert_null(ork_reg_find(0x1048));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_overflow_survives_or),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
