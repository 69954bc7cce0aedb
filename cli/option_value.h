/*
 * Text to value for one row of the option table: the whole text must be the number (decimal, no
 * blanks), in range, or one of the row's choices. Pure: no I/O.
 */
#ifndef BMOE_CLI_OPTION_VALUE_H
#define BMOE_CLI_OPTION_VALUE_H

#include "bmoe.h"
#include "option_table.h"

#include <stdbool.h>

/* Stores text's value at the row's place in `options` (a struct cli_options). Answers 0 or
 * BMOE_E_MISUSE with a sentence that names the option, the text and what is accepted. */
int option_value_store(const struct option_row *row, const char *text, void *options,
                       struct bmoe_error *err);

/* Whole-text numbers; false when text is anything else (a sign, a blank, NaN, an overflow). */
bool option_value_u64(const char *text, uint64_t *out);
bool option_value_double(const char *text, double *out);

/* Writes what the row accepts, for messages: "a whole number from 1 to 16 or auto". */
void option_value_describe(const struct option_row *row, char *out, size_t bytes);

#endif
