/* From register values to one matrix product: shapes, addresses, strides, and every hazard.
 *
 * Address rules, in units of 16 bytes:
 *   feature (line h, pixel w, cell c), lines in groups of L (4, or 1 with GROUP_LINE_OFF):
 *     FEATURE_DATA_ADDR + (h / L) * LINE_STRIDE + (h % L) * W + w + c * (L * W + SURF_STRIDE)
 *   output (line h, pixel w, surface s of kernel group q):
 *     DST_BASE_ADDR + q * SURF_ADD + s * DST_SURF_STRIDE + h * (W + NOTCH) + w
 * The first explains every stride captured from three drivers [inferred, no contradiction known];
 * the second follows from cube and flat captures alike [inferred]. A multi-row int4 program with
 * WDMA_SIZE_1 = 0 stores in the order of computation instead: kernel group, line, channel
 * [inferred from two captured read-back maps]. */
#ifndef ORK_SIM_TASK_H
#define ORK_SIM_TASK_H

#include "sim_decode.h"

enum sim_convert { SIM_RAW_INT32, SIM_TO_INT16, SIM_TO_INT8, SIM_INT_TO_FP32, SIM_FP32, SIM_FP16 };

/* One row per pair of operand and result type that matrix products use. */
struct sim_type {
    const char *name;
    uint32_t in_precision, out_precision;
    uint32_t in_bits;       /* per element */
    uint32_t group_kernels; /* kernels whose weights are interleaved: 32, 64 or 16 */
    uint32_t out_bytes;
    enum sim_convert convert;
};

/* rows = width * height; cells = k * in_bits / 128; surfaces = group_kernels * out_bytes / 16.
 * Strides and pitches are in 16-byte units. */
struct sim_task {
    const struct sim_type *type;
    uint32_t width, height, rows, k, n;
    uint32_t cells, surfaces;
    uint32_t feature_address, weight_address, output_address;
    uint32_t lines_per_group;
    int64_t line_stride, cell_stride;
    int64_t out_line_pitch, out_surface_stride, out_group_stride;
    uint32_t out_scale, out_shift;
    uint32_t data_banks, weight_banks;
    bool data_reuse, weight_reuse;
    bool computation_order;   /* int4 with WDMA_SIZE_1 = 0 */
    bool without_slack_bank;  /* int8 cube that fills its banks to within one: see docs/npu.md */
    bool group_exceeds_banks; /* a kernel group larger than the weight banks */
};

/* Reads the task out of a decoded program. first: the first program of its job, in which every
 * register counts; later ones may inherit values if they compute one row. */
int sim_task_read(struct sim_task *task, const struct sim_regfile *regs,
                  const struct sim_tail *tail, bool first, struct sim_fault *fault);

/* First byte of a feature cell / output cell, relative to nothing: may be any 64-bit number. */
int64_t sim_task_feature_at(const struct sim_task *task, uint32_t row, uint32_t cell);
int64_t sim_task_output_at(const struct sim_task *task, uint32_t row, uint32_t surface,
                           uint32_t group);

#endif
