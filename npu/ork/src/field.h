/* One command entry and one register field: how they are put together and taken apart.
 *
 * An entry is a 64-bit little-endian word: bits 63:48 the target block, 47:16 the value, 15:0
 * the register's offset [vendor captures, mesa]. A field setter yields 64 bits so that it can
 * say "does not fit" (ORK_FIELD_OVERFLOW) through any number of ORs; the emitter refuses it.
 * ork_regs.h, generated from regs/rk3588.regs, is the only user that knows bit positions. */
#ifndef ORK_FIELD_H
#define ORK_FIELD_H

#include <stdint.h>

#define ORK_FIELD_OVERFLOW (UINT64_C(1) << 63)
#define ORK_BITS(lo, n)    ((uint32_t)(((UINT64_C(1) << (n)) - 1) << (lo)))

#define ORK_ENTRY(target, reg, value)                                                              \
    ((uint64_t)(target) << 48 | (uint64_t)(uint32_t)(value) << 16 | (uint64_t)(reg))
#define ORK_ENTRY_TARGET(e) ((uint32_t)((uint64_t)(e) >> 48))
#define ORK_ENTRY_VALUE(e)  ((uint32_t)((uint64_t)(e) >> 16))
#define ORK_ENTRY_REG(e)    ((uint32_t)((uint64_t)(e)&0xffff))

static inline uint64_t ork_field(uint64_t value, unsigned lo, unsigned bits)
{
    return value >> bits ? ORK_FIELD_OVERFLOW : value << lo;
}

static inline uint64_t ork_field_signed(int64_t value, unsigned lo, unsigned bits)
{
    const int64_t half = INT64_C(1) << (bits - 1);

    if (value < -half || value >= half)
        return ORK_FIELD_OVERFLOW;
    return ((uint64_t)value & ((UINT64_C(1) << bits) - 1)) << lo;
}

static inline uint32_t ork_field_get(uint32_t reg, unsigned lo, unsigned bits)
{
    return (uint32_t)(((uint64_t)reg >> lo) & ((UINT64_C(1) << bits) - 1));
}

static inline int32_t ork_field_get_signed(uint32_t reg, unsigned lo, unsigned bits)
{
    const uint32_t raw = ork_field_get(reg, lo, bits);
    const uint32_t sign = UINT32_C(1) << (bits - 1);

    return (int32_t)((raw ^ sign) - sign);
}

#endif
