/* The inner loops of packing, read-back and rotation, one table per instruction set. Every table
 * gives the same bits for the same input: reductions have a fixed shape of sixteen lanes, nothing
 * is contracted into a fused multiply-add, and elementwise steps keep their order.
 *
 * A cell is 16 bytes. `step` is the distance in bytes from one cell to the next on the strided
 * side. Counts may be zero. Pointers may be unaligned. All functions are pure. */
#ifndef ORK_KERNELS_H
#define ORK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORK_REDUCE_LANES 16

struct ork_kernels {
    const char *name;
    /* n contiguous cells -> strided cells. */
    void (*cells_put)(uint8_t *dst, size_t step, const uint8_t *src, size_t n);
    /* n strided cells -> contiguous. */
    void (*cells_get)(uint8_t *dst, const uint8_t *src, size_t step, size_t n);
    /* n blocks of 32 int4 codes, one per int8_t -> strided cells, even index in the low nibble. */
    void (*nibbles_put)(uint8_t *dst, size_t step, const int8_t *codes, size_t n);
    /* The reverse, sign-extended. */
    void (*nibbles_get)(int8_t *codes, const uint8_t *src, size_t step, size_t n);
    /* acc[i] += strided cells' elements; the int16 one returns how many were at a bound. */
    void (*add_i32)(int32_t *acc, const uint8_t *src, size_t step, size_t n);
    size_t (*add_i16)(int32_t *acc, const uint8_t *src, size_t step, size_t n);
    void (*add_f32)(float *acc, const uint8_t *src, size_t step, size_t n);
    void (*add_f16)(float *acc, const uint8_t *src, size_t step, size_t n);
    /* out[i] = (float)acc[i] * (a * b[i]), added to out[i] when add. */
    void (*scale)(float *out, const int32_t *acc, const float *b, float a, size_t n, bool add);
    /* sums[j] += the dot product of x and w + 32 j, 32 codes each. */
    void (*dots)(int32_t *sums, const int8_t *w, const int8_t *x, size_t n);
    /* Round to nearest even; NaN stays a quiet NaN. */
    void (*to_f16)(uint16_t *out, const float *src, size_t n);
    /* y[i] = x[i] * norm[i] (norm NULL: a copy); returns the sum of x[i]^2, lane i % 16 first. */
    float (*norm_mul)(float *y, const float *x, const float *norm, size_t n);
    /* Unnormalised Walsh-Hadamard transform of each whole block, stages h = 1, 2, 4, ... */
    void (*fwht)(float *x, size_t n, size_t block);
    /* Largest |x[i]|, NaN passed over; 0 for n = 0. */
    float (*absmax)(const float *x, size_t n);
    /* codes[i] = x[i] * inv rounded half away from zero and clamped to +-limit; NaN gives 0. */
    void (*quantise)(int8_t *codes, const float *x, float inv, float limit, size_t n);
};

const struct ork_kernels *ork_kernels_scalar(void);
/* NULL where the program was not built for that instruction set or the processor lacks it. */
const struct ork_kernels *ork_kernels_avx2(void);
const struct ork_kernels *ork_kernels_avx512(void);
const struct ork_kernels *ork_kernels_neon(void);
/* The fastest one this processor runs. */
const struct ork_kernels *ork_kernels_best(void);

#endif
