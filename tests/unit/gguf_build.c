/* Little-endian bytes in a growing buffer; a test that cannot allocate or write just ends. */
#include "gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gguf_build_raw(struct gguf_build *b, const void *bytes, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2;
        b->bytes = realloc(b->bytes, b->room);
        if (!b->bytes)
            abort();
    }
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static void put(struct gguf_build *b, uint64_t value, size_t n)
{
    unsigned char little[8];
    for (size_t i = 0; i < n; i++)
        little[i] = (unsigned char)(value >> 8 * i);
    gguf_build_raw(b, little, n);
}

void gguf_build_u32(struct gguf_build *b, uint32_t value)
{
    put(b, value, 4);
}

void gguf_build_u64(struct gguf_build *b, uint64_t value)
{
    put(b, value, 8);
}

void gguf_build_text(struct gguf_build *b, const char *text)
{
    put(b, strlen(text), 8);
    gguf_build_raw(b, text, strlen(text));
}

void gguf_build_begin(struct gguf_build *b)
{
    *b = (struct gguf_build){.alignment = 32};
    gguf_build_raw(b, "GGUF", 4);
    put(b, 3, 4);
    put(b, 0, 8);
    put(b, 0, 8);
}

void gguf_build_free(struct gguf_build *b)
{
    free(b->bytes);
    *b = (struct gguf_build){0};
}

void gguf_build_key(struct gguf_build *b, const char *key, uint32_t type)
{
    gguf_build_text(b, key);
    put(b, type, 4);
    b->n_values++;
}

void gguf_build_key_u16(struct gguf_build *b, const char *key, uint16_t value)
{
    gguf_build_key(b, key, 2);
    put(b, value, 2);
}

void gguf_build_key_u32(struct gguf_build *b, const char *key, uint32_t value)
{
    gguf_build_key(b, key, 4);
    put(b, value, 4);
}

void gguf_build_key_i32(struct gguf_build *b, const char *key, int32_t value)
{
    gguf_build_key(b, key, 5);
    put(b, (uint32_t)value, 4);
}

void gguf_build_key_text(struct gguf_build *b, const char *key, const char *value)
{
    gguf_build_key(b, key, 8);
    gguf_build_text(b, value);
}

void gguf_build_key_array(struct gguf_build *b, const char *key, uint32_t item_type, uint64_t n)
{
    gguf_build_key(b, key, 9);
    put(b, item_type, 4);
    put(b, n, 8);
}

void gguf_build_tensor(struct gguf_build *b, const char *name, uint32_t n_dims, const int64_t *ne,
                       uint32_t type, uint64_t bytes)
{
    gguf_build_text(b, name);
    put(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        put(b, (uint64_t)ne[i], 8);
    put(b, type, 4);
    put(b, b->data_at, 8);
    b->data_at += (bytes + b->alignment - 1) / b->alignment * b->alignment;
    b->n_tensors++;
}

uint64_t gguf_build_bytes(const struct gguf_build *b)
{
    return (b->n + b->alignment - 1) / b->alignment * b->alignment + b->data_at;
}

void gguf_build_write_cut(struct gguf_build *b, const char *path, uint64_t n)
{
    uint64_t counts[2] = {b->n_tensors, b->n_values};
    for (size_t i = 0; i < 16; i++)
        b->bytes[8 + i] = (unsigned char)(counts[i / 8] >> 8 * (i % 8));
    FILE *f = fopen(path, "wb");
    size_t header = n < b->n ? (size_t)n : b->n;
    if (!f || fwrite(b->bytes, 1, header, f) != header || fflush(f) != 0 ||
        ftruncate(fileno(f), (off_t)n) != 0)
        abort();
    fclose(f);
}

void gguf_build_write(struct gguf_build *b, const char *path)
{
    gguf_build_write_cut(b, path, gguf_build_bytes(b));
}
