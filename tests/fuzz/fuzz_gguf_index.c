/*
 * Any bytes as a model: the index accepts or refuses them with one sentence, and what it accepts
 * can be asked everything and stripped. Behind the bytes the file goes on as a hole, so that
 * tensors have room.
 */
#include "model/gguf_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOLE_BYTES (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void ask(const struct gguf_index *x)
{
    const struct gguf_shard *shard = gguf_index_shard(x, 0);
    uint64_t end = shard->data_offset;
    for (uint32_t i = 0; i < gguf_index_n_tensors(x); i++) {
        const struct gguf_tensor *t = gguf_index_tensor(x, i);
        check(t->bytes > 0 && t->offset >= end && t->offset + t->bytes <= shard->file_bytes);
        check(gguf_index_find(x, t->name) == t);
        end = t->offset + t->bytes;
    }
    check(gguf_index_arch(x) != NULL);
    gguf_index_chat_template(x);
    gguf_index_u64(x, "%s.block_count", 0);
    gguf_index_array_len(x, "tokenizer.ggml.tokens");
    int fd = memfd_create("stripped", MFD_CLOEXEC);
    check(fd >= 0 && gguf_index_write_stripped(x, fd, NULL) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct gguf_index *x = NULL;
    struct bmoe_error err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    check(size == 0 || ftruncate(fd, (off_t)size + HOLE_BYTES) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gguf_index_open(&x, path, &err) == 0)
        ask(x);
    else
        check(err.code < 0 && err.text[0] && !strpbrk(err.text, "\n\r"));
    gguf_index_close(x);
    close(fd);
    return 0;
}
