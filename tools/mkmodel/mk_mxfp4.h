/*
 * MXFP4 as ggml's reference encoder writes it, bit for bit, at many times its speed: that one tries
 * all 16 values of the type for each weight, and a gpt-oss of real shapes took minutes.
 */
#ifndef MK_MXFP4_H
#define MK_MXFP4_H

#include <stdint.h>

/* n weights, a multiple of 32, each finite; out: 17 bytes for each 32 of them. */
void mk_mxfp4_encode(const float *weights, int64_t n, uint8_t *out);

#endif
