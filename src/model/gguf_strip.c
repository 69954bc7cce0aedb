/*
 * The header without what is long in it. Keys are copied as they are in the file, except the
 * tokenizer's: in their place stands a tokenizer without a vocabulary and the vocabulary's size,
 * which is all that a graph depends on.
 */
#include "model/gguf_parts.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The header being made; failed once there was no memory. */
struct output {
    unsigned char *bytes; /* owned */
    size_t n, room;
    bool failed;
};

static unsigned char *grow(struct output *o, uint64_t n)
{
    if (!o->failed && n > o->room - o->n) {
        size_t room = (size_t)(o->n + n) * 2;
        unsigned char *more = realloc(o->bytes, room);
        o->failed = !more;
        if (more) {
            o->bytes = more;
            o->room = room;
        }
    }
    if (o->failed)
        return NULL;
    o->n += (size_t)n;
    return o->bytes + o->n - n;
}

static void put(struct output *o, uint64_t value, size_t n)
{
    unsigned char *at = grow(o, n);
    for (size_t i = 0; at && i < n; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void put_text(struct output *o, const char *text)
{
    size_t n = strlen(text);
    put(o, n, 8);
    unsigned char *at = grow(o, n);
    if (at)
        memcpy(at, text, n);
}

static int put_range(struct output *o, struct gguf_file *f, uint64_t from, uint64_t to,
                     struct bmoe_error *err)
{
    unsigned char *at = grow(o, to - from);
    return at ? gguf_file_pread(f, at, (size_t)(to - from), from, err) : 0;
}

/* Whether a value stands for the vocabulary: left out. */
static bool is_vocabulary(const struct gguf_index *x, const struct gguf_value *v)
{
    return strncmp(v->key, "tokenizer.", 10) == 0 ||
           v == gguf_meta_find_arch(&x->meta, x->arch, "vocab_size");
}

/* The size libllama would count: the tokens, else the embedding's rows. */
static uint64_t vocabulary_size(const struct gguf_index *x)
{
    uint64_t n = gguf_index_array_len(x, "tokenizer.ggml.tokens");
    const struct gguf_tensor *embd = gguf_index_find(x, "token_embd.weight");
    if (n == 0 && embd)
        n = (uint64_t)embd->ne[1];
    return n > UINT32_MAX ? UINT32_MAX : n;
}

static int make_header(const struct gguf_index *x, struct gguf_file *f, struct output *o,
                       struct bmoe_error *err)
{
    char key[1100];
    uint64_t n_kept = 0, n_tensors = 0;
    for (uint32_t i = 0; i < x->meta.n_values; i++)
        n_kept += !is_vocabulary(x, &x->meta.values[i]);
    for (uint32_t i = 0; i < x->n_tensors; i++)
        n_tensors += x->tensors[i].shard == 0;
    put(o, 0x46554747, 4); /* "GGUF" */
    put(o, 3, 4);
    put(o, n_tensors, 8);
    put(o, n_kept + 2, 8);
    for (uint32_t i = 0; i < x->meta.n_values; i++) {
        const struct gguf_value *v = &x->meta.values[i];
        int rc = is_vocabulary(x, v) ? 0 : put_range(o, f, v->entry_offset, v->end_offset, err);
        if (rc < 0)
            return rc;
    }
    put_text(o, "tokenizer.ggml.model");
    put(o, GGUF_STR, 4);
    put_text(o, "none");
    snprintf(key, sizeof key, "%s.vocab_size", x->arch);
    put_text(o, key);
    put(o, GGUF_U32, 4);
    put(o, vocabulary_size(x), 4);
    return put_range(o, f, x->tensors_at, x->tensors_end, err);
}

/* Bytes of the whole file when its data follows a header of header_bytes. */
static uint64_t whole_bytes(const struct gguf_index *x, size_t header_bytes)
{
    const struct gguf_shard *shard = &x->shards[0];
    uint64_t alignment = gguf_index_u64(x, "general.alignment", 32), data_at = 0;
    checked_align_u64(header_bytes, alignment, &data_at);
    /* Of tensor data as much as there is, the padding at its end included. */
    return shard->file_bytes > shard->data_offset ? data_at + shard->file_bytes - shard->data_offset
                                                  : data_at;
}

int gguf_index_write_stripped(const struct gguf_index *x, int fd, struct bmoe_error *err)
{
    struct gguf_file f;
    struct output o = {0};
    int rc = gguf_file_open(&f, x->shards[0].path, err);
    if (rc < 0)
        return rc;
    rc = make_header(x, &f, &o, err);
    if (rc == 0 && o.failed)
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a header of %s",
                       f.path);
    if (rc == 0 && (pwrite(fd, o.bytes, o.n, 0) != (ssize_t)o.n ||
                    ftruncate(fd, (off_t)whole_bytes(x, o.n)) != 0))
        rc = error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errno,
                             "cannot write the trial copy of a header");
    free(o.bytes);
    gguf_file_close(&f);
    return rc;
}
