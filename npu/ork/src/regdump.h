/* A program as text, one entry a line: block, register, value, its fields by name. */
#ifndef ORK_REGDUMP_H
#define ORK_REGDUMP_H

#include <stddef.h>
#include <stdint.h>

/* Writes at most size bytes (terminated when size > 0); returns the length the whole text has,
 * like snprintf. Unknown targets and registers are printed as numbers, never skipped. */
size_t ork_regdump(const uint64_t *entries, size_t n, char *text, size_t size);

#endif
