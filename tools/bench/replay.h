/*
 * bmoe-bench replay: a route trace replayed through cache policies. A cache here holds experts,
 * whole, under a budget in bytes; what is counted is how often a routed expert is there.
 */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include <stddef.h>
#include <stdint.h>

/* Experts in the order they were routed to, each once per routing. Item numbers are layer times
 * n_expert plus expert. */
struct replay_trace {
    uint32_t *items;
    uint32_t *next; /* next use of the same item: its number in items, or UINT32_MAX */
    size_t n, room;
    uint32_t n_expert, n_layers;
    uint64_t *layer_bytes; /* of one expert; 1 where the trace never tells */
    uint64_t total_bytes;  /* of all items that occur */
};

enum replay_policy { REPLAY_LRU, REPLAY_LFU, REPLAY_SLRU, REPLAY_BELADY, REPLAY_POLICIES };
extern const char *const replay_policy_names[REPLAY_POLICIES];

/* Reads a file of --route-trace. 0, or -1 with a sentence on stderr. */
int replay_trace_read(struct replay_trace *t, const char *path);
void replay_trace_fini(struct replay_trace *t);

/* The part of routed experts that a cache of `bytes` has; -1 without memory. Belady's knows the
 * future, and may leave an expert out: the bound for any policy. */
double replay_hit_rate(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes);

/* The subcommand: argv[0] is "replay". An exit status. */
int replay_main(int argc, char **argv);

#endif
