/*
 * Writes a plan as one gguf file or as a split set, in the layout llama-gguf-split gives it.
 */
#ifndef MK_WRITE_H
#define MK_WRITE_H

#include "mk_data.h"
#include "mk_plan.h"

struct mk_write_options {
    const char *path; /* of a set: NAME.gguf stands for NAME-00001-of-0000N.gguf ... */
    int shards;       /* >= 1 */
    bool empty_first; /* the first shard of a set holds metadata only */
    struct mk_data_options data;
};

/* Writes all files or none. Adds the split keys to the plan's metadata when there are shards. */
int mk_write(struct mk_plan *plan, const struct mk_write_options *options,
             struct bmoe_error *error);

#endif
