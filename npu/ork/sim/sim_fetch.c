/* Fetching: addresses as programmed, bounds before the first byte, elements widened.
 *
 * Weight layout [all open drivers agree]: kernel groups of 32 (int8), 64 (int4) or 16 (fp16); in a
 * group blocks of 32 K elements, 1024 bytes each; in a block kernel by kernel. int4: two elements
 * to a byte, the even one in the low nibble. */
#include "sim_fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { K_BLOCK = 32, BLOCK_BYTES = 1024 };

int sim_scratch_grow(union sim_panel *panel, size_t *have_bytes, size_t want_bytes)
{
    void *grown;
    if (want_bytes <= *have_bytes)
        return 0;
    grown = realloc(panel->any, want_bytes);
    if (!grown)
        return -ENOMEM;
    panel->any = grown;
    *have_bytes = want_bytes;
    return 0;
}

void sim_scratch_fini(struct sim_scratch *scratch)
{
    free(scratch->a.any);
    free(scratch->b.any);
    free(scratch->sums.any);
    memset(scratch, 0, sizeof *scratch);
}

/* Branch-free, so that loops over it vectorise: scaling by 2^112 moves the exponent and makes
 * subnormal halves normal, exactly; infinities and NaNs get their exponent back. */
float sim_half_to_float(uint16_t half)
{
    const uint32_t shifted = (uint32_t)(half & 0x7fff) << 13;
    uint32_t bits;
    float value;
    memcpy(&value, &shifted, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits = shifted >= 0x0f800000 ? shifted | 0x7f800000 : bits;
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Widens a 16-byte cell of packed elements to the panel from element `at` on. */
static inline void widen_cell(uint32_t in_bits, union sim_panel panel, size_t at,
                              const uint8_t *cell)
{
    if (in_bits == 8) {
        for (size_t i = 0; i < 16; i++)
            panel.i16[at + i] = (int8_t)cell[i];
    } else if (in_bits == 4) {
        for (size_t i = 0; i < 16; i++) {
            panel.i16[at + 2 * i] = (int16_t)(((cell[i] & 0xf) ^ 8) - 8);
            panel.i16[at + 2 * i + 1] = (int16_t)((cell[i] >> 4 ^ 8) - 8);
        }
    } else {
        for (size_t i = 0; i < 8; i++)
            panel.f32[at + i] = sim_half_to_float((uint16_t)(cell[2 * i] | cell[2 * i + 1] << 8));
    }
}

static size_t panel_element_bytes(const struct sim_task *task)
{
    return task->type->in_bits == 16 ? sizeof(float) : sizeof(int16_t);
}

/* Lowest and highest first byte of the task's feature cells. */
static void feature_span(const struct sim_task *task, int64_t *low, int64_t *high)
{
    int64_t cells = (task->cells - 1) * task->cell_stride * 16;
    *low = INT64_MAX;
    *high = INT64_MIN;
    for (uint32_t row = 0; row < task->rows; row++) {
        int64_t at = sim_task_feature_at(task, row, 0);
        *low = at < *low ? at : *low;
        *high = at > *high ? at : *high;
    }
    if (cells < 0)
        *low += cells;
    else
        *high += cells;
}

int sim_fetch_features(const struct sim_task *task, const struct sim_mem *mem,
                       struct sim_scratch *scratch, struct sim_fault *fault)
{
    size_t per_cell = task->k / task->cells;
    const struct sim_range *range;
    int64_t low, high;
    feature_span(task, &low, &high);
    range = sim_mem_find(mem, low, high - low + 16);
    if (!range)
        return sim_fault_set(fault, SIM_FAULT_READ, ORK_REG_CNA_FEATURE_DATA_ADDR,
                             task->feature_address,
                             "features reach from 0x%llx to 0x%llx, outside every buffer",
                             (long long)low, (long long)high + 15);
    if (sim_scratch_grow(&scratch->a, &scratch->a_bytes,
                         (size_t)task->rows * task->k * panel_element_bytes(task)))
        return -ENOMEM;
    for (uint32_t row = 0; row < task->rows; row++)
        for (uint32_t cell = 0; cell < task->cells; cell++) {
            int64_t at = sim_task_feature_at(task, row, cell) - (int64_t)range->iova;
            widen_cell(task->type->in_bits, scratch->a, (size_t)row * task->k + cell * per_cell,
                       range->host + at);
        }
    return 0;
}

int sim_fetch_weights(const struct sim_task *task, const struct sim_mem *mem,
                      const uint8_t **weights, struct sim_fault *fault)
{
    int64_t bytes = (int64_t)task->n * task->k * task->type->in_bits / 8;
    const struct sim_range *range = sim_mem_find(mem, task->weight_address, bytes);
    if (!range)
        return sim_fault_set(fault, SIM_FAULT_READ, ORK_REG_CNA_DCOMP_ADDR0, task->weight_address,
                             "%lld bytes of weights reach outside every buffer", (long long)bytes);
    *weights = range->host + (task->weight_address - range->iova);
    return 0;
}

/* in_bits is a constant where this is called, so that each width gets loops of its own. */
static inline __attribute__((always_inline)) void widen_group(const struct sim_task *task,
                                                              uint32_t in_bits,
                                                              const uint8_t *block,
                                                              union sim_panel panel)
{
    const size_t blocks = task->k / K_BLOCK, kernels = 8192 / (K_BLOCK * in_bits);
    const size_t cells = K_BLOCK * in_bits / 128, per_cell = 128 / in_bits;
    for (size_t b = 0; b < blocks; b++)
        for (size_t kernel = 0; kernel < kernels; kernel++)
            for (size_t cell = 0; cell < cells; cell++, block += 16)
                widen_cell(in_bits, panel, kernel * task->k + b * K_BLOCK + cell * per_cell, block);
}

void sim_fetch_group(const struct sim_task *task, const uint8_t *weights, uint32_t group,
                     struct sim_scratch *scratch)
{
    const uint8_t *block = weights + (size_t)group * (task->k / K_BLOCK) * BLOCK_BYTES;
    if (task->type->in_bits == 8)
        widen_group(task, 8, block, scratch->b);
    else if (task->type->in_bits == 4)
        widen_group(task, 4, block, scratch->b);
    else
        widen_group(task, 16, block, scratch->b);
}
