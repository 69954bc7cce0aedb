/*
 * The tokenizer's keys. libllama reads the arrays of a vocabulary through raw pointers, as long as
 * the list of tokens and of the type it expects, whatever the file says.
 */
#include "model/gguf_parts.h"

#include <inttypes.h>

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
    uint64_t n = gguf_index_array_len(x, "tokenizer.ggml.tokens");
    int rc = check_array(x, "tokenizer.ggml.tokens", GGUF_STR, 0, err);
    if (rc < 0 || (rc = check_array(x, "tokenizer.ggml.scores", GGUF_F32, n, err)) < 0 ||
        (rc = check_array(x, "tokenizer.ggml.token_type", GGUF_I32, n, err)) < 0)
        return rc;
    return check_array(x, "tokenizer.ggml.merges", GGUF_STR, 0, err);
}
