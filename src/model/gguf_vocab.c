/*
 * The tokenizer's keys. libllama reads the arrays of a vocabulary through raw pointers, as long as
 * the list of tokens and of the type it expects, whatever the file says; it asserts that no two
 * tokens are alike; and a text with a byte that has no token ends in an uncaught exception, or is
 * tokenized for ever. The tokens are read once and none is kept, only their hashes; equal ones are
 * looked at again.
 */
#include "model/gguf_parts.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS      (4u << 20)
#define MAX_TOKEN_BYTES 4096

/* Hashes of tokens. Open addressing, at most half full; 0 is a free slot. */
struct token_set {
    uint64_t *slots; /* owned */
    size_t n_slots;  /* a power of two */
};

static uint64_t hash_token(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3;
    h ^= h >> 29;
    return h ? h : 1;
}

/* False when it was there already. */
static bool add_hash(struct token_set *set, uint64_t h)
{
    size_t i = (size_t)(h ^ h >> 32) & (set->n_slots - 1);
    for (; set->slots[i]; i = (i + 1) & (set->n_slots - 1))
        if (set->slots[i] == h)
            return false;
    set->slots[i] = h;
    return true;
}

/* Which byte a token stands for alone: "A" everywhere, "<0x41>" in llama's, "\x41" and "\n" in
 * rwkv's tokenizer. */
static void note_byte(bool *has_byte, bool rwkv, const char *text, size_t n)
{
    unsigned byte;
    char end;
    if (n == 1)
        has_byte[(unsigned char)text[0]] = true;
    else if (!rwkv && n == 6 && sscanf(text, "<0x%2X%c", &byte, &end) == 2 && end == '>')
        has_byte[byte & 255] = true;
    else if (rwkv && n == 4 && sscanf(text, "\\x%2x", &byte) == 1)
        has_byte[byte & 255] = true;
    else if (rwkv && n == 2 && text[0] == '\\')
        has_byte[text[1] == 't'   ? 9
                 : text[1] == 'n' ? 10
                 : text[1] == 'r' ? 13
                                  : text[1] & 127] = true;
}

/* Whether a text with a byte that has no token ends in an exception, or never. */
static bool wants_all_bytes(const char *tokenizer)
{
    return tokenizer && (strcmp(tokenizer, "llama") == 0 || strcmp(tokenizer, "rwkv") == 0);
}

/* Reads token i; libllama knows it up to its first zero byte, and gives an empty one a name. */
static int read_token(struct gguf_file *f, uint64_t i, char *text, size_t *n,
                      struct bmoe_error *err)
{
    uint64_t bytes;
    int rc = gguf_file_u64(f, &bytes, err);
    if (rc < 0)
        return rc;
    if (bytes > MAX_TOKEN_BYTES)
        return gguf_refuse(err, f->path,
                           "token %" PRIu64 " has %" PRIu64 " bytes, at most %d are "
                           "possible",
                           i, bytes, MAX_TOKEN_BYTES);
    if ((rc = gguf_file_read(f, text, (size_t)bytes, err)) < 0)
        return rc;
    text[bytes] = '\0';
    *n = strlen(text);
    if (*n == 0)
        *n = (size_t)snprintf(text, MAX_TOKEN_BYTES, "[EMPTY_%" PRIu64 "]", i);
    return 0;
}

/* Two hashes were equal: whether a token before number i reads `text`. */
static int was_before(const struct gguf_file *file, const struct gguf_value *v, uint64_t i,
                      const char *text, bool *out, struct bmoe_error *err)
{
    char other[MAX_TOKEN_BYTES + 1];
    struct gguf_file f = *file; /* another position; the buffer is shared and refilled */
    size_t n;
    f.at = v->file_offset;
    f.buffer_bytes = 0;
    *out = false;
    for (uint64_t k = 0; k < i && !*out; k++) {
        int rc = read_token(&f, k, other, &n, err);
        if (rc < 0)
            return rc;
        *out = strcmp(other, text) == 0;
    }
    return 0;
}

static int read_tokens(struct gguf_file *f, const struct gguf_value *v, struct token_set *set,
                       bool rwkv, bool *has_byte, struct bmoe_error *err)
{
    char text[MAX_TOKEN_BYTES + 1];
    bool twice = false;
    f->at = v->file_offset;
    for (uint64_t i = 0; i < v->n; i++) {
        size_t n = 0;
        int rc = read_token(f, i, text, &n, err);
        if (rc == 0 && !add_hash(set, hash_token(text, n))) {
            rc = was_before(f, v, i, text, &twice, err);
            f->buffer_bytes = 0;
        }
        if (rc < 0)
            return rc;
        if (twice)
            return gguf_refuse(err, f->path,
                               "token %" PRIu64 ", '%.60s', is in the vocabulary twice", i, text);
        note_byte(has_byte, rwkv, text, n);
    }
    return 0;
}

static int check_tokens(const struct gguf_index *x, const struct gguf_value *v,
                        struct bmoe_error *err)
{
    struct token_set set = {.n_slots = 16};
    struct gguf_file f;
    bool has_byte[256] = {false};
    const char *model = gguf_index_str(x, "tokenizer.ggml.model");
    if (v->n == 0 || v->n > MAX_TOKENS)
        return gguf_refuse(err, x->shards[0].path,
                           "has a vocabulary of %" PRIu64 " tokens, from 1 to %u are possible",
                           v->n, MAX_TOKENS);
    while (set.n_slots < 2 * v->n)
        set.n_slots *= 2;
    int rc = gguf_file_open(&f, x->shards[0].path, err);
    if (rc < 0)
        return rc;
    set.slots = calloc(set.n_slots, sizeof *set.slots);
    if (set.slots)
        rc = read_tokens(&f, v, &set, model && strcmp(model, "rwkv") == 0, has_byte, err);
    else
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory to check a vocabulary");
    for (int i = 0; rc == 0 && wants_all_bytes(model) && i < 256; i++)
        if (!has_byte[i])
            rc = gguf_refuse(err, f.path, "has no token for the byte 0x%02X", i);
    free(set.slots);
    gguf_file_close(&f);
    return rc;
}

static int check_array(const struct gguf_index *x, const char *key, uint32_t type, uint64_t n,
                       struct bmoe_error *err)
{
    const struct gguf_value *v = gguf_meta_find(&x->meta, key);
    if (!v)
        return 0;
    if (v->type != GGUF_ARR || v->item_type != type)
        return gguf_refuse(err, x->shards[0].path, "%s is not an array of %s", key,
                           gguf_type_text(type));
    if (n && v->n != n)
        return gguf_refuse(err, x->shards[0].path,
                           "%s has %" PRIu64 " entries for a vocabulary of %" PRIu64 " tokens", key,
                           v->n, n);
    return 0;
}

int gguf_check_vocab(const struct gguf_index *x, struct bmoe_error *err)
{
    const char *model = gguf_index_str(x, "tokenizer.ggml.model");
    if (model && (strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0))
        return gguf_refuse(err, x->shards[0].path, "has no vocabulary, so it takes no text");
    if (model && strcmp(model, "bert") == 0)
        return gguf_refuse(err, x->shards[0].path,
                           "has bert's tokenizer, as models have that write no text");
    const struct gguf_value *tokens = gguf_meta_find(&x->meta, "tokenizer.ggml.tokens");
    uint64_t n = tokens ? tokens->n : 0;
    int rc = check_array(x, "tokenizer.ggml.tokens", GGUF_STR, 0, err);
    if (rc < 0 || (rc = check_array(x, "tokenizer.ggml.scores", GGUF_F32, n, err)) < 0 ||
        (rc = check_array(x, "tokenizer.ggml.token_type", GGUF_I32, n, err)) < 0 ||
        (rc = check_array(x, "tokenizer.ggml.merges", GGUF_STR, 0, err)) < 0)
        return rc;
    return tokens ? check_tokens(x, tokens, err) : 0;
}
