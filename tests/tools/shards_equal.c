/*
 * Checks that the shards of a split set hold exactly the tensors of the unsplit file: same name,
 * type, shape and bytes, each once, and that the first shard has the whole file's metadata.
 *   shards_equal WHOLE SHARD...
 * Exit 0 when they do, 1 with a sentence otherwise.
 */
#include "gguf.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file's header, and the file to read its data from. */
struct gguf_file {
    struct gguf_context *header;
    FILE *data;
};

static bool open_file(struct gguf_file *file, const char *path)
{
    struct gguf_init_params params = {.no_alloc = true};

    file->header = gguf_init_from_file(path, params);
    file->data = fopen(path, "rb");
    return file->header && file->data;
}

static void close_file(struct gguf_file *file)
{
    gguf_free(file->header);
    if (file->data)
        fclose(file->data);
}

/* The bytes of a tensor, which the caller frees, or NULL. */
static char *read_tensor(const struct gguf_file *file, int64_t id)
{
    size_t n = gguf_get_tensor_size(file->header, id);
    size_t at = gguf_get_data_offset(file->header) + gguf_get_tensor_offset(file->header, id);
    char *bytes = malloc(n);

    if (bytes &&
        (fseek(file->data, (long)at, SEEK_SET) != 0 || fread(bytes, 1, n, file->data) != n)) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

static bool same_tensor(const struct gguf_file *a, int64_t ia, const struct gguf_file *b,
                        int64_t ib)
{
    size_t n = gguf_get_tensor_size(a->header, ia);
    bool same = gguf_get_tensor_type(a->header, ia) == gguf_get_tensor_type(b->header, ib) &&
                memcmp(gguf_get_tensor_ne(a->header, ia), gguf_get_tensor_ne(b->header, ib),
                       4 * sizeof(int64_t)) == 0;
    char *bytes_a = read_tensor(a, ia);
    char *bytes_b = read_tensor(b, ib);

    same = same && bytes_a && bytes_b && memcmp(bytes_a, bytes_b, n) == 0;
    free(bytes_a);
    free(bytes_b);
    return same;
}

static bool has_keys(const struct gguf_context *whole, const struct gguf_context *first)
{
    for (int64_t i = 0; i < gguf_get_n_kv(whole); i++)
        if (gguf_find_key(first, gguf_get_key(whole, i)) < 0)
            return false;
    return gguf_find_key(first, "split.count") >= 0;
}

/* Tensors of the shard that are the whole's, or -1 when one is not. */
static int64_t check_shard(const struct gguf_file *whole, const struct gguf_file *shard)
{
    int64_t n = gguf_get_n_tensors(shard->header);

    for (int64_t i = 0; i < n; i++) {
        const char *name = gguf_get_tensor_name(shard->header, i);
        int64_t id = gguf_find_tensor(whole->header, name);

        if (id < 0 || !same_tensor(whole, id, shard, i)) {
            fprintf(stderr, "%s is not the whole file's.\n", name);
            return -1;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    struct gguf_file whole = {0};
    int64_t sum = 0;
    bool good = argc > 2 && open_file(&whole, argv[1]);

    for (int i = 2; i < argc && good; i++) {
        struct gguf_file shard = {0};
        int64_t n = -1;

        if (open_file(&shard, argv[i]))
            n = check_shard(&whole, &shard);
        good = n >= 0 && (i > 2 || has_keys(whole.header, shard.header));
        sum += n;
        close_file(&shard);
    }
    if (good && sum != gguf_get_n_tensors(whole.header))
        good = false;
    if (!good)
        fprintf(stderr, "The shards do not make up %s.\n", argc > 1 ? argv[1] : "a file");
    close_file(&whole);
    return good ? 0 : 1;
}
