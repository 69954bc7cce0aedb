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

/* Nothing is measured until it is assigned. */
static void unmeasured(struct bmoe_stats *t)
{
#define UNMEASURED(member, kind, unit, key, phases, meaning, brief) t->member = -1;
    BMOE_COUNTERS(UNMEASURED)
#undef UNMEASURED
}

static void pager_stats(const struct bmoe_session *s, struct bmoe_stats *t)
{
    struct pager_counters c;
    pager_counters_read(s->pager, &c);
    t->bytes_read = (int64_t)c.bytes_useful;
    t->bytes_widened = (int64_t)c.bytes_widened;
    t->reads = (int64_t)c.reads;
    t->hits = (int64_t)c.hits;
    t->misses = (int64_t)c.misses;
    t->evictions = (int64_t)c.evictions;
    t->rereads = (int64_t)c.rereads;
    t->faults = (int64_t)c.faults;
    t->fault_wait_us = (int64_t)c.fault_wait_us;
    t->hook_wait_us = (int64_t)c.pin_wait_us;
    t->queue_wait_us = (int64_t)c.queue_wait_us;
    t->read_us = (int64_t)c.read_us;
    t->carry_us = (int64_t)c.carry_us;
    t->place_us = (int64_t)c.place_us;
    t->evict_us = (int64_t)c.evict_us;
    t->retries = (int64_t)c.retries;
    t->failed_reads = (int64_t)c.failed_reads;
    t->fallbacks = (int64_t)c.move_fallbacks;
    t->ahead_reads = (int64_t)c.ahead_reads;
    t->ahead_used = (int64_t)c.ahead_used;
    t->lost_pages = (int64_t)c.lost_pages;
    t->mapping_faults = (int64_t)c.mapping_faults;
    t->resident_bytes = (int64_t)c.resident_bytes;
    t->resident_extents = (int64_t)c.resident_extents;
    t->pinned_bytes = (int64_t)c.pinned_bytes;
}

/* Without --prefill-device nothing of this is measured; of a device that was given up, what it did.
 */
static void device_stats(const struct bmoe_session *s, struct bmoe_stats *t)
{
    struct prefill_counters c = s->device_before;
    if (s->prefill)
        prefill_counters(s->prefill, &c);
    if (!s->device_name && !s->hooks.device)
        return;
    t->dev_tokens = s->device_tokens;
    t->dev_nodes = (int64_t)c.nodes;
    t->dev_read_bytes = (int64_t)c.arena.read_bytes;
    t->dev_host_bytes = (int64_t)c.arena.host_bytes;
    t->dev_dense_bytes = (int64_t)c.arena.carried_bytes;
    t->dev_unused_bytes = (int64_t)c.arena.unused_bytes;
    t->dev_stall_us = (int64_t)c.arena.stall_us;
    t->dev_routed = (int64_t)c.arena.routed;
    t->dev_demand = (int64_t)c.arena.demand;
    t->dev_splits = (int64_t)c.splits;
    t->dev_cpu_matmuls = (int64_t)c.cpu_matmuls;
    t->dev_slots = s->prefill ? c.n_slots : 0;
    t->dev_bytes = s->prefill ? (int64_t)c.device_bytes : 0;
}

void bmoe_session_stats(struct bmoe_session *s, struct bmoe_stats *out)
{
    struct bmoe_stats t;
    unmeasured(&t);
    pager_stats(s, &t);
    t.budget_bytes = s->streamed ? (int64_t)s->plan.budget : -1;
    t.state_bytes = (int64_t)(s->prefix.room + s->boundary.room);
    t.peak_rss_bytes = host_peak_rss_bytes();
    host_process_read(&t.cpu_us, &t.majflt);
    t.prefill_tokens = s->prefill_tokens;
    t.prefill_us = s->prefill_us;
    t.decode_tokens = s->decode_tokens;
    t.decode_us = s->decode_us;
    device_stats(s, &t);
    give(out, out->size, &t, sizeof t);
}
