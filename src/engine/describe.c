/* What a session tells about itself. Structs are filled up to the caller's size. */
#include "engine/session.h"

#include "base/host.h"

#include <string.h>

static void give(void *out, size_t out_bytes, const void *full, size_t full_bytes)
{
    size_t n = out_bytes < full_bytes ? out_bytes : full_bytes;
    memcpy((char *)out + sizeof(size_t), (const char *)full + sizeof(size_t), n - sizeof(size_t));
}

void bmoe_session_describe(struct bmoe_session *s, struct bmoe_info *out)
{
    struct bmoe_info i = {
        .arch = gguf_index_arch(s->index),
        .model_desc = s->model_desc,
        .mode = s->mode,
        .chat_template = gguf_index_chat_template(s->index),
        .n_ctx = s->n_ctx,
        .n_ubatch = s->o.n_ubatch,
        .n_threads = s->o.n_threads,
        .n_threads_batch = s->o.n_threads_batch,
        .n_layer = (uint32_t)llama_model_n_layer(s->model),
        .n_expert = s->n_expert,
        .n_expert_used = s->o.n_expert_used
                             ? s->o.n_expert_used
                             : (uint32_t)gguf_index_u64(s->index, "%s.expert_used_count", 0),
        .n_vocab = s->n_vocab,
        .streamed = s->streamed,
        .place = pager_place(s->pager),
        .expert_bytes = s->sums.expert_bytes,
        .dense_bytes = s->plan.dense,
        .budget_bytes = s->plan.budget,
        .floor_bytes = s->plan.floor,
        .planned_bytes = s->plan.total,
        .load_s = s->load_s,
    };
    give(out, out->size, &i, sizeof i);
}

void bmoe_session_stats(struct bmoe_session *s, struct bmoe_stats *out)
{
    struct pager_counters c;
    pager_counters_read(s->pager, &c);
    struct bmoe_stats t = {
        .bytes_read = (int64_t)c.bytes_useful,
        .bytes_widened = (int64_t)c.bytes_widened,
        .reads = (int64_t)c.reads,
        .hits = (int64_t)c.hits,
        .misses = (int64_t)c.misses,
        .evictions = (int64_t)c.evictions,
        .rereads = (int64_t)c.rereads,
        .faults = (int64_t)c.faults,
        .fault_wait_us = (int64_t)c.fault_wait_us,
        .hook_wait_us = (int64_t)c.pin_wait_us,
        .retries = (int64_t)c.retries,
        .fallbacks = (int64_t)c.move_fallbacks,
        .lost_pages = (int64_t)c.lost_pages,
        .resident_bytes = (int64_t)c.resident_bytes,
        .resident_extents = (int64_t)c.resident_extents,
        .mapping_faults = (int64_t)c.mapping_faults,
        .peak_rss_bytes = host_peak_rss_bytes(),
        .prefill_tokens = s->prefill_tokens,
        .prefill_us = s->prefill_us,
        .decode_tokens = s->decode_tokens,
        .decode_us = s->decode_us,
    };
    give(out, out->size, &t, sizeof t);
}
