/* fp16 bits <-> float without hardware help; the same bits the conversion instructions give
 * (round to nearest even, NaN quieted with its payload's upper bits kept). */
#ifndef ORK_HALF_H
#define ORK_HALF_H

#include <stdint.h>

float ork_half_to_float(uint16_t half);
uint16_t ork_half_from_float(float value);

#endif
