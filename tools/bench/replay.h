/*
 * bmoe-bench replay and retention: routings replayed through cache policies. A cache here holds
 * experts, whole, under a budget in bytes; what is counted is how often a routed expert is there.
 * As in the pager, what a routing wants comes in whatever the policy thinks of it, and nothing that
 * it still wants goes for it.
 */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Marks of an item in a trace. A graph's first item is a routing's too. */
enum { REPLAY_GRAPH = 1, REPLAY_ROUTING = 2, REPLAY_PROMPT = 4 };

/* Experts in the order they were routed to, each once per routing. Item numbers are layer times
 * n_expert plus expert. */
struct replay_trace {
    uint32_t *items;
    uint8_t *marks;
    uint32_t *next; /* next use of the same item: its number in items, or UINT32_MAX */
    size_t n, room;
    uint32_t n_expert, n_layers;
    uint64_t *layer_bytes; /* of one expert; 1 where the trace never tells */
    uint64_t total_bytes;  /* of all items that occur */
};

/* The online ones first, then what knows the future: how often each item will be used (the most
 * used ones stay all the time), and when. Ours is the pager's own code. */
enum replay_policy {
    REPLAY_OURS,
    REPLAY_LRU,
    REPLAY_LFU,
    REPLAY_SLRU,
    REPLAY_TINYLFU,
    REPLAY_STATIC,
    REPLAY_BELADY,
    REPLAY_POLICIES
};
extern const char *const replay_policy_names[REPLAY_POLICIES];

/* An empty trace to be added to; 0, or -1 without memory. */
int replay_trace_init(struct replay_trace *t);
/* One more item; 0, or -1 without memory or when it is out of bounds. The trace grows to hold
 * `layer`; n_expert must not be more than the first item's. */
int replay_trace_add(struct replay_trace *t, uint32_t layer, uint32_t n_expert, uint32_t expert,
                     uint64_t bytes, unsigned marks);
/* After the last one. */
int replay_trace_finish(struct replay_trace *t);

/* Reads a file of --route-trace. 0, or -1 with a sentence on stderr. */
int replay_trace_read(struct replay_trace *t, const char *path);
void replay_trace_fini(struct replay_trace *t);

/* How often routed experts were there: of all, and of those of single tokens. */
struct replay_hits {
    size_t uses, hits, decode_uses, decode_hits;
};
/* A cache of `bytes`; -1 without memory. Belady's may leave an expert out: the bound for any
 * policy. */
int replay_run(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes,
               struct replay_hits *out);
/* The part of all; -1 without memory. */
double replay_hit_rate(const struct replay_trace *t, enum replay_policy policy, uint64_t bytes);

/* replay_ours.c: as replay_run. */
int replay_ours(const struct replay_trace *t, uint64_t bytes, struct replay_hits *out);

/* The subcommand: argv[0] is "replay". An exit status. */
int replay_main(int argc, char **argv);

#endif
