/* Rows of floats to int8 codes and a scale: what W8A8 does to weights and to activations. */
#ifndef GGML_ORK_ROW_CODES_H
#define GGML_ORK_ROW_CODES_H

#include <stdint.h>

/* codes[i] = round half away(x[i] / scale), within -127..127, scale = the largest |x[i]| / 127.
 * Returns the scale; 0 (and zero codes) for a row of zeros. A row with an infinity or a NaN has no
 * scale: NaN is returned and the codes are zero, so that a product with it is NaN. */
float row_codes_make(const float *x, uint32_t n, int8_t *codes);

#endif
