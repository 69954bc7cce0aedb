/* The output stage: scale, shift, round, saturate [inferred for int8 -> int16; proven elsewhere for
 * int8 -> int8 and int4 -> int16], then 16-byte cells to memory. */
#include "sim_store.h"

#include <string.h>

uint16_t sim_float_to_half(float value)
{
    uint32_t bits, sign, magnitude, kept, rest, halfway;
    int shift = 13;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000000)
        return (uint16_t)sign;
    if (magnitude < 0x38800000) { /* below the least normal half: a multiple of 2^-24 */
        shift = 126 - (int)(magnitude >> 23);
        magnitude = (magnitude & 0x7fffff) | 0x800000;
    } else {
        magnitude -= 112u << 23;
    }
    kept = magnitude >> shift;
    rest = magnitude & ((1u << shift) - 1);
    halfway = 1u << (shift - 1);
    if (rest > halfway || (rest == halfway && kept & 1))
        kept++;
    return (uint16_t)(sign | kept);
}

int64_t sim_shift_round(int64_t value, uint32_t shift)
{
    int64_t kept = value >> shift;
    int64_t rest = value - kept * (INT64_C(1) << shift);
    int64_t halfway = shift ? INT64_C(1) << (shift - 1) : 1;
    if (rest > halfway || (rest == halfway && kept & 1))
        kept++;
    return kept;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void put(uint8_t *out, uint32_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* One integer result; *saturated counts what ends at a bound of a narrow type. */
static uint32_t convert_int(const struct sim_task *task, int32_t sum, uint64_t *saturated)
{
    int64_t value = sim_shift_round((int64_t)sum * task->out_scale, task->out_shift);
    int64_t bound;
    switch (task->type->convert) {
    case SIM_INT_TO_FP32:
        return float_bits((float)value);
    case SIM_RAW_INT32:
        return (uint32_t)(int32_t)clamp(value, INT32_MIN, INT32_MAX);
    default:
        bound = task->type->convert == SIM_TO_INT8 ? INT8_MAX : INT16_MAX;
        value = clamp(value, -bound - 1, bound);
        *saturated += value == bound || value == -bound - 1;
        return (uint32_t)value;
    }
}

static uint64_t store_cell(const struct sim_task *task, uint8_t *cell, const union sim_panel sums,
                           size_t at)
{
    uint32_t bytes = task->type->out_bytes;
    uint64_t saturated = 0;
    for (uint32_t i = 0; i < 16 / bytes; i++, at++, cell += bytes) {
        if (task->type->convert == SIM_FP32)
            put(cell, float_bits(sums.f32[at]), 4);
        else if (task->type->convert == SIM_FP16)
            put(cell, sim_float_to_half(sums.f32[at]), 2);
        else
            put(cell, convert_int(task, sums.i32[at], &saturated), bytes);
    }
    return saturated;
}

/* Lowest and highest first byte of the task's output cells. No output stride is negative. */
static void output_span(const struct sim_task *task, int64_t *low, int64_t *high)
{
    *low = sim_task_output_at(task, 0, 0, 0);
    *high = sim_task_output_at(task, task->rows - 1, task->surfaces - 1,
                               task->n / task->type->group_kernels - 1);
}

int sim_store_open(const struct sim_task *task, const struct sim_mem *mem, struct sim_output *out,
                   struct sim_fault *fault)
{
    const struct sim_range *range;
    int64_t low, high;
    output_span(task, &low, &high);
    range = sim_mem_find(mem, low, high - low + 16);
    if (!range)
        return sim_fault_set(fault, SIM_FAULT_WRITE, ORK_REG_DPU_DST_BASE_ADDR,
                             task->output_address,
                             "the output reaches from 0x%llx to 0x%llx, outside every buffer",
                             (long long)low, (long long)high + 15);
    out->host = range->host;
    out->iova = (int64_t)range->iova;
    return 0;
}

uint64_t sim_store_group(const struct sim_task *task, const struct sim_output *out, uint32_t group,
                         const struct sim_scratch *scratch)
{
    size_t per_cell = 16 / task->type->out_bytes;
    uint64_t saturated = 0;
    for (uint32_t row = 0; row < task->rows; row++)
        for (uint32_t surface = 0; surface < task->surfaces; surface++) {
            int64_t at = sim_task_output_at(task, row, surface, group) - out->iova;
            saturated += store_cell(task, out->host + at, scratch->sums,
                                    (size_t)row * task->type->group_kernels + surface * per_cell);
        }
    return saturated;
}
