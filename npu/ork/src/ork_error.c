/* The only place that writes an ork_error. */
#include "ork_error.h"

#include <stdarg.h>
#include <stdio.h>

int ork_fail(struct ork_error *error, int code, const char *format, ...)
{
    va_list args;

    if (!error)
        return code;
    error->code = code;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return code;
}
