/*
 * Arithmetic on numbers that come from outside: true and *out set when the result fits, else false.
 */
#ifndef BMOE_BASE_CHECKED_H
#define BMOE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool checked_add_u64(uint64_t a, uint64_t b, uint64_t *out);
bool checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
/* Rounds up to a multiple of align, a power of two. */
bool checked_align_u64(uint64_t value, uint64_t align, uint64_t *out);

#endif
