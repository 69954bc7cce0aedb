/*
 * The texts whose perplexity is asked for, all read before the model is opened, so that a wrong
 * path costs no load.
 */
#ifndef BMOE_CLI_PPL_TEXTS_H
#define BMOE_CLI_PPL_TEXTS_H

#include "cli_text.h"
#include "options.h"

struct ppl_text {
    char *path; /* heap */
    struct cli_text text;
};

struct ppl_texts {
    struct ppl_text *at;
    size_t n;
};

/* Reads the file of --ppl, or those that the file of --ppl-list names. */
int ppl_texts_read(struct ppl_texts *out, const struct cli_options *o, struct bmoe_error *err);
void ppl_texts_fini(struct ppl_texts *t);

#endif
