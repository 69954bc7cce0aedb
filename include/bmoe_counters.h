/*
 * The one list of counters. It makes struct bmoe_stats; the program makes of it the counters' keys
 * in BMOE_DONE and BMOE_STATS, in the trailer of a CSV file and in the summary; and the tables of
 * docs/protocol.md. A new counter is one row here and one assignment where it is measured.
 *
 *   BMOE_COUNTERS(X)   X(member, kind, unit, key, phases, meaning)
 *
 *   member   of struct bmoe_stats: int64_t, or -1 where it is not measured
 *   kind     SUM: adds up since the session opened, so a request's part is a difference;
 *            LEVEL: as it is now; PEAK: the most it has been
 *   unit     of the member: COUNT, BYTES or US (microseconds)
 *   key      of the protocol: counts as they are, bytes in MiB (_mib), times in seconds (_s)
 *   phases   WHOLE: a request's part is given for all of it; SPLIT: the part of its prefill is also
 *            given, as prefill_<key>
 */
#ifndef BMOE_COUNTERS_H
#define BMOE_COUNTERS_H

/* clang-format off */
#define BMOE_COUNTERS(X)                                                                           \
    X(bytes_read, SUM, BYTES, read_mib, SPLIT, "useful bytes of expert reads")                     \
    X(bytes_widened, SUM, BYTES, widened_mib, WHOLE, "bytes read beyond them for alignment")       \
    X(reads, SUM, COUNT, reads, WHOLE, "read calls of the readers")                                \
    X(hits, SUM, COUNT, cache_hits, WHOLE, "experts that were there when they were wanted")        \
    X(misses, SUM, COUNT, cache_misses, WHOLE, "experts that were not")                            \
    X(evictions, SUM, COUNT, evictions, WHOLE, "experts dropped for the budget")                   \
    X(rereads, SUM, COUNT, rereads, WHOLE, "experts read that had been there before")              \
    X(ahead_reads, SUM, COUNT, ahead_reads, WHOLE, "experts read for a guess of the next layer's") \
    X(ahead_used, SUM, COUNT, ahead_used, WHOLE, "of these, used before they were dropped")        \
    X(faults, SUM, COUNT, faults, WHOLE, "touches of absent experts, answered by a read")          \
    X(fault_wait_us, SUM, US, fault_wait_s, SPLIT,                                                 \
      "time compute threads slept in such touches, summed over threads")                           \
    X(hook_wait_us, SUM, US, hook_wait_s, SPLIT,                                                   \
      "time the graph waited for experts before a matmul, where touches are not answered")         \
    X(queue_wait_us, SUM, US, queue_wait_s, WHOLE, "time experts waited for a reader, summed")     \
    X(read_us, SUM, US, io_s, SPLIT, "time in read calls, summed over readers")                    \
    X(carry_us, SUM, US, carry_s, SPLIT, "time copying or repacking what was read, summed over readers") \
    X(place_us, SUM, US, place_s, SPLIT, "time placing pages, summed over readers")                \
    X(evict_us, SUM, US, evict_s, SPLIT, "time taking pages back, summed over threads")            \
    X(retries, SUM, COUNT, retries, WHOLE, "reads made again after a failure")                     \
    X(failed_reads, SUM, COUNT, failed_reads, WHOLE, "reads that failed for good")                 \
    X(fallbacks, SUM, COUNT, fallbacks, WHOLE, "pages copied because they could not be moved")     \
    X(lost_pages, SUM, COUNT, lost_pages, WHOLE, "pages found missing after they were placed")     \
    X(mapping_faults, SUM, COUNT, mapping_faults, WHOLE,                                           \
      "pages of weights read through libllama's mapping")                                          \
    X(resident_bytes, LEVEL, BYTES, cache_resident_mib, WHOLE, "experts in memory")                \
    X(resident_extents, LEVEL, COUNT, cache_resident, WHOLE, "the same, in expert matrices")       \
    X(budget_bytes, LEVEL, BYTES, cache_budget_mib, WHOLE, "the most experts may take, staging included") \
    X(pinned_bytes, LEVEL, BYTES, pinned_mib, WHOLE, "weights that stay in memory")                \
    X(state_bytes, LEVEL, BYTES, prefix_state_mib, WHOLE, "kept states of the context's memory")   \
    X(peak_rss_bytes, PEAK, BYTES, peak_rss_mib, WHOLE, "the process's most resident memory")      \
    X(cpu_us, SUM, US, cpu_s, SPLIT, "CPU time of the process, all threads")                       \
    X(majflt, SUM, COUNT, majflt, SPLIT, "major page faults of the process")                       \
    X(prefill_tokens, SUM, COUNT, prefill_tokens, WHOLE, "prompt tokens computed")                 \
    X(prefill_us, SUM, US, prefill_s, WHOLE, "time computing them")                                \
    X(decode_tokens, SUM, COUNT, decode_tokens, WHOLE, "tokens computed one by one")               \
    X(decode_us, SUM, US, decode_s, WHOLE, "time computing and choosing them")                     \
    X(dev_tokens, SUM, COUNT, prefill_dev_tokens, WHOLE, "prompt tokens computed on the prefill device") \
    X(dev_nodes, SUM, COUNT, prefill_dev_nodes, WHOLE, "graph nodes that it computed")             \
    X(dev_read_bytes, SUM, BYTES, prefill_dev_read_mib, WHOLE, "weights read from disk for it")    \
    X(dev_host_bytes, SUM, BYTES, prefill_dev_host_mib, WHOLE,                                     \
      "experts copied to it from memory instead")                                                  \
    X(dev_dense_bytes, SUM, BYTES, prefill_dev_dense_mib, WHOLE, "dense weights copied to it")     \
    X(dev_unused_bytes, SUM, BYTES, prefill_dev_unused_mib, WHOLE,                                 \
      "experts brought to it ahead and not routed to")                                             \
    X(dev_stall_us, SUM, US, prefill_dev_stall_s, WHOLE, "time its graphs waited for weights")     \
    X(dev_routed, SUM, COUNT, prefill_dev_routed, WHOLE, "experts its graphs routed to, by layer") \
    X(dev_demand, SUM, COUNT, prefill_dev_demand, WHOLE,                                           \
      "those not under way when their routing was known")                                          \
    X(dev_splits, SUM, COUNT, prefill_dev_splits, WHOLE,                                           \
      "changes between it and the CPU in its graphs")                                              \
    X(dev_cpu_matmuls, SUM, COUNT, prefill_dev_cpu_matmuls, WHOLE,                                 \
      "matmuls of layers that its graphs left to the CPU")                                         \
    X(dev_slots, LEVEL, COUNT, prefill_dev_slots, WHOLE, "layers it holds at a time")              \
    X(dev_bytes, LEVEL, BYTES, prefill_dev_mib, WHOLE, "its memory for weights")
/* clang-format on */

#endif
