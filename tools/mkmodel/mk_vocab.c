/*
 * Builds the token list, scores and types and hands them to the plan's metadata, which copies them.
 */
#include "mk_vocab.h"

#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_SPECIAL = 3, N_BYTES = 256, TOKEN_LENGTH = 16 };

/* Token types of llama.h: normal, unknown, control, byte. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_BYTE = 6 };

struct vocab {
    char (*text)[TOKEN_LENGTH];
    const char **list;
    float *scores;
    int32_t *types;
};

static void fill_token(struct vocab *vocab, int64_t i)
{
    static const char *const special[N_SPECIAL] = {"<unk>", "<s>", "</s>"};
    char *text = vocab->text[i];

    vocab->list[i] = text;
    vocab->scores[i] = 0.0f;
    vocab->types[i] = TYPE_NORMAL;
    if (i < N_SPECIAL) {
        snprintf(text, TOKEN_LENGTH, "%s", special[i]);
        vocab->types[i] = i == 0 ? TYPE_UNKNOWN : TYPE_CONTROL;
    } else if (i < N_SPECIAL + N_BYTES) {
        snprintf(text, TOKEN_LENGTH, "<0x%02X>", (unsigned)(i - N_SPECIAL));
        vocab->types[i] = TYPE_BYTE;
    } else if (i == N_SPECIAL + N_BYTES) {
        snprintf(text, TOKEN_LENGTH, "\xe2\x96\x81"); /* U+2581, the piece for a space */
        vocab->scores[i] = -1.0f;
    } else {
        snprintf(text, TOKEN_LENGTH, "<f%u>", (unsigned)i);
        vocab->scores[i] = -1000.0f;
    }
}

static void set_keys(struct gguf_context *keys, const struct vocab *vocab, size_t n)
{
    gguf_set_val_str(keys, "tokenizer.ggml.model", "llama");
    gguf_set_val_str(keys, "tokenizer.ggml.pre", "default");
    gguf_set_arr_str(keys, "tokenizer.ggml.tokens", vocab->list, n);
    gguf_set_arr_data(keys, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, vocab->scores, n);
    gguf_set_arr_data(keys, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocab->types, n);
    gguf_set_val_u32(keys, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(keys, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(keys, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_bool(keys, "tokenizer.ggml.add_bos_token", true);
    gguf_set_val_bool(keys, "tokenizer.ggml.add_eos_token", false);
    gguf_set_val_bool(keys, "tokenizer.ggml.add_space_prefix", false);
}

int mk_vocab_add(struct mk_plan *plan, const char *chat_template, struct bmoe_error *error)
{
    size_t n = (size_t)plan->shape.vocab;
    struct vocab vocab = {calloc(n, sizeof *vocab.text), calloc(n, sizeof *vocab.list),
                          calloc(n, sizeof *vocab.scores), calloc(n, sizeof *vocab.types)};
    int rc = 0;

    if (!vocab.text || !vocab.list || !vocab.scores || !vocab.types) {
        rc =
            error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS, "Out of memory for %zu tokens.", n);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        fill_token(&vocab, (int64_t)i);
    set_keys(plan->keys, &vocab, n);
    if (chat_template)
        gguf_set_val_str(plan->keys, "tokenizer.chat_template", chat_template);
out:
    free(vocab.text);
    free(vocab.list);
    free(vocab.scores);
    free(vocab.types);
    return rc;
}
