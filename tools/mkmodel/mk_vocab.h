/*
 * The tokenizer every synthetic model carries: sentence-piece ("llama") with <unk> <s> </s>, one
 * token for each byte, one for the space, and fillers up to the vocabulary's size. No merge leads
 * to a filler, so any text becomes bytes; a filler prints as <fN>.
 */
#ifndef MK_VOCAB_H
#define MK_VOCAB_H

#include "mk_plan.h"

#define MK_VOCAB_MIN 260

/* Adds the tokenizer's keys; chat_template is a template's text or NULL. */
int mk_vocab_add(struct mk_plan *plan, const char *chat_template, struct bmoe_error *error);

#endif
