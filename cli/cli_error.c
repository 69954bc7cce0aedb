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

const char *cli_error_code_name(int code)
{
    static const char *const names[] = {[-BMOE_OK] = "ok",
                                        [-BMOE_E_MISUSE] = "misuse",
                                        [-BMOE_E_MODEL] = "model",
                                        [-BMOE_E_IO] = "io",
                                        [-BMOE_E_MEMORY] = "memory",
                                        [-BMOE_E_CONTEXT] = "context",
                                        [-BMOE_E_CANCELLED] = "cancelled",
                                        [-BMOE_E_DEVICE] = "device",
                                        [-BMOE_E_SEAM] = "seam",
                                        [-BMOE_E_INTERNAL] = "internal"};
    int n = (int)(sizeof(names) / sizeof(names[0]));

    return code <= 0 && code > -n ? names[-code] : "internal";
}

const char *cli_error_scope_name(enum bmoe_scope scope)
{
    static const char *const names[] = {[BMOE_SCOPE_REQUEST] = "request",
                                        [BMOE_SCOPE_SESSION] = "session",
                                        [BMOE_SCOPE_PROCESS] = "process"};

    return names[scope];
}

int cli_error_exit_status(int code)
{
    if (code >= 0)
        return EXIT_FINE;
    return code == BMOE_E_MISUSE ? EXIT_MISUSED : EXIT_FAILED;
}
