/*
 * The context's memory goes to where the prefill device reaches it, when that can be done without
 * anybody noticing: a state saved and restored afterwards must be the bytes that lie there. That is
 * tried with a decode that computes nothing, so no weight is read for it.
 */
#include "engine/session.h"

#include "device/kv_memory.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 4096, PATTERN = 0xa5 };

/* What a state says of itself, at most: by tensor, by token, and of the whole. */
enum { TENSOR_WORDS = 64, TOKEN_WORDS = 64, STATE_WORDS = 1024 };

struct found {
    struct ggml_tensor *at[MOST_TENSORS];
    size_t n;
    bool all;
};

static void note(struct found *f, struct ggml_tensor *t)
{
    struct ggml_tensor *root = graph_root(t);
    if (!root->buffer ||
        ggml_backend_buffer_get_usage(root->buffer) != GGML_BACKEND_BUFFER_USAGE_ANY)
        return;
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i] == root)
            return;
    f->all = f->n < MOST_TENSORS;
    if (f->all)
        f->at[f->n++] = root;
}

static void note_memory(void *user, struct ggml_tensor *node)
{
    note(user, node);
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i])
            note(user, node->src[i]);
}

/* Bytes of the pattern in a state. */
static size_t count_pattern(const struct kv_state *k)
{
    size_t n = 0;
    for (size_t i = 0; i < k->bytes; i++)
        n += k->data[i] == PATTERN;
    return n;
}

/* The memory is all pattern, and its cells are in use: what is saved of them must be pattern but
 * for words that describe them, and what is restored to cleared memory must save as the same bytes.
 */
static bool state_is_of_the_memory(struct bmoe_session *s, size_t n_tensors)
{
    enum { N_TOKENS = 32 };
    const size_t words = n_tensors * TENSOR_WORDS + N_TOKENS * TOKEN_WORDS + STATE_WORDS;
    struct kv_state first = {0}, again = {0};
    bool same = false;
    kv_memory_fill(s->memory, PATTERN);
    if (context_occupy(s, N_TOKENS) && state_save(s, &first)) {
        kv_memory_fill(s->memory, 0);
        same = count_pattern(&first) + words > first.bytes && state_restore(s, &first) &&
               state_save(s, &again) && first.bytes == again.bytes &&
               memcmp(first.data, again.data, first.bytes) == 0;
    }
    state_fini(&first);
    state_fini(&again);
    context_keep(s, 0);
    return same;
}

void prefill_memory_move(struct bmoe_session *s)
{
    struct found *f = calloc(1, sizeof *f);
    struct bmoe_error ignored;
    if (!f || context_observe(s, 1, note_memory, f, &ignored) < 0 || !f->all)
        goto out;
    s->memory = kv_memory_create(s->device.device, f->at, f->n);
    if (!s->memory) {
        if (ggml_backend_dev_host_buffer_type(s->device.device))
            log_line(&s->log, BMOE_LOG_INFO,
                     "the context's memory stays where it is; its views are copied to %s per graph",
                     s->o.prefill_device);
        goto out;
    }
    context_forget_graph(s);
    if (kv_memory_moved(s->memory) && !state_is_of_the_memory(s, f->n)) {
        prefill_memory_move_back(s);
        log_line(&s->log, BMOE_LOG_WARN,
                 "the context's memory stays where it is: this libllama saves its states from "
                 "elsewhere when it is moved");
        goto out;
    }
    log_line(&s->log, BMOE_LOG_INFO, "the context's memory, %.1f MiB, %s %s",
             (double)kv_memory_bytes(s->memory) / (1 << 20),
             kv_memory_moved(s->memory) ? "was moved to" : "stays and is",
             kv_memory_moved(s->memory) ? kv_memory_name(s->memory) : "reached by the device too");
out:
    free(f);
}

void prefill_memory_move_back(struct bmoe_session *s)
{
    if (!s->memory)
        return;
    kv_memory_move_back(s->memory);
    prefill_memory_drop(s);
    context_forget_graph(s);
}

void prefill_memory_drop(struct bmoe_session *s)
{
    kv_memory_destroy(s->memory);
    s->memory = NULL;
}
