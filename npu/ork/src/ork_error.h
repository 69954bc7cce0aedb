/* One sentence and a code, for every call that takes a struct ork_error. */
#ifndef ORK_ERROR_H
#define ORK_ERROR_H

#include "ork.h"

/* Fills *error when it is not NULL; returns code (a negative errno) for `return ork_fail(...)`. */
int ork_fail(struct ork_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
