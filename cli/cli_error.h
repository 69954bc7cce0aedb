/*
 * Errors of the program: struct bmoe_error of the public API, filled with the program's own
 * sentences, and the one place where an error code becomes an exit status.
 */
#ifndef BMOE_CLI_ERROR_H
#define BMOE_CLI_ERROR_H

#include "bmoe.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2, EXIT_SIGNALLED = 128 };

/* Sets code and the printf-formatted sentence; returns code. */
int cli_error_set(struct bmoe_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A code's name for programs: "io", "context"; and a scope's: "request". */
const char *cli_error_code_name(int code);
const char *cli_error_scope_name(enum bmoe_scope scope);

/* The exit status of a program that ends with this code: misuse 2, any other failure 1. */
int cli_error_exit_status(int code);

#endif
