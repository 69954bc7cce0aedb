/*
 * The one list of counters. It makes struct bmoe_stats; the program makes of it the counters' keys
 * in BMOE_DONE and BMOE_STATS, in the trailer of a CSV file and in the summary; and the tables of
 * docs/protocol.md. A new counter is one row here and one assignment where it is measured.
 *
 *   BMOE_COUNTERS(X)   X(member, kind, unit, key, phases, meaning, brief)
 *
 *   member   of struct bmoe_stats: int64_t, or -1 where it is not measured
 *   kind     SUM: adds up since the session opened, so a request's part is a difference;
 *            LEVEL: as it is now; PEAK: the most it has been
 *   unit     of the member: COUNT, BYTES or US (microseconds)
 *   key      of the protocol: counts as they are, bytes in MiB (_mib), times in seconds (_s)
 *   phases   WHOLE: a request's part is given for all of it; SPLIT: the part of its prefill is also
 *            given, as prefill_<key>
 *   brief    how the summary for people says it, the first % being the number in the key's unit:
 *            those of the same words are added up; one that begins with a space goes on with what
 *            the list says before it, and is left out with that; NULL: not at all
 */
#ifndef BMOE_COUNTERS_H
#define BMOE_COUNTERS_H

/* clang-format off */
#define BMOE_COUNTERS(X)                                                                           \
    X(bytes_read, SUM, BYTES, read_mib, SPLIT, "useful bytes of expert reads", "read % MiB")       \
    X(bytes_widened, SUM, BYTES, widened_mib, WHOLE,                                               \
      "bytes read beyond them for alignment", NULL)                                                \
    X(reads, SUM, COUNT, reads, WHOLE, "read calls of the readers", NULL)                          \
    X(hits, SUM, COUNT, cache_hits, WHOLE, "experts that were there when they were wanted", NULL)  \
    X(misses, SUM, COUNT, cache_misses, WHOLE, "experts that were not", NULL)                      \
    X(evictions, SUM, COUNT, evictions, WHOLE, "experts dropped for the budget", NULL)             \
    X(rereads, SUM, COUNT, rereads, WHOLE, "experts read that had been there before", NULL)        \
    X(ahead_reads, SUM, COUNT, ahead_reads, WHOLE,                                                 \
      "experts read for a guess of the next layer's", NULL)                                        \
    X(ahead_used, SUM, COUNT, ahead_used, WHOLE, "of these, used before they were dropped", NULL)  \
    X(faults, SUM, COUNT, faults, WHOLE, "touches of absent experts, answered by a read", NULL)    \
    X(fault_wait_us, SUM, US, fault_wait_s, SPLIT,                                                 \
      "time compute threads slept in such touches, summed over threads", "stall % s")              \
    X(hook_wait_us, SUM, US, hook_wait_s, SPLIT,                                                   \
      "time the graph waited for experts before a matmul, where touches are not answered",         \
      "stall % s")                                                                                 \
    X(queue_wait_us, SUM, US, queue_wait_s, WHOLE,                                                 \
      "time experts waited for a reader, summed", NULL)                                            \
    X(read_us, SUM, US, io_s, SPLIT, "time in read calls, summed over readers", NULL)              \
    X(carry_us, SUM, US, carry_s, SPLIT,                                                           \
      "time copying or repacking what was read, summed over readers", NULL)                        \
    X(place_us, SUM, US, place_s, SPLIT, "time placing pages, summed over readers", NULL)          \
    X(evict_us, SUM, US, evict_s, SPLIT, "time taking pages back, summed over threads", NULL)      \
    X(retries, SUM, COUNT, retries, WHOLE,                                                         \
      "reads made again after a failure", "% reads made again")                                    \
    X(failed_reads, SUM, COUNT, failed_reads, WHOLE, "reads that failed for good", NULL)           \
    X(fallbacks, SUM, COUNT, fallbacks, WHOLE,                                                     \
      "pages copied because they could not be moved", NULL)                                        \
    X(lost_pages, SUM, COUNT, lost_pages, WHOLE,                                                   \
      "pages found missing after they were placed", NULL)                                          \
    X(mapping_faults, SUM, COUNT, mapping_faults, WHOLE,                                           \
      "pages of weights read through libllama's mapping", NULL)                                    \
    X(resident_bytes, LEVEL, BYTES, cache_resident_mib, WHOLE, "experts in memory", NULL)          \
    X(resident_extents, LEVEL, COUNT, cache_resident, WHOLE,                                       \
      "the same, in expert matrices", NULL)                                                        \
    X(budget_bytes, LEVEL, BYTES, cache_budget_mib, WHOLE,                                         \
      "the most experts may take, staging included", NULL)                                         \
    X(pinned_bytes, LEVEL, BYTES, pinned_mib, WHOLE, "weights that stay in memory", NULL)          \
    X(state_bytes, LEVEL, BYTES, prefix_state_mib, WHOLE,                                          \
      "kept states of the context's memory", NULL)                                                 \
    X(peak_rss_bytes, PEAK, BYTES, peak_rss_mib, WHOLE,                                            \
      "the process's most resident memory", "peak memory % MiB")                                   \
    X(cpu_us, SUM, US, cpu_s, SPLIT, "CPU time of the process, all threads", NULL)                 \
    X(majflt, SUM, COUNT, majflt, SPLIT, "major page faults of the process", NULL)                 \
    X(prefill_tokens, SUM, COUNT, prefill_tokens, WHOLE, "prompt tokens computed", NULL)           \
    X(prefill_us, SUM, US, prefill_s, WHOLE, "time computing them", NULL)                          \
    X(decode_tokens, SUM, COUNT, decode_tokens, WHOLE, "tokens computed one by one", NULL)         \
    X(decode_us, SUM, US, decode_s, WHOLE, "time computing and choosing them", NULL)               \
    X(dev_tokens, SUM, COUNT, prefill_dev_tokens, WHOLE,                                           \
      "prompt tokens computed on the prefill device", "prefill device % tokens")                   \
    X(dev_nodes, SUM, COUNT, prefill_dev_nodes, WHOLE, "graph nodes that it computed", NULL)       \
    X(dev_read_bytes, SUM, BYTES, prefill_dev_read_mib, WHOLE,                                     \
      "weights read from disk for it", " with % MiB read for it")                                  \
    X(dev_host_bytes, SUM, BYTES, prefill_dev_host_mib, WHOLE,                                     \
      "experts copied to it from memory instead", NULL)                                            \
    X(dev_dense_bytes, SUM, BYTES, prefill_dev_dense_mib, WHOLE,                                   \
      "dense weights copied to it", NULL)                                                          \
    X(dev_unused_bytes, SUM, BYTES, prefill_dev_unused_mib, WHOLE,                                 \
      "experts brought to it ahead and not routed to", NULL)                                       \
    X(dev_stall_us, SUM, US, prefill_dev_stall_s, WHOLE,                                           \
      "time its graphs waited for weights", " and % s waited for them")                            \
    X(dev_routed, SUM, COUNT, prefill_dev_routed, WHOLE,                                           \
      "experts its graphs routed to, by layer", NULL)                                              \
    X(dev_demand, SUM, COUNT, prefill_dev_demand, WHOLE,                                           \
      "those not under way when their routing was known", NULL)                                    \
    X(dev_splits, SUM, COUNT, prefill_dev_splits, WHOLE,                                           \
      "changes between it and the CPU in its graphs", NULL)                                        \
    X(dev_cpu_matmuls, SUM, COUNT, prefill_dev_cpu_matmuls, WHOLE,                                 \
      "matmuls of layers that its graphs left to the CPU", NULL)                                   \
    X(dev_slots, LEVEL, COUNT, prefill_dev_slots, WHOLE, "layers it holds at a time", NULL)        \
    X(dev_bytes, LEVEL, BYTES, prefill_dev_mib, WHOLE, "its memory for weights", NULL)
/* clang-format on */

#endif
