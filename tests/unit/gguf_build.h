/*
 * GGUF files made byte by byte, so that a test can make wrong ones: everything is written as asked,
 * nothing is checked. Used by the tests of the index only.
 */
#ifndef TEST_GGUF_BUILD_H
#define TEST_GGUF_BUILD_H

#include <stddef.h>
#include <stdint.h>

struct gguf_build {
    unsigned char *bytes; /* owned */
    size_t n, room;
    uint64_t n_tensors, n_values; /* counted; written by gguf_build_write */
    uint64_t data_at;             /* where the next tensor's data goes, from the data's start */
    uint64_t alignment;
};

/* Magic, version 3, room for the counts. */
void gguf_build_begin(struct gguf_build *b);
void gguf_build_free(struct gguf_build *b);

void gguf_build_raw(struct gguf_build *b, const void *bytes, size_t n);
void gguf_build_u32(struct gguf_build *b, uint32_t value);
void gguf_build_u64(struct gguf_build *b, uint64_t value);
void gguf_build_text(struct gguf_build *b, const char *text);

/* Keys with values; type: the format's number. */
void gguf_build_key(struct gguf_build *b, const char *key, uint32_t type);
void gguf_build_key_u16(struct gguf_build *b, const char *key, uint16_t value);
void gguf_build_key_u32(struct gguf_build *b, const char *key, uint32_t value);
void gguf_build_key_i32(struct gguf_build *b, const char *key, int32_t value);
void gguf_build_key_text(struct gguf_build *b, const char *key, const char *value);
/* Begins an array; the elements follow by the calls above. */
void gguf_build_key_array(struct gguf_build *b, const char *key, uint32_t item_type, uint64_t n);

/* A tensor description; its data gets the next place. bytes: of its data. */
void gguf_build_tensor(struct gguf_build *b, const char *name, uint32_t n_dims, const int64_t *ne,
                       uint32_t type, uint64_t bytes);

/* Writes the counts, then the header and data_at zero bytes of data (sparse) to a file. */
void gguf_build_write(struct gguf_build *b, const char *path);
/* Only the first n bytes of that. */
void gguf_build_write_cut(struct gguf_build *b, const char *path, uint64_t n);
/* How long the whole file is. */
uint64_t gguf_build_bytes(const struct gguf_build *b);

#endif
