/*
 * Filling struct bmoe_error, the one way errors travel. Calls answer the code they set, so that
 * `return error_set(err, BMOE_E_IO, BMOE_SCOPE_SESSION, "...")` is one statement. err may be NULL.
 */
#ifndef BMOE_BASE_ERROR_H
#define BMOE_BASE_ERROR_H

#include "bmoe.h"

/* Sets code, scope and the printf-formatted sentence; returns code. */
int error_set(struct bmoe_error *err, int code, enum bmoe_scope scope, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* As error_set with ": " and the text of errno value errnum at the end. */
int error_set_errno(struct bmoe_error *err, int code, enum bmoe_scope scope, int errnum,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
