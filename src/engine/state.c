/*
 * Copies of the context's memory, so that what is there can be had again: the whole of it for the
 * common beginning of decisions, and the part that cannot be cut (recurrent states) at the boundary
 * of a prompt. libllama writes and reads the bytes; what they stand for is the tokens kept beside
 * them.
 */
#include "engine/session.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

bool state_cuttable(const struct bmoe_session *s)
{
    return !llama_model_is_recurrent(s->model) && !llama_model_is_hybrid(s->model);
}

bool state_copy_cuttable(const struct bmoe_session *s)
{
    return state_cuttable(s) && llama_model_n_swa(s->model) == 0;
}

bool state_may_cut(const struct bmoe_session *s, uint32_t n)
{
    llama_pos first = llama_memory_seq_pos_min(llama_get_memory(s->ctx), 0);
    int32_t window = llama_model_n_swa(s->model);
    return first <= 0 || window == 0 || (int64_t)first + window <= (int64_t)n;
}

static bool reserve(struct kv_state *k, size_t bytes, uint32_t n_tokens)
{
    if (bytes > k->room) {
        uint8_t *more = realloc(k->data, bytes);
        if (!more)
            return false;
        k->data = more;
        k->room = bytes;
    }
    if (n_tokens > k->tokens_room) {
        llama_token *more = realloc(k->tokens, n_tokens * sizeof *more);
        if (!more)
            return false;
        k->tokens = more;
        k->tokens_room = n_tokens;
    }
    return true;
}

static llama_state_seq_flags flags_of(const struct kv_state *k)
{
    return k->partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
}

bool state_save(struct bmoe_session *s, struct kv_state *k)
{
    k->n = 0;
    llama_log_enter(&s->llama_log);
    size_t bytes = llama_state_seq_get_size_ext(s->ctx, 0, flags_of(k));
    size_t written = 0;
    if (bytes > 0 && reserve(k, bytes, s->n_kv))
        written = llama_state_seq_get_data_ext(s->ctx, k->data, bytes, 0, flags_of(k));
    llama_log_leave();
    if (written == 0 || written > bytes)
        return false;
    k->bytes = written;
    k->n = s->n_kv;
    memcpy(k->tokens, s->tokens, k->n * sizeof *k->tokens);
    return true;
}

bool state_restore(struct bmoe_session *s, struct kv_state *k)
{
    llama_memory_t memory = llama_get_memory(s->ctx);
    if (!k->partial) {
        context_keep(s, 0);
    }
    llama_log_enter(&s->llama_log);
    size_t read = llama_state_seq_set_data_ext(s->ctx, k->data, k->bytes, 0, flags_of(k));
    llama_log_leave();
    bool fine = read > 0;
    if (fine && k->partial)
        fine = llama_memory_seq_rm(memory, 0, (llama_pos)k->n, -1);
    if (!fine || llama_memory_seq_pos_max(memory, 0) != (llama_pos)k->n - 1) {
        k->n = 0;
        context_keep(s, 0);
        return false;
    }
    memcpy(s->tokens, k->tokens, k->n * sizeof *k->tokens);
    s->n_kv = k->n;
    return true;
}

void state_fini(struct kv_state *k)
{
    free(k->tokens);
    free(k->data);
    *k = (struct kv_state){0};
}
