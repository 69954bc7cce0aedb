/* Opening an index: every shard's header in turn, then what holds for the whole set. */
#include "model/gguf_parts.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define VERSION_LEAST 2
#define VERSION_MOST  3

/* Magic, version and the two counts. */
static int read_preamble(struct gguf_file *f, uint64_t *n_tensors, uint64_t *n_values,
                         struct bmoe_error *err)
{
    unsigned char magic[4];
    uint32_t version;
    if (f->bytes < sizeof magic || gguf_file_read(f, magic, sizeof magic, err) < 0 ||
        memcmp(magic, "GGUF", sizeof magic) != 0)
        return gguf_refuse(err, f->path, "is not a GGUF file");
    int rc = gguf_file_u32(f, &version, err);
    if (rc < 0)
        return rc;
    if (version && (version & 0xffff) == 0)
        return gguf_refuse(err, f->path,
                           "is a big-endian GGUF file, a little-endian one is needed");
    if (version < VERSION_LEAST || version > VERSION_MOST)
        return gguf_refuse(err, f->path, "is GGUF of version %u, versions %u to %u are read",
                           version, VERSION_LEAST, VERSION_MOST);
    if ((rc = gguf_file_u64(f, n_tensors, err)) < 0)
        return rc;
    return gguf_file_u64(f, n_values, err);
}

static int read_shard(struct gguf_index *x, uint32_t i, struct bmoe_error *err)
{
    struct gguf_file f;
    struct gguf_meta other = {0}, *m = i == 0 ? &x->meta : &other;
    uint64_t n_tensors, n_values;
    struct gguf_shard *shard = &x->shards[i];
    int rc = gguf_file_open(&f, shard->path, err);
    if (rc < 0)
        return rc;
    shard->file_bytes = f.bytes;
    shard->dev = f.dev;
    shard->ino = f.ino;
    rc = read_preamble(&f, &n_tensors, &n_values, err);
    if (rc == 0)
        rc = gguf_meta_read(m, &f, n_values, &x->strings, err);
    if (rc == 0)
        rc = gguf_split_check(x, i, m, err);
    if (rc == 0)
        rc = gguf_tensors_read(x, i, &f, m, n_tensors, err);
    gguf_meta_fini(&other);
    gguf_file_close(&f);
    return rc;
}

static int open_shards(struct gguf_index *x, const char *path, struct bmoe_error *err)
{
    int rc = gguf_split_paths(x, path, err);
    for (uint32_t i = 0; rc == 0 && i < x->n_shards; i++)
        rc = read_shard(x, i, err);
    if (rc < 0)
        return rc;
    x->arch = gguf_index_str(x, "general.architecture");
    if (!x->arch)
        x->arch = "";
    if ((rc = gguf_split_check_total(x, err)) < 0 || (rc = gguf_tensors_hash(x, err)) < 0 ||
        (rc = gguf_check_model(x, err)) < 0)
        return rc;
    return gguf_check_vocab(x, err);
}

int gguf_index_open(struct gguf_index **out, const char *path, struct bmoe_error *err)
{
    struct gguf_index *x = calloc(1, sizeof *x);
    if (!x)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a model's index");
    int rc = open_shards(x, path, err);
    if (rc < 0)
        gguf_index_close(x);
    else
        *out = x;
    return rc;
}

void gguf_index_close(struct gguf_index *x)
{
    if (!x)
        return;
    gguf_meta_fini(&x->meta);
    names_fini(&x->by_name);
    strings_fini(&x->strings);
    free(x->shards);
    free(x->tensors);
    free(x);
}

uint32_t gguf_index_n_shards(const struct gguf_index *x)
{
    return x->n_shards;
}

const struct gguf_shard *gguf_index_shard(const struct gguf_index *x, uint32_t i)
{
    return &x->shards[i];
}

uint32_t gguf_index_n_tensors(const struct gguf_index *x)
{
    return x->n_tensors;
}

const struct gguf_tensor *gguf_index_tensor(const struct gguf_index *x, uint32_t i)
{
    return &x->tensors[i];
}

const char *gguf_index_arch(const struct gguf_index *x)
{
    return x->arch;
}

const char *gguf_index_chat_template(const struct gguf_index *x)
{
    return gguf_index_str(x, "tokenizer.chat_template");
}

static const struct gguf_value *find(const struct gguf_index *x, const char *key)
{
    if (strncmp(key, "%s.", 3) == 0)
        return gguf_meta_find_arch(&x->meta, x->arch, key + 3);
    return gguf_meta_find(&x->meta, key);
}

uint64_t gguf_index_u64(const struct gguf_index *x, const char *key, uint64_t def)
{
    const struct gguf_value *v = find(x, key);
    uint64_t value;
    return v && gguf_value_u64(v, 0, &value) ? value : def;
}

const char *gguf_index_str(const struct gguf_index *x, const char *key)
{
    const struct gguf_value *v = find(x, key);
    return v ? v->text : NULL;
}

uint64_t gguf_index_array_len(const struct gguf_index *x, const char *key)
{
    const struct gguf_value *v = find(x, key);
    return v && v->type == GGUF_ARR ? v->n : 0;
}
