/*
 * The program's errors: see cli_error.h. The sentence is cut, never overrun, when it is longer than
 * the struct's text.
 */
#include "cli_error.h"

#include <stdarg.h>
#include <stdio.h>

int cli_error_set(struct bmoe_error *err, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    err->code = code;
    err->scope = BMOE_SCOPE_PROCESS;
    return code;
}

int cli_error_exit_status(int code)
{
    if (code >= 0)
        return EXIT_FINE;
    return code == BMOE_E_MISUSE ? EXIT_MISUSED : EXIT_FAILED;
}
