/*
 * The parts the index is made of, shared by the files of this folder only: struct gguf_index, and
 * the steps of opening one. gguf_index.h is what others include.
 */
#ifndef BMOE_MODEL_GGUF_PARTS_H
#define BMOE_MODEL_GGUF_PARTS_H

#include "model/gguf_index.h"
#include "model/gguf_meta.h"

/* Every tensor lies whole inside its shard, no two overlap, no two have one name. */
struct gguf_index {
    struct strings strings;
    struct gguf_meta meta; /* the first shard's */
    const char *arch;
    uint64_t tensors_at, tensors_end; /* the first shard's descriptions, in its file */
    struct gguf_shard *shards;        /* owned */
    uint32_t n_shards;
    struct gguf_tensor *tensors; /* owned; in file order, shard by shard */
    uint32_t n_tensors, tensors_room;
    struct names by_name;
};

/* gguf_split.c: from a path the paths of all shards. n_shards 1 for a name without
 * "-00001-of-0000N.gguf"; all missing shards are named in one refusal. */
int gguf_split_paths(struct gguf_index *x, const char *path, struct bmoe_error *err);
/* The split.* keys of shard i agree with its name. */
int gguf_split_check(const struct gguf_index *x, uint32_t i, const struct gguf_meta *m,
                     struct bmoe_error *err);
/* split.tensors.count agrees with what was found. */
int gguf_split_check_total(const struct gguf_index *x, struct bmoe_error *err);

/* gguf_tensors.c: reads n_tensors descriptions of shard i and sets the shard's data_offset. */
int gguf_tensors_read(struct gguf_index *x, uint32_t shard, struct gguf_file *f,
                      const struct gguf_meta *m, uint64_t n_tensors, struct bmoe_error *err);
/* Hashes the names; refuses one that is there twice. */
int gguf_tensors_hash(struct gguf_index *x, struct bmoe_error *err);

/* gguf_check.c: values that libllama or ggml would abort on. */
int gguf_check_model(const struct gguf_index *x, struct bmoe_error *err);
/* gguf_rope.c: those of the position encoding. */
int gguf_check_rope(const struct gguf_index *x, struct bmoe_error *err);
/* gguf_vocab.c: the same for the tokenizer's keys. */
int gguf_check_vocab(const struct gguf_index *x, struct bmoe_error *err);

#endif
