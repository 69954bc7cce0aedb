/*
 * The command line of bmoe-mkmodel. One table is the parser, the help and the list of numbers a
 * preset's shape can be overridden with.
 */
#ifndef MK_OPTIONS_H
#define MK_OPTIONS_H

#include "base/error.h"
#include "mk_shape.h"
#include "mk_types.h"
#include "mk_write.h"

#define MK_MAX_RULES 64

/* Strings are borrowed from the command line. */
struct mk_options {
    struct mk_shape shape; /* preset and overrides */
    const char *type;      /* NULL: the preset's */
    struct mk_type_rule rules[MK_MAX_RULES];
    size_t n_rules;
    const char *chat_template; /* a file's name, or NULL */
    bool tied;
    bool fused;
    bool mtp;
    bool list; /* print the tensors, write nothing */
    bool help;
    struct mk_write_options write;
};

/* Parses argv; BMOE_E_MISUSE with a sentence for whatever is wrong. Splits the rules in argv in
 * place. */
int mk_options_parse(struct mk_options *options, int argc, char **argv, struct bmoe_error *error);

/* Prints the help and the presets on stdout. */
void mk_options_help(void);

#endif
