/*
 * struct bmoe_error is filled here and nowhere else: the sentence is always terminated, never ends
 * in a newline, and errno's text is appended in one way.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct bmoe_error *err, int code, enum bmoe_scope scope, const char *format,
                 va_list args)
{
    err->code = code;
    err->scope = scope;
    vsnprintf(err->text, sizeof err->text, format, args);
}

int error_set(struct bmoe_error *err, int code, enum bmoe_scope scope, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, code, scope, format, args);
        va_end(args);
    }
    return code;
}

int error_set_errno(struct bmoe_error *err, int code, enum bmoe_scope scope, int errnum,
                    const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, code, scope, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        char buf[128];
        snprintf(err->text + used, sizeof err->text - used, ": %s",
                 strerror_r(errnum, buf, sizeof buf));
    }
    return code;
}
