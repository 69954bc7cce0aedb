/* Emits a program in the order the captures have it. Values come from the geometry and the type
 * table through the generated setters; a value that does not fit is remembered with its register
 * and refused at the end. */
#include "regcmd.h"

#include <errno.h>
#include <string.h>

#include "ork_regs.h"

struct writer {
    uint64_t *out;
    uint32_t n;
    uint32_t bad_reg;
    bool bad;
};

static void put(struct writer *w, uint32_t target, uint32_t reg, uint64_t value)
{
    if (value >> 32 && !w->bad) {
        w->bad = true;
        w->bad_reg = reg;
    }
    w->out[w->n++] = ORK_ENTRY(target, reg, value);
}

#define PUT(block, reg, value) put(w, ORK_TARGET_##block, ORK_REG_##block##_##reg, (value))

/* Consecutive registers of zero. */
static void put_zeros(struct writer *w, uint32_t target, uint32_t first, uint32_t last)
{
    for (uint32_t reg = first; reg <= last; reg += 4)
        put(w, target, reg, 0);
}

/* An address register refuses what the DMA cannot reach: above 4 GiB or off the 16-byte grid. */
static uint64_t address(uint64_t iova)
{
    return iova & 15 ? ORK_FIELD_OVERFLOW : iova;
}

static void put_cna_mode(struct writer *w, const struct ork_geometry *g)
{
    const uint32_t precision = ork_type_find(g->type)->in_precision;

    PUT(CNA, CONV_CON1,
        ORK_CNA_CONV_CON1_GROUP_LINE_OFF(g->flat) | ORK_CNA_CONV_CON1_PROC_PRECISION(precision) |
            ORK_CNA_CONV_CON1_IN_PRECISION(precision));
}

static void put_cna_banks(struct writer *w, const struct ork_geometry *g)
{
    PUT(CNA, CBUF_CON0,
        ORK_CNA_CBUF_CON0_WEIGHT_BANK(g->weight_banks) |
            ORK_CNA_CBUF_CON0_DATA_BANK(g->data_banks));
}

static void put_s_pointer(struct writer *w, bool rdma_block)
{
    PUT(DPU, S_POINTER,
        ORK_DPU_S_POINTER_POINTER_PP_MODE(1) | ORK_DPU_S_POINTER_EXECUTER_PP_EN(1) |
            ORK_DPU_S_POINTER_POINTER_PP_EN(1));
    if (rdma_block)
        PUT(RDMA, S_POINTER,
            ORK_RDMA_S_POINTER_POINTER_PP_MODE(1) | ORK_RDMA_S_POINTER_EXECUTER_PP_EN(1) |
                ORK_RDMA_S_POINTER_POINTER_PP_EN(1));
}

/* Sizes of data and weights. FEATURE_GRAINS is a hint (9..65 all pass), so it may be clamped. */
static void put_cna_sizes(struct writer *w, const struct ork_geometry *g)
{
    const uint64_t kernel_bytes = (uint64_t)g->depth * ork_type_find(g->type)->in_bits / 8;
    const uint32_t grains = g->lines + 1 < 1023 ? g->lines + 1 : 1023;

    PUT(CNA, CONV_CON2, ORK_CNA_CONV_CON2_FEATURE_GRAINS(grains));
    PUT(CNA, CONV_CON3, ORK_CNA_CONV_CON3_CONV_X_STRIDE(1) | ORK_CNA_CONV_CON3_CONV_Y_STRIDE(1));
    PUT(CNA, DATA_SIZE0,
        ORK_CNA_DATA_SIZE0_DATAIN_WIDTH(1) | ORK_CNA_DATA_SIZE0_DATAIN_HEIGHT(g->lines));
    PUT(CNA, DATA_SIZE1,
        ORK_CNA_DATA_SIZE1_CHANNEL_REAL_LESS_1(g->depth - 1) |
            ORK_CNA_DATA_SIZE1_CHANNEL(g->depth));
    PUT(CNA, DATA_SIZE2, ORK_CNA_DATA_SIZE2_DATAOUT_WIDTH(1));
    PUT(CNA, DATA_SIZE3, ORK_CNA_DATA_SIZE3_DATAOUT_ATOMICS(g->lines));
    PUT(CNA, WEIGHT_SIZE0, ORK_CNA_WEIGHT_SIZE0(g->cols * kernel_bytes));
    PUT(CNA, WEIGHT_SIZE1, ORK_CNA_WEIGHT_SIZE1_BYTES_PER_KERNEL(kernel_bytes));
    PUT(CNA, WEIGHT_SIZE2,
        ORK_CNA_WEIGHT_SIZE2_WEIGHT_WIDTH(1) | ORK_CNA_WEIGHT_SIZE2_WEIGHT_HEIGHT(1) |
            ORK_CNA_WEIGHT_SIZE2_WEIGHT_KERNELS(g->cols));
    put_cna_banks(w, g);
    PUT(CNA, CBUF_CON1, ORK_CNA_CBUF_CON1_DATA_ENTRIES((kernel_bytes + 63) / 64));
}

static void put_cna_convert(struct writer *w)
{
    PUT(CNA, CVT_CON0,
        ORK_CNA_CVT_CON0_DATA_SIGN(1) | ORK_CNA_CVT_CON0_CVT_TYPE(1) |
            ORK_CNA_CVT_CON0_CVT_BYPASS(1));
    PUT(CNA, CVT_CON1, ORK_CNA_CVT_CON1_SCALE(1));
    PUT(CNA, CVT_CON2, ORK_CNA_CVT_CON2_SCALE(1));
    PUT(CNA, CVT_CON3, ORK_CNA_CVT_CON3_SCALE(1));
    PUT(CNA, CVT_CON4, ORK_CNA_CVT_CON4_SCALE(1));
    PUT(CNA, FC_CON0, 0);
    PUT(CNA, FC_CON1, 0);
    PUT(CNA, PAD_CON0, 0);
}

static void put_cna_fetch(struct writer *w, const struct ork_geometry *g,
                          const struct ork_addresses *a)
{
    PUT(CNA, FEATURE_DATA_ADDR, ORK_CNA_FEATURE_DATA_ADDR(address(a->feature)));
    PUT(CNA, FC_CON2, 0);
    PUT(CNA, DMA_CON0, ORK_CNA_DMA_CON0_WEIGHT_BURST(15) | ORK_CNA_DMA_CON0_DATA_BURST(15));
    PUT(CNA, DMA_CON1, ORK_CNA_DMA_CON1_LINE_STRIDE(g->line_stride));
    PUT(CNA, DMA_CON2, ORK_CNA_DMA_CON2_SURF_STRIDE(g->surf_stride));
    PUT(CNA, FC_DATA_SIZE0,
        ORK_CNA_FC_DATA_SIZE0_DMA_WIDTH(1) | ORK_CNA_FC_DATA_SIZE0_DMA_HEIGHT(g->lines));
    PUT(CNA, FC_DATA_SIZE1, ORK_CNA_FC_DATA_SIZE1_DMA_CHANNEL(g->depth));
    PUT(CNA, DCOMP_CTRL, 0);
    PUT(CNA, DCOMP_REGNUM, 0);
    PUT(CNA, DCOMP_ADDR0, ORK_CNA_DCOMP_ADDR0(address(a->weight)));
    put_zeros(w, ORK_TARGET_CNA, ORK_REG_CNA_DCOMP_AMOUNT0, ORK_REG_CNA_DCOMP_AMOUNT15);
    PUT(CNA, CVT_CON5, 0);
    PUT(CNA, PAD_CON1, 0);
}

static void put_core(struct writer *w, const struct ork_geometry *g)
{
    PUT(CORE, MISC_CFG,
        ORK_CORE_MISC_CFG_PROC_PRECISION(ork_type_find(g->type)->in_precision) |
            ORK_CORE_MISC_CFG_QD_EN(g->qd_en));
    PUT(CORE, DATAOUT_SIZE_0, ORK_CORE_DATAOUT_SIZE_0_DATAOUT_HEIGHT_LESS_1(g->lines - 1));
    PUT(CORE, DATAOUT_SIZE_1, ORK_CORE_DATAOUT_SIZE_1_DATAOUT_CHANNEL_LESS_1(g->cols - 1));
    PUT(CORE, CLIP_TRUNCATE, 0);
    PUT(CORE, UNNAMED_3030, 0);
}

static void put_dpu_shape(struct writer *w, const struct ork_geometry *g,
                          const struct ork_addresses *a)
{
    const struct ork_type_desc *type = ork_type_find(g->type);

    PUT(DPU, FEATURE_MODE_CFG,
        ORK_DPU_FEATURE_MODE_CFG_BURST_LEN(15) | ORK_DPU_FEATURE_MODE_CFG_OUTPUT_MODE(2));
    PUT(DPU, DATA_FORMAT,
        ORK_DPU_DATA_FORMAT_OUT_PRECISION(type->out_precision) |
            ORK_DPU_DATA_FORMAT_IN_PRECISION(type->in_precision) |
            ORK_DPU_DATA_FORMAT_PROC_PRECISION(type->in_precision));
    PUT(DPU, OFFSET_PEND, 0);
    PUT(DPU, DST_BASE_ADDR, ORK_DPU_DST_BASE_ADDR(address(a->output)));
    PUT(DPU, DST_SURF_STRIDE, ORK_DPU_DST_SURF_STRIDE_DST_SURF_STRIDE(g->dst_surf_stride));
    PUT(DPU, DATA_CUBE_WIDTH, 0);
    PUT(DPU, DATA_CUBE_HEIGHT, ORK_DPU_DATA_CUBE_HEIGHT_HEIGHT_LESS_1(g->lines - 1));
    PUT(DPU, DATA_CUBE_NOTCH,
        ORK_DPU_DATA_CUBE_NOTCH_NOTCH_1(g->notch) | ORK_DPU_DATA_CUBE_NOTCH_NOTCH_0(g->notch));
    PUT(DPU, DATA_CUBE_CHANNEL,
        ORK_DPU_DATA_CUBE_CHANNEL_ORIG_CHANNEL_LESS_1(g->cols - 1) |
            ORK_DPU_DATA_CUBE_CHANNEL_CHANNEL_LESS_1(g->cols - 1));
}

/* The per-channel stages are bypassed; what they would do is left at zero. */
static void put_dpu_stages(struct writer *w, const struct ork_geometry *g)
{
    const struct ork_type_desc *type = ork_type_find(g->type);

    PUT(DPU, BS_CFG,
        ORK_DPU_BS_CFG_RELU_BYPASS(1) | ORK_DPU_BS_CFG_MUL_BYPASS(1) |
            ORK_DPU_BS_CFG_ALU_BYPASS(1) | ORK_DPU_BS_CFG_BYPASS(1));
    put_zeros(w, ORK_TARGET_DPU, ORK_REG_DPU_BS_ALU_CFG, ORK_REG_DPU_BS_RELUX_CMP);
    PUT(DPU, BS_OW_CFG,
        ORK_DPU_BS_OW_CFG_SIZE_E_2(type->size_e) | ORK_DPU_BS_OW_CFG_SIZE_E_1(type->size_e) |
            ORK_DPU_BS_OW_CFG_SIZE_E_0(type->size_e) | ORK_DPU_BS_OW_CFG_OD_BYPASS(g->od_bypass));
    PUT(DPU, BS_OW_OP, 0);
    PUT(DPU, WDMA_SIZE_0, ORK_DPU_WDMA_SIZE_0_CHANNEL_LESS_1(g->cols - 1));
    PUT(DPU, WDMA_SIZE_1, ORK_DPU_WDMA_SIZE_1_HEIGHT_LESS_1(g->wdma_height ? g->lines - 1 : 0));
    PUT(DPU, BN_CFG,
        ORK_DPU_BN_CFG_RELU_BYPASS(1) | ORK_DPU_BN_CFG_MUL_BYPASS(1) |
            ORK_DPU_BN_CFG_ALU_BYPASS(1) | ORK_DPU_BN_CFG_BYPASS(1));
    put_zeros(w, ORK_TARGET_DPU, ORK_REG_DPU_BN_ALU_CFG, ORK_REG_DPU_BN_RELUX_CMP);
    PUT(DPU, EW_CFG,
        ORK_DPU_EW_CFG_RELU_BYPASS(1) | ORK_DPU_EW_CFG_OP_CVT_BYPASS(1) |
            ORK_DPU_EW_CFG_LUT_BYPASS(1) | ORK_DPU_EW_CFG_OP_BYPASS(1) | ORK_DPU_EW_CFG_BYPASS(1));
    PUT(DPU, EW_CVT_OFFSET, 0);
    PUT(DPU, EW_CVT_SCALE, 1);
    PUT(DPU, EW_RELUX_CMP, 0);
}

static void put_dpu_out(struct writer *w, const struct ork_geometry *g)
{
    PUT(DPU, OUT_CVT_OFFSET, 0);
    PUT(DPU, OUT_CVT_SCALE,
        ORK_DPU_OUT_CVT_SCALE_FP32TOFP16_EN(ork_type_find(g->type)->fp32tofp16) |
            ORK_DPU_OUT_CVT_SCALE_SCALE(1));
    PUT(DPU, OUT_CVT_SHIFT, 0);
    put_zeros(w, ORK_TARGET_DPU, ORK_REG_DPU_EW_OP_VALUE_0, ORK_REG_DPU_EW_OP_VALUE_7);
    PUT(DPU, SURFACE_ADD, ORK_DPU_SURFACE_ADD_SURF_ADD(g->dst_surf_add));
    PUT(DPU, UNNAMED_40C4, 0);
    put_zeros(w, ORK_TARGET_DPU, ORK_REG_DPU_LUT_ACCESS_CFG, ORK_REG_DPU_LUT_LO_SLOPE_SHIFT);
}

/* The second operand's reader, present and switched off. */
static void put_rdma(struct writer *w, const struct ork_geometry *g)
{
    PUT(RDMA, DATA_CUBE_WIDTH, 0);
    PUT(RDMA, DATA_CUBE_HEIGHT, ORK_RDMA_DATA_CUBE_HEIGHT_HEIGHT_LESS_1(g->lines - 1));
    PUT(RDMA, DATA_CUBE_CHANNEL, ORK_RDMA_DATA_CUBE_CHANNEL_CHANNEL_LESS_1(g->cols - 1));
    PUT(RDMA, SRC_BASE_ADDR, 0);
    PUT(RDMA, BRDMA_CFG, 0);
    PUT(RDMA, BS_BASE_ADDR, 0);
    PUT(RDMA, NRDMA_CFG, 0);
    PUT(RDMA, BN_BASE_ADDR, 0);
    PUT(RDMA, ERDMA_CFG, ORK_RDMA_ERDMA_CFG_DISABLE(1));
    PUT(RDMA, EW_BASE_ADDR, 0);
    PUT(RDMA, EW_SURF_STRIDE, 0);
    PUT(RDMA, FEATURE_MODE_CFG,
        ORK_RDMA_FEATURE_MODE_CFG_BURST_LEN(15) | ORK_RDMA_FEATURE_MODE_CFG_MRDMA_DISABLE(1));
    PUT(RDMA, SRC_DMA_CFG, 0);
    PUT(RDMA, SURF_NOTCH, 0);
    PUT(RDMA, PAD_CFG, 0);
    PUT(RDMA, WEIGHT,
        ORK_RDMA_WEIGHT_E_WEIGHT(1) | ORK_RDMA_WEIGHT_N_WEIGHT(1) | ORK_RDMA_WEIGHT_B_WEIGHT(1) |
            ORK_RDMA_WEIGHT_M_WEIGHT(1));
    PUT(RDMA, EW_SURF_NOTCH, 0);
}

/* REGISTER_AMOUNTS counts pairs of entries, the tail included, less one. */
static void put_tail(struct writer *w, const struct ork_recipe *r)
{
    if (r->next_iova) {
        PUT(PC, BASE_ADDRESS, ORK_PC_BASE_ADDRESS(address(r->next_iova)));
        PUT(PC, REGISTER_AMOUNTS,
            ORK_PC_REGISTER_AMOUNTS_AMOUNT((uint64_t)(r->next_entries + 1) / 2 - 1));
    } else {
        w->out[w->n++] = 0;
        PUT(PC, REGISTER_AMOUNTS, 0);
    }
    put(w, ORK_TARGET_SYNC, 0, 0);
    put(w, ORK_TARGET_ENABLE, ORK_REG_PC_OPERATION_ENABLE,
        ORK_PC_OPERATION_ENABLE_OP(1) | ORK_PC_OPERATION_ENABLE_CNA(1) |
            ORK_PC_OPERATION_ENABLE_CORE_DPU(1) | ORK_PC_OPERATION_ENABLE_DPU_RDMA(r->rdma_block));
}

uint32_t ork_regcmd_entries(bool rdma_block)
{
    return (rdma_block ? 126u : 108u) + ORK_TAIL_ENTRIES;
}

int ork_regcmd_emit(const struct ork_geometry *g, const struct ork_addresses *a,
                    const struct ork_recipe *r, uint64_t *out, uint32_t *bad_reg)
{
    struct writer writer = {.out = out}, *w = &writer;

    put_cna_banks(w, g);
    PUT(CNA, DCOMP_REGNUM, 0);
    PUT(CNA, DCOMP_CTRL, 0);
    put_cna_mode(w, g);
    put_s_pointer(w, r->rdma_block);
    put_cna_mode(w, g);
    put_cna_sizes(w, g);
    put_cna_convert(w);
    put_cna_fetch(w, g, a);
    put_core(w, g);
    put_dpu_shape(w, g, a);
    put_dpu_stages(w, g);
    put_dpu_out(w, g);
    if (r->rdma_block)
        put_rdma(w, g);
    put_tail(w, r);
    if (bad_reg)
        *bad_reg = w->bad_reg;
    return w->bad ? -ERANGE : 0;
}
