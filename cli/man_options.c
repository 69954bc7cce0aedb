/*
 * bmoe-man-options FILE: replaces the part of a manual page between its two marks by the option
 * section made from the option table; with --check FILE it changes nothing and fails when they
 * differ. A tool of the build, not installed.
 */
#include "doc_section.h"
#include "help.h"

static int print_options(FILE *out, const void *ctx)
{
    (void)ctx;
    return help_print_roff(out);
}

int main(int argc, char **argv)
{
    static const struct doc_section section = {
        .begin = ".\\\" options: made by 'make man' from the option table\n",
        .end = ".\\\" end of options\n",
        .print = print_options};

    return doc_section_main(&section, 1, "make man", argc, argv);
}
