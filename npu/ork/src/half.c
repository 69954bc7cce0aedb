/* Subnormals go through an exact power-of-two product, so no loop shifts bits. */
#include "half.h"

#include <string.h>

float ork_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 0x3ff;
    uint32_t bits;
    float value;

    if (!exponent) {
        value = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &value, sizeof(bits));
    } else if (exponent == 31) {
        bits = 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000u : 0);
    } else {
        bits = (exponent + 112) << 23 | mantissa << 13;
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The mantissa of |value| shifted right by `shift`, rounded to nearest even. */
static uint32_t shift_round(uint32_t mantissa, unsigned shift)
{
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    const uint32_t kept = mantissa >> shift;

    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t ork_half_from_float(float value)
{
    uint32_t bits, magnitude, exponent;
    uint16_t sign;

    memcpy(&bits, &value, sizeof(bits));
    sign = (uint16_t)(bits >> 16 & 0x8000);
    magnitude = bits & 0x7fffffff;
    exponent = magnitude >> 23;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000)
        return sign | 0x7c00;
    if (exponent >= 113)
        return (uint16_t)(sign | shift_round(magnitude - (112u << 23), 13));
    if (exponent < 102)
        return sign;
    return (uint16_t)(sign | shift_round((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
}
