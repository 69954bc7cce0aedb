/* Overflow checks by the compiler's own primitives, so that the arithmetic stays readable. */
#include "base/checked.h"

bool checked_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool checked_align_u64(uint64_t value, uint64_t align, uint64_t *out)
{
    uint64_t sum;
    if (!checked_add_u64(value, align - 1, &sum))
        return false;
    *out = sum & ~(align - 1);
    return true;
}
