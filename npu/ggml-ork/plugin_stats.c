/* Times of the simulator are the model's and are called that. */
#include "plugin_stats.h"

#include <inttypes.h>

void plugin_stats_read(struct plugin *p, struct plugin_counts *out)
{
    struct plugin_counters *c = &p->counters;

    *out = (struct plugin_counts){.nodes = atomic_load(&c->nodes),
                                  .npu_products = atomic_load(&c->npu_products),
                                  .host_products = atomic_load(&c->host_products),
                                  .rows_coded = atomic_load(&c->rows_coded),
                                  .rows_shared = atomic_load(&c->rows_shared),
                                  .norms_fused = atomic_load(&c->norms_fused),
                                  .plain_skipped = atomic_load(&c->plain_skipped)};
    if (p->cache)
        pack_cache_counts(p->cache, &out->pack_found, &out->pack_added);
}

void plugin_stats_log(struct plugin *p)
{
    struct plugin_counts c;
    struct ork_stats s;

    plugin_stats_read(p, &c);
    ork_device_stats(p->npu, &s);
    plugin_log(GGML_LOG_LEVEL_WARN,
               "stats: %" PRIu64 " products on the NPU in %" PRIu64 " submits (%" PRIu64
               " programs, %" PRIu64 " matmuls), %" PRIu64 " on the host; %" PRIu64
               " rows coded, %" PRIu64 " shared; %" PRIu64 " norms fused, %" PRIu64
               " without plain rows.",
               c.npu_products, s.submits, s.programs, s.matmuls, c.host_products, c.rows_coded,
               c.rows_shared, c.norms_fused, c.plain_skipped);
    plugin_log(GGML_LOG_LEVEL_WARN,
               "stats: %" PRIu64 " multiply-adds asked for, %" PRIu64 " computed; %" PRIu64
               " MB read, %" PRIu64 " MB written by the device; %" PRIu64
               " saturated cells; device time %.0f us (%s), model %.0f us.",
               s.macs, s.macs_padded, s.bytes_read / 1000000, s.bytes_written / 1000000,
               s.saturated_cells, s.device_us, p->caps.simulated ? "model" : "measured",
               s.predicted_us);
    if (p->cache)
        plugin_log(GGML_LOG_LEVEL_WARN,
                   "stats: %" PRIu64 " matrices taken from %s, %" PRIu64 " packed and put there.",
                   c.pack_found, p->options.pack, c.pack_added);
}
