/*
 * The option table for programs: what options there are (--describe-params), and what a command
 * line comes to (--show-config). Both are JSON on standard output.
 */
#ifndef BMOE_CLI_CONFIG_JSON_H
#define BMOE_CLI_CONFIG_JSON_H

#include "options.h"
#include "output.h"

/* Writes a JSON schema of an object with an option's value per name (without its dashes). */
int config_json_describe(struct output *out, struct bmoe_error *err);

/* True when the command line asks for --show-config, whatever else is wrong with it. */
bool config_json_wanted(int argc, char **argv);

/* Writes {"valid", "error", "args", "config"}: whether the command line is right (rc of
 * options_parse, and its sentence), its words, and the value of every option. Answers 0, or a
 * negative code when writing failed. */
int config_json_show(struct output *out, const struct cli_options *o, int rc,
                     const struct bmoe_error *parsed, int argc, char **argv,
                     struct bmoe_error *err);

#endif
