/*
 * Units change here and nowhere else: MiB to bytes. Ranges were checked by the option table, so the
 * products fit.
 */
#include "session_args.h"

static uint64_t mib_to_bytes(uint64_t mib)
{
    return mib << 20;
}

void session_args_open(struct bmoe_options *out, const struct cli_options *o)
{
    bmoe_options_init(out);
    out->model = o->model;
    out->n_ctx = o->ctx_size;
    out->n_ubatch = o->ubatch;
    out->n_threads = o->threads;
    out->n_threads_batch = o->threads_batch;
    out->flash_attn = (enum bmoe_tristate)o->flash_attn;
    out->cache_type_k = o->cache_k;
    out->cache_type_v = o->cache_v;
    out->cpu_repack = (enum bmoe_tristate)o->cpu_repack;
    out->n_expert_used = o->n_expert_used;
    out->stream = o->moe_stream ? BMOE_ON : o->no_moe_stream ? BMOE_OFF : BMOE_AUTO;
    out->cache_bytes = o->cache_mb == BMOE_CACHE_AUTO ? BMOE_CACHE_AUTO : mib_to_bytes(o->cache_mb);
    /* The library reads 0 as its default; who typed 0 wants nothing left free. */
    out->cache_floor_bytes = o->cache_floor_mb > 0 ? mib_to_bytes(o->cache_floor_mb) : 1;
    out->cache_ceil_bytes = mib_to_bytes(o->cache_ceil_mb);
    out->n_readers = o->io_threads;
    out->buffered = o->no_odirect;
    out->dense = (enum bmoe_dense)o->dense;
    out->load_all = o->load_all;
    out->decide = o->decide;
    out->prefix_cache = (enum bmoe_tristate)o->decide_cache;
    out->place = (enum bmoe_place)o->place;
    out->prefill_device = o->prefill_device;
    out->prefill_min_tokens = o->prefill_min_tokens;
    out->prefill_ubatch = o->prefill_ubatch;
    out->prefill_loaders = o->prefill_loaders;
    out->prefill_whole = o->no_prefill_routed;
    out->prefill_routed_full = o->prefill_routed_full;
    out->prefill_dense = (enum bmoe_prefill_dense)o->prefill_dense;
}

void session_args_generate(struct bmoe_generate *out, const struct cli_options *o,
                           const char *grammar)
{
    bmoe_generate_init(out);
    out->n_predict = o->n_predict;
    out->ignore_eos = o->ignore_eos;
    out->sampling.temp = o->temp;
    out->sampling.top_k = (int32_t)o->top_k;
    out->sampling.top_p = o->top_p;
    out->sampling.min_p = o->min_p;
    out->sampling.repeat_penalty = o->repeat_penalty;
    out->sampling.seed = o->seed;
    out->sampling.grammar = grammar;
    out->stop = o->stop.item;
    out->n_stop = o->stop.n;
}
