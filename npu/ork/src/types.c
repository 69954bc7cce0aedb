/* The rows of the type table. */
#include "types.h"

#include <stddef.h>

#include "ork_regs.h"

static const struct ork_type_desc table[ORK_N_TYPES] = {
    [ORK_I8_I32] = {.name = "int8->int32",
                    .in_bits = 8,
                    .host_bytes = 1,
                    .out_bytes = 4,
                    .acc_bytes = 4,
                    .feature_c2 = 16,
                    .kernels = 32,
                    .out_c2 = 4,
                    .out_atoms = 8,
                    .in_precision = ORK_PRECISION_INT8,
                    .out_precision = ORK_PRECISION_INT32,
                    .size_e = 7,
                    .od_bypass = 1,
                    .slack_banks = 1,
                    .min_weight_banks = 1},
    [ORK_I4_I16] = {.name = "int4->int16",
                    .in_bits = 4,
                    .host_bytes = 1,
                    .out_bytes = 2,
                    .acc_bytes = 4,
                    .feature_c2 = 32,
                    .kernels = 64,
                    .out_c2 = 8,
                    .out_atoms = 8,
                    .in_precision = ORK_PRECISION_INT4,
                    .out_precision = ORK_PRECISION_INT16,
                    .size_e = 7,
                    .od_bypass = 1,
                    .min_weight_banks = 1},
    [ORK_F16_F32] = {.name = "fp16->fp32",
                     .in_bits = 16,
                     .host_bytes = 2,
                     .out_bytes = 4,
                     .acc_bytes = 4,
                     .feature_c2 = 8,
                     .kernels = 16,
                     .out_c2 = 4,
                     .out_atoms = 4,
                     .in_precision = ORK_PRECISION_FP16,
                     .out_precision = ORK_PRECISION_FP32,
                     .size_e = 3,
                     .od_bypass = 1,
                     .qd_en = 1,
                     .min_weight_banks = 2},
    [ORK_F16_F16] = {.name = "fp16->fp16",
                     .in_bits = 16,
                     .host_bytes = 2,
                     .out_bytes = 2,
                     .acc_bytes = 2,
                     .feature_c2 = 8,
                     .kernels = 16,
                     .out_c2 = 8,
                     .out_atoms = 2,
                     .in_precision = ORK_PRECISION_FP16,
                     .out_precision = ORK_PRECISION_FP16,
                     .size_e = 1,
                     .od_bypass = 1,
                     .qd_en = 1,
                     .fp32tofp16 = 1,
                     .min_weight_banks = 2},
};

const struct ork_type_desc *ork_type_find(enum ork_type type)
{
    return (unsigned)type < ORK_N_TYPES ? &table[type] : NULL;
}
