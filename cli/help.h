/*
 * --help and the option section of the manual page, both made from the option table.
 */
#ifndef BMOE_CLI_HELP_H
#define BMOE_CLI_HELP_H

#include <stdio.h>

/* The text of --help. Answers 0, or -1 when a write failed. */
int help_print(FILE *out);

/* The option section of docs/bmoe.1 in roff. Answers 0, or -1 when a write failed. */
int help_print_roff(FILE *out);

#endif
