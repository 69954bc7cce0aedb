/*
 * A part of a text file that is made, not written: what lies between two marks. Shared by the tools
 * that make it anew or check that nobody forgot to.
 */
#ifndef BMOE_CLI_DOC_SECTION_H
#define BMOE_CLI_DOC_SECTION_H

#include <stdio.h>

struct doc_section {
    const char *begin;                        /* the mark before it, with its line end */
    const char *end;                          /* the mark after it */
    int (*print)(FILE *out, const void *ctx); /* answers 0 */
    const void *ctx;
};

/* main of such a tool, for the n sections of a file: "TOOL FILE" renews them, "TOOL --check FILE"
 * changes nothing and fails when they differ. `made_by` is the command that renews them. */
int doc_section_main(const struct doc_section *sections, size_t n, const char *made_by, int argc,
                     char **argv);

#endif
