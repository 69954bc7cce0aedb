/*
 * Formats the one sentence a failure of bmoe-mkmodel is reported with. The first error stays: a
 * later one is most often a consequence of it.
 */
#include "mk_error.h"

#include <stdarg.h>
#include <stdio.h>

int mk_error_set(struct mk_error *error, int code, const char *format, ...)
{
    va_list arguments;

    if (error->code != 0)
        return error->code;
    error->code = code;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return code;
}
