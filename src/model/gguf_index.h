/*
 * Where every tensor of a GGUF model lies: shard, file offset, bytes, type, shape; plus the few
 * metadata values the engine needs before libllama sees the file. One file or a split set (names
 * ending in -00001-of-0000N.gguf; any shard names the set; symbolic links are kept as given).
 *
 * It is also the gate: everything that libllama, gguf or ggml would abort on is refused here, with
 * a sentence that names the file and what is wrong in it. All arithmetic on the file's numbers is
 * checked against the real file sizes. Reads headers only, never tensor data.
 *
 * Threads: an index is read-only after open.
 */
#ifndef BMOE_MODEL_GGUF_INDEX_H
#define BMOE_MODEL_GGUF_INDEX_H

#include "bmoe.h"

#include <sys/types.h>

struct gguf_tensor {
    const char *name;
    uint32_t type; /* enum ggml_type */
    uint32_t n_dims;
    int64_t ne[4];   /* unused dimensions are 1 */
    uint32_t shard;  /* index into the shards */
    uint64_t offset; /* in the shard's file, bytes from its start */
    uint64_t bytes;  /* whole tensor */
};

struct gguf_shard {
    const char *path;
    uint64_t file_bytes;
    uint64_t data_offset; /* where tensor data begins */
    dev_t dev;
    ino_t ino;
};

struct gguf_index;

int gguf_index_open(struct gguf_index **out, const char *path, struct bmoe_error *err);
void gguf_index_close(struct gguf_index *index);

uint32_t gguf_index_n_shards(const struct gguf_index *index);
const struct gguf_shard *gguf_index_shard(const struct gguf_index *index, uint32_t i);
uint32_t gguf_index_n_tensors(const struct gguf_index *index);
const struct gguf_tensor *gguf_index_tensor(const struct gguf_index *index, uint32_t i);
/* By name; NULL when there is none. */
const struct gguf_tensor *gguf_index_find(const struct gguf_index *index, const char *name);

/* general.architecture; never NULL. */
const char *gguf_index_arch(const struct gguf_index *index);
/* tokenizer.chat_template, or NULL. */
const char *gguf_index_chat_template(const struct gguf_index *index);
/* An unsigned metadata value by its full key, or by "%s.suffix" with the architecture put in;
 * the first element when the value is an array; def when absent. */
uint64_t gguf_index_u64(const struct gguf_index *index, const char *key, uint64_t def);
/* A string value; NULL when absent. */
const char *gguf_index_str(const struct gguf_index *index, const char *key);
/* Number of elements of an array value; 0 when absent. */
uint64_t gguf_index_array_len(const struct gguf_index *index, const char *key);

/* Writes the first shard's header without its vocabulary into an empty file, made as long as its
 * tensors need (a hole): what libllama builds the same graphs from, in a few milliseconds. */
int gguf_index_write_stripped(const struct gguf_index *index, int fd, struct bmoe_error *err);

#endif
