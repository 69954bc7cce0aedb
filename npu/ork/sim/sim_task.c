/* Reads a matrix product out of register values and refuses what the chip would not survive.
 *
 * Checks run from the blocks' fixed settings to shapes, capacity and output geometry; the first
 * that fails names its register. Evidence for each rule is in docs/npu.md. */
#include "sim_task.h"

#include <string.h>

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof *(a))

enum {
    BANK_BYTES = 32768,
    N_BANKS = 12,
    MAX_N = 8192,
    ENABLE_PLAIN = 0x0d,     /* op, CNA, CORE and DPU */
    ENABLE_WITH_RDMA = 0x1d, /* ... and DPU_RDMA */
    ENABLE_RDMA_BIT = 0x10
};

static const struct sim_type types[] = {
    {"int8 -> int32", ORK_PRECISION_INT8, ORK_PRECISION_INT32, 8, 32, 4, SIM_RAW_INT32},
    {"int8 -> int16", ORK_PRECISION_INT8, ORK_PRECISION_INT16, 8, 32, 2, SIM_TO_INT16},
    {"int8 -> int8", ORK_PRECISION_INT8, ORK_PRECISION_INT8, 8, 32, 1, SIM_TO_INT8},
    {"int8 -> fp32", ORK_PRECISION_INT8, ORK_PRECISION_FP32, 8, 32, 4, SIM_INT_TO_FP32},
    {"int4 -> int16", ORK_PRECISION_INT4, ORK_PRECISION_INT16, 4, 64, 2, SIM_TO_INT16},
    {"fp16 -> fp32", ORK_PRECISION_FP16, ORK_PRECISION_FP32, 16, 16, 4, SIM_FP32},
    {"fp16 -> fp16", ORK_PRECISION_FP16, ORK_PRECISION_FP16, 16, 16, 2, SIM_FP16},
};

/* Registers that must be known, and bits of them that must have one value. */
struct fixed_rule {
    uint32_t reg, mask, want;
    enum sim_fault_kind kind;
    const char *why;
};

static const struct fixed_rule fixed_rules[] = {
    {ORK_REG_CNA_CONV_CON1, 0xdfffc00f, 0, SIM_FAULT_UNSUPPORTED,
     "only direct, aligned, non-image convolution is modelled"},
    {ORK_REG_CNA_CONV_CON2, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_CONV_CON3, 0x3f, 0x9, SIM_FAULT_UNSUPPORTED, "strides other than 1"},
    {ORK_REG_CNA_DATA_SIZE0, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_DATA_SIZE1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_DATA_SIZE2, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_DATA_SIZE3, 0xc00000, 0, SIM_FAULT_UNSUPPORTED, "surface modes"},
    {ORK_REG_CNA_WEIGHT_SIZE0, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_WEIGHT_SIZE1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_WEIGHT_SIZE2, 0x1f1f0000, 0x01010000, SIM_FAULT_UNSUPPORTED,
     "kernels larger than 1x1"},
    {ORK_REG_CNA_CBUF_CON0, 0x700, 0, SIM_FAULT_UNSUPPORTED, "fully connected data banks"},
    {ORK_REG_CNA_CBUF_CON1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_CVT_CON0, 0xb, 0xb, SIM_FAULT_UNSUPPORTED,
     "input conversion must be signed and bypassed"},
    {ORK_REG_CNA_PAD_CON0, UINT32_MAX, 0, SIM_FAULT_UNSUPPORTED, "padding"},
    {ORK_REG_CNA_FEATURE_DATA_ADDR, 0xf, 0, SIM_FAULT_FIELD, "not 16-byte aligned"},
    {ORK_REG_CNA_DMA_CON1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_DMA_CON2, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_FC_DATA_SIZE0, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_FC_DATA_SIZE1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CNA_DCOMP_CTRL, UINT32_MAX, 0, SIM_FAULT_UNSUPPORTED, "compressed weights"},
    {ORK_REG_CNA_DCOMP_ADDR0, 0xf, 0, SIM_FAULT_FIELD, "not 16-byte aligned"},
    {ORK_REG_CORE_MISC_CFG, 0x2, 0, SIM_FAULT_UNSUPPORTED, "depthwise convolution"},
    {ORK_REG_CORE_DATAOUT_SIZE_0, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CORE_DATAOUT_SIZE_1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_CORE_CLIP_TRUNCATE, UINT32_MAX, 0, SIM_FAULT_UNSUPPORTED, "accumulator truncation"},
    {ORK_REG_DPU_S_POINTER, 0xe, 0xe, SIM_FAULT_UNSUPPORTED, "shadow groups must alternate"},
    {ORK_REG_DPU_FEATURE_MODE_CFG, 0x1f, 0x4, SIM_FAULT_UNSUPPORTED,
     "the accumulator must be the source and memory the destination"},
    {ORK_REG_DPU_DATA_FORMAT, 0x03fffff8, 0, SIM_FAULT_UNSUPPORTED, "multiplier shifts"},
    {ORK_REG_DPU_OFFSET_PEND, UINT32_MAX, 0, SIM_FAULT_UNSUPPORTED, "output offset"},
    {ORK_REG_DPU_DST_BASE_ADDR, 0xf, 0, SIM_FAULT_FIELD, "not 16-byte aligned"},
    {ORK_REG_DPU_DST_SURF_STRIDE, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_DATA_CUBE_WIDTH, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_DATA_CUBE_HEIGHT, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_DATA_CUBE_NOTCH, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_DATA_CUBE_CHANNEL, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_BS_CFG, 0x1, 0x1, SIM_FAULT_UNSUPPORTED, "the bias stage must be bypassed"},
    {ORK_REG_DPU_BS_OW_CFG, 0x08000001, 0, SIM_FAULT_UNSUPPORTED, "transposed output"},
    {ORK_REG_DPU_WDMA_SIZE_0, 0x0fff0000, 0, SIM_FAULT_UNSUPPORTED, "transposed output"},
    {ORK_REG_DPU_WDMA_SIZE_1, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_BN_CFG, 0x1, 0x1, SIM_FAULT_UNSUPPORTED, "the batch norm stage must be bypassed"},
    {ORK_REG_DPU_EW_CFG, 0x1, 0x1, SIM_FAULT_UNSUPPORTED,
     "the element-wise stage must be bypassed"},
    {ORK_REG_DPU_OUT_CVT_OFFSET, UINT32_MAX, 0, SIM_FAULT_UNSUPPORTED, "output offset"},
    {ORK_REG_DPU_OUT_CVT_SCALE, 0, 0, SIM_FAULT_FIELD, ""},
    {ORK_REG_DPU_OUT_CVT_SHIFT, 0xfffff000, 0, SIM_FAULT_UNSUPPORTED, "only a plain shift"},
    {ORK_REG_DPU_SURFACE_ADD, 0, 0, SIM_FAULT_FIELD, ""},
};

/* What each check works on. */
struct reading {
    struct sim_task *task;
    const struct sim_regfile *regs;
    uint32_t enable;
    struct sim_fault *fault;
};

static uint32_t get(const struct reading *r, uint32_t reg)
{
    return sim_reg_get(r->regs, reg);
}

static int refuse(const struct reading *r, enum sim_fault_kind kind, uint32_t reg, const char *why)
{
    return sim_fault_set(r->fault, kind, reg, get(r, reg), "%s", why);
}

/* Compares a register with the one value that fits the rest of the program. */
static int expect(const struct reading *r, uint32_t reg, uint64_t want)
{
    if (get(r, reg) == want)
        return 0;
    return sim_fault_set(r->fault, SIM_FAULT_MISMATCH, reg, get(r, reg),
                         "the other registers of the program imply 0x%llx",
                         (unsigned long long)want);
}

/* The first failing expectation of a list. */
struct expectation {
    uint32_t reg;
    uint64_t want;
};

static int expect_all(const struct reading *r, const struct expectation *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int err = expect(r, list[i].reg, list[i].want);
        if (err)
            return err;
    }
    return 0;
}

static int check_fixed(const struct reading *r)
{
    for (size_t i = 0; i < ARRAY_LENGTH(fixed_rules); i++) {
        const struct fixed_rule *rule = &fixed_rules[i];
        if (!sim_reg_known(r->regs, rule->reg))
            return refuse(r, SIM_FAULT_HANG, rule->reg, "never written in this job");
        if ((get(r, rule->reg) & rule->mask) != rule->want)
            return refuse(r, rule->kind, rule->reg, rule->why);
    }
    return 0;
}

static bool all_fresh(const struct sim_regfile *regs)
{
    for (size_t i = 0; i < ARRAY_LENGTH(fixed_rules); i++)
        if (!sim_reg_fresh(regs, fixed_rules[i].reg))
            return false;
    return true;
}

static int check_enable(const struct reading *r)
{
    uint32_t memory_read = get(r, ORK_REG_RDMA_FEATURE_MODE_CFG);
    if (r->enable != ENABLE_PLAIN && r->enable != ENABLE_WITH_RDMA)
        return sim_fault_set(r->fault,
                             (r->enable & ENABLE_PLAIN) == ENABLE_PLAIN ? SIM_FAULT_UNSUPPORTED
                                                                        : SIM_FAULT_HANG,
                             ORK_REG_PC_OPERATION_ENABLE, r->enable,
                             "a matrix product starts with block mask 0x0d or 0x1d");
    if (!(r->enable & ENABLE_RDMA_BIT))
        return 0;
    if (!sim_reg_known(r->regs, ORK_REG_RDMA_FEATURE_MODE_CFG) ||
        !ORK_GET_RDMA_FEATURE_MODE_CFG_MRDMA_DISABLE(memory_read))
        return refuse(r, SIM_FAULT_HANG, ORK_REG_RDMA_FEATURE_MODE_CFG,
                      "the mask starts DPU_RDMA but MRDMA is not disabled: the DPU waits for ever");
    if (!ORK_GET_RDMA_ERDMA_CFG_DISABLE(get(r, ORK_REG_RDMA_ERDMA_CFG)))
        return refuse(r, SIM_FAULT_HANG, ORK_REG_RDMA_ERDMA_CFG,
                      "the mask starts DPU_RDMA but its operand reader is not disabled");
    return 0;
}

static int read_type(const struct reading *r)
{
    uint32_t con1 = get(r, ORK_REG_CNA_CONV_CON1);
    uint32_t format = get(r, ORK_REG_DPU_DATA_FORMAT);
    uint32_t in = ORK_GET_CNA_CONV_CON1_IN_PRECISION(con1);
    uint32_t out = ORK_GET_DPU_DATA_FORMAT_OUT_PRECISION(format);
    if (ORK_GET_CNA_CONV_CON1_PROC_PRECISION(con1) != in)
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_CNA_CONV_CON1,
                      "both operands are read in one precision");
    if (ORK_GET_CORE_MISC_CFG_PROC_PRECISION(get(r, ORK_REG_CORE_MISC_CFG)) != in)
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_CORE_MISC_CFG,
                      "not the precision the operands are fetched in");
    if (ORK_GET_DPU_DATA_FORMAT_IN_PRECISION(format) != in ||
        ORK_GET_DPU_DATA_FORMAT_PROC_PRECISION(format) != in)
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_DPU_DATA_FORMAT,
                      "not the precision the operands are fetched in");
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        if (types[i].in_precision == in && types[i].out_precision == out)
            r->task->type = &types[i];
    if (!r->task->type)
        return refuse(r, SIM_FAULT_UNSUPPORTED, ORK_REG_DPU_DATA_FORMAT,
                      "no matrix product has this pair of operand and result types");
    return 0;
}

static int read_shape(const struct reading *r)
{
    struct sim_task *t = r->task;
    uint32_t size0 = get(r, ORK_REG_CNA_DATA_SIZE0);
    t->width = ORK_GET_CNA_DATA_SIZE0_DATAIN_WIDTH(size0);
    t->height = ORK_GET_CNA_DATA_SIZE0_DATAIN_HEIGHT(size0);
    t->rows = t->width * t->height;
    t->k = ORK_GET_CNA_DATA_SIZE1_CHANNEL(get(r, ORK_REG_CNA_DATA_SIZE1));
    t->n = ORK_GET_CNA_WEIGHT_SIZE2_WEIGHT_KERNELS(get(r, ORK_REG_CNA_WEIGHT_SIZE2));
    if (!t->rows)
        return refuse(r, SIM_FAULT_HANG, ORK_REG_CNA_DATA_SIZE0, "no rows");
    if (!t->k || t->k % 32)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_CNA_DATA_SIZE1, "K must be a multiple of 32");
    if (!t->n || t->n % t->type->group_kernels)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_CNA_WEIGHT_SIZE2,
                      "N must be a multiple of the kernel group of its type");
    if (t->n > MAX_N)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_CNA_WEIGHT_SIZE2,
                      "more than 8192 columns overflow the channel fields");
    t->cells = t->k * t->type->in_bits / 128;
    t->surfaces = t->type->group_kernels * t->type->out_bytes / 16;
    return 0;
}

/* Every other register that repeats the shape. */
static int check_shape_agrees(const struct reading *r)
{
    const struct sim_task *t = r->task;
    uint64_t kernel_bytes = (uint64_t)t->k * t->type->in_bits / 8;
    uint32_t size = (t->height - 1) << 16 | (t->width - 1);
    const struct expectation list[] = {
        {ORK_REG_CNA_DATA_SIZE1, (t->k - 1) << 16 | t->k},
        {ORK_REG_CNA_DATA_SIZE2, t->width},
        {ORK_REG_CNA_DATA_SIZE3, t->rows},
        {ORK_REG_CNA_WEIGHT_SIZE0, kernel_bytes * t->n},
        {ORK_REG_CNA_WEIGHT_SIZE1, kernel_bytes},
        {ORK_REG_CNA_CBUF_CON1, (kernel_bytes + 63) / 64},
        {ORK_REG_CNA_FC_DATA_SIZE0, get(r, ORK_REG_CNA_DATA_SIZE0)},
        {ORK_REG_CNA_FC_DATA_SIZE1, t->k},
        {ORK_REG_CORE_DATAOUT_SIZE_0, size},
        {ORK_REG_CORE_DATAOUT_SIZE_1, t->n - 1},
        {ORK_REG_DPU_DATA_CUBE_WIDTH, t->width - 1},
        {ORK_REG_DPU_DATA_CUBE_HEIGHT, t->height - 1},
        {ORK_REG_DPU_DATA_CUBE_CHANNEL, (t->n - 1) << 16 | (t->n - 1)},
        {ORK_REG_DPU_WDMA_SIZE_0, t->n - 1},
    };
    const struct expectation reader[] = {
        {ORK_REG_RDMA_DATA_CUBE_WIDTH, t->width - 1},
        {ORK_REG_RDMA_DATA_CUBE_HEIGHT, t->height - 1},
        {ORK_REG_RDMA_DATA_CUBE_CHANNEL, t->n - 1},
    };
    int err = expect_all(r, list, ARRAY_LENGTH(list));
    if (!err && r->enable & ENABLE_RDMA_BIT)
        err = expect_all(r, reader, ARRAY_LENGTH(reader));
    return err;
}

static int read_capacity(const struct reading *r)
{
    struct sim_task *t = r->task;
    uint32_t con0 = get(r, ORK_REG_CNA_CBUF_CON0);
    uint64_t kernel_bytes = (uint64_t)t->k * t->type->in_bits / 8;
    uint64_t data_bytes = kernel_bytes * t->rows;
    bool cube = !ORK_GET_CNA_CONV_CON1_GROUP_LINE_OFF(get(r, ORK_REG_CNA_CONV_CON1));
    t->data_banks = ORK_GET_CNA_CBUF_CON0_DATA_BANK(con0);
    t->weight_banks = ORK_GET_CNA_CBUF_CON0_WEIGHT_BANK(con0);
    t->data_reuse = ORK_GET_CNA_CBUF_CON0_DATA_REUSE(con0);
    t->weight_reuse = ORK_GET_CNA_CBUF_CON0_WEIGHT_REUSE(con0);
    if (!t->data_banks || !t->weight_banks || t->data_banks + t->weight_banks != N_BANKS)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_CNA_CBUF_CON0,
                      "data and weight banks must share out all 12");
    if (data_bytes > (uint64_t)t->data_banks * BANK_BYTES)
        return refuse(r, SIM_FAULT_HANG, ORK_REG_CNA_CBUF_CON0,
                      "more rows than the data banks hold");
    if (t->type->in_precision == ORK_PRECISION_FP16 && t->weight_banks == 1 && t->n <= 32)
        return refuse(r, SIM_FAULT_HANG, ORK_REG_CNA_CBUF_CON0,
                      "narrow fp16 weights with one weight bank never finish");
    t->without_slack_bank =
        cube && t->type->in_bits == 8 && data_bytes > (uint64_t)(t->data_banks - 1) * BANK_BYTES;
    t->group_exceeds_banks =
        kernel_bytes * t->type->group_kernels > (uint64_t)t->weight_banks * BANK_BYTES;
    return 0;
}

static int read_input(const struct reading *r)
{
    struct sim_task *t = r->task;
    bool ungrouped = ORK_GET_CNA_CONV_CON1_GROUP_LINE_OFF(get(r, ORK_REG_CNA_CONV_CON1));
    if (ungrouped && t->type->in_bits == 4)
        return refuse(r, SIM_FAULT_UNSUPPORTED, ORK_REG_CNA_CONV_CON1,
                      "nobody has seen int4 rows read flat");
    t->feature_address = get(r, ORK_REG_CNA_FEATURE_DATA_ADDR);
    t->weight_address = get(r, ORK_REG_CNA_DCOMP_ADDR0);
    t->lines_per_group = ungrouped ? 1 : 4;
    t->line_stride = ORK_GET_CNA_DMA_CON1_LINE_STRIDE(get(r, ORK_REG_CNA_DMA_CON1));
    t->cell_stride = (int64_t)t->lines_per_group * t->width +
                     ORK_GET_CNA_DMA_CON2_SURF_STRIDE(get(r, ORK_REG_CNA_DMA_CON2));
    return 0;
}

static int read_scale(const struct reading *r)
{
    struct sim_task *t = r->task;
    uint32_t scale = get(r, ORK_REG_DPU_OUT_CVT_SCALE);
    bool to_fp16 = ORK_GET_DPU_OUT_CVT_SCALE_FP32TOFP16_EN(scale);
    t->out_scale = ORK_GET_DPU_OUT_CVT_SCALE_SCALE(scale);
    t->out_shift = ORK_GET_DPU_OUT_CVT_SHIFT_SHIFT(get(r, ORK_REG_DPU_OUT_CVT_SHIFT));
    if (to_fp16 != (t->type->convert == SIM_FP16))
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_DPU_OUT_CVT_SCALE,
                      "the fp16 conversion belongs to fp16 results and to them only");
    if (t->out_shift > 31)
        return refuse(r, SIM_FAULT_FIELD, ORK_REG_DPU_OUT_CVT_SHIFT, "shifts by more than 31");
    if (t->type->in_precision == ORK_PRECISION_FP16 && (t->out_scale != 1 || t->out_shift))
        return refuse(r, SIM_FAULT_UNSUPPORTED, ORK_REG_DPU_OUT_CVT_SCALE,
                      "scaling of a floating point result");
    return 0;
}

static int read_output(const struct reading *r)
{
    struct sim_task *t = r->task;
    uint32_t notch = get(r, ORK_REG_DPU_DATA_CUBE_NOTCH);
    uint32_t ow = get(r, ORK_REG_DPU_BS_OW_CFG);
    uint32_t size_e = ORK_GET_DPU_BS_OW_CFG_SIZE_E_0(ow);
    uint32_t written = (t->height - 1) << 16 | (t->width - 1);
    uint32_t wdma = get(r, ORK_REG_DPU_WDMA_SIZE_1);
    if (ORK_GET_DPU_DATA_CUBE_NOTCH_NOTCH_0(notch) != ORK_GET_DPU_DATA_CUBE_NOTCH_NOTCH_1(notch))
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_DPU_DATA_CUBE_NOTCH, "the halves differ");
    if (ORK_GET_DPU_BS_OW_CFG_SIZE_E_1(ow) != size_e ||
        ORK_GET_DPU_BS_OW_CFG_SIZE_E_2(ow) != size_e)
        return refuse(r, SIM_FAULT_MISMATCH, ORK_REG_DPU_BS_OW_CFG, "the three sizes differ");
    if (size_e + 1 != t->surfaces)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_DPU_BS_OW_CFG,
                      "not the surfaces of one kernel group: columns stay unwritten");
    t->computation_order = !wdma && t->rows > 1;
    if (t->computation_order && t->type->in_bits != 4)
        return refuse(r, SIM_FAULT_CORRUPT, ORK_REG_DPU_WDMA_SIZE_1,
                      "zero with several rows is known for int4 only");
    if (wdma && wdma != written)
        return expect(r, ORK_REG_DPU_WDMA_SIZE_1, written);
    t->output_address = get(r, ORK_REG_DPU_DST_BASE_ADDR);
    t->out_line_pitch = (int64_t)t->width + ORK_GET_DPU_DATA_CUBE_NOTCH_NOTCH_0(notch);
    t->out_surface_stride =
        ORK_GET_DPU_DST_SURF_STRIDE_DST_SURF_STRIDE(get(r, ORK_REG_DPU_DST_SURF_STRIDE));
    t->out_group_stride = ORK_GET_DPU_SURFACE_ADD_SURF_ADD(get(r, ORK_REG_DPU_SURFACE_ADD));
    return read_scale(r);
}

int sim_task_read(struct sim_task *task, const struct sim_regfile *regs,
                  const struct sim_tail *tail, bool first, struct sim_fault *fault)
{
    static int (*const steps[])(const struct reading *) = {
        check_enable,       check_fixed,   read_type,  read_shape,
        check_shape_agrees, read_capacity, read_input, read_output,
    };
    struct reading r = {task, regs, tail->enable, fault};
    memset(task, 0, sizeof *task);
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        int err = steps[i](&r);
        if (err)
            return err;
    }
    if (!first && task->rows > 1 && !all_fresh(regs))
        return refuse(&r, SIM_FAULT_HANG, ORK_REG_CNA_DATA_SIZE0,
                      "a program that leaves registers out may compute one row only");
    return 0;
}

int64_t sim_task_feature_at(const struct sim_task *task, uint32_t row, uint32_t cell)
{
    uint32_t line = row / task->width, pixel = row % task->width;
    int64_t units = line / task->lines_per_group * task->line_stride +
                    (int64_t)(line % task->lines_per_group) * task->width + pixel +
                    cell * task->cell_stride;
    return (int64_t)task->feature_address + 16 * units;
}

int64_t sim_task_output_at(const struct sim_task *task, uint32_t row, uint32_t surface,
                           uint32_t group)
{
    uint32_t line = row / task->width, pixel = row % task->width;
    int64_t units;
    if (task->computation_order)
        units = ((int64_t)group * task->rows + row) * task->surfaces + surface;
    else
        units = group * task->out_group_stride + surface * task->out_surface_stride +
                line * task->out_line_pitch + pixel;
    return (int64_t)task->output_address + 16 * units;
}
