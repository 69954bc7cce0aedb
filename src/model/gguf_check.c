/*
 * Model values that libllama or ggml would abort on, divide by, or loop over for ever. One table of
 * ranges, and a few agreements between keys and tensors. Keys that are absent, or that libllama
 * itself refuses with an error (a wrong type, a shape that does not match), are left to it.
 */
#include "model/gguf_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_LAYERS  512  /* LLAMA_MAX_LAYERS */
#define MAX_EXPERTS 1024 /* LLAMA_MAX_EXPERTS */

/* What every element of "<arch>.<suffix>" must be in. */
static const struct {
    const char *suffix;
    int64_t least, most;
} ranges[] = {
    {"block_count", 1, MAX_LAYERS},
    {"expert_count", 0, MAX_EXPERTS},
    {"expert_used_count", 0, MAX_EXPERTS},
    {"embedding_length", 1, 1 << 20},
};

static int check_ranges(const struct gguf_index *x, struct bmoe_error *err)
{
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, ranges[r].suffix);
        for (uint64_t i = 0; v && v->bits && i < v->n; i++) {
            int64_t value;
            if (!gguf_value_i64(v, i, &value))
                break;
            if (value < ranges[r].least || value > ranges[r].most)
                return gguf_refuse(err, x->shards[0].path,
                                   "%s is %" PRId64 ", from %" PRId64 " to %" PRId64 " is possible",
                                   v->key, value, ranges[r].least, ranges[r].most);
        }
    }
    return 0;
}

int gguf_check_model(const struct gguf_index *x, struct bmoe_error *err)
{
    return check_ranges(x, err);
}
