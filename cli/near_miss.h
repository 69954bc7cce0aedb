/*
 * The option a mistyped one was probably meant to be.
 */
#ifndef BMOE_CLI_NEAR_MISS_H
#define BMOE_CLI_NEAR_MISS_H

#include <stddef.h>

/* The offered option whose name is nearest to the first `bytes` bytes of text (its dashes do not
 * count), or NULL when none is near: at most a third of the letters may differ. */
const char *near_miss_find(const char *text, size_t bytes);

/* Letters to insert, delete or replace, or neighbours to swap, to make b of a; words longer than 40
 * letters are 1000 apart from everything. */
unsigned near_miss_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

#endif
