/*
 * From the command line's values to the structs of the public API.
 */
#ifndef BMOE_CLI_SESSION_ARGS_H
#define BMOE_CLI_SESSION_ARGS_H

#include "bmoe.h"
#include "options.h"

/* Fills a session's options; strings are borrowed from o. */
void session_args_open(struct bmoe_options *out, const struct cli_options *o);

/* Fills a request's limits, sampling and stop strings; grammar may be NULL and is borrowed. The
 * prompt and the callbacks are the caller's. */
void session_args_generate(struct bmoe_generate *out, const struct cli_options *o,
                           const char *grammar);

#endif
