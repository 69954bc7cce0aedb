/*
 * Every key of every line a session writes, for the documentation and for the check of what is
 * written. The figures and counters of BMOE_DONE and BMOE_STATS come from their own lists (turn.h,
 * bmoe_counters.h) and are given here beside the rest.
 */
#ifndef BMOE_CLI_LINE_KEYS_H
#define BMOE_CLI_LINE_KEYS_H

/* clang-format off */
/* X(tag, key, type, unit, when, meaning); types: integer, number, boolean, text, numbers (a list in
 * which null stands for minus infinity); when: always, or what must be the case. */
#define LINE_KEYS(X)                                                                               \
    X(READY, v, "integer", "", "always", "version of these lines")                                 \
    X(READY, version, "text", "", "always", "version of the program")                              \
    X(READY, load_s, "number", "s", "always", "opening the model")                                 \
    X(READY, arch, "text", "", "always", "the model's architecture")                               \
    X(READY, n_ctx, "integer", "count", "always", "tokens the context holds")                      \
    X(READY, think_ctl, "text", "", "always",                                                      \
      "`template`: the model does not reason; `prefill`: the prompt closes its thinking span; "    \
      "`none`: it cannot be kept from thinking, or its chat format is not known")                  \
    X(READY, n_expert_used, "integer", "count", "always", "experts a token is routed to in a layer, 0: no experts") \
    X(READY, mode, "text", "", "always", "what is in force, and the run key")                      \
    X(BEGIN, id, "integer", "", "always", "the request")                                           \
    X(LOAD, id, "integer", "", "always", "the request")                                            \
    X(LOAD, mb, "number", "MiB", "always", "read for this token")                                  \
    X(LOAD, ms, "number", "ms", "always", "time in its read calls, summed over readers")           \
    X(PROGRESS, id, "integer", "", "always", "the request")                                        \
    X(PROGRESS, step, "integer", "count", "always", "number of the token, from 1; 0: the prompt is being read") \
    X(PROGRESS, steps, "integer", "count", "always", "tokens at most, 0: until the context is full") \
    X(PROGRESS, wall_ms, "number", "ms", "always", "of the decode that made the token (the first comes from the prompt: 0); at step 0 since the request began") \
    X(PROGRESS, tokens_done, "integer", "count", "step is 0", "prompt tokens computed")            \
    X(PROGRESS, tokens_total, "integer", "count", "step is 0", "prompt tokens to compute")         \
    X(PROGRESS, io_ms, "number", "ms", "step is not 0", "time in read calls, summed over readers: may exceed wall_ms") \
    X(PROGRESS, compute_ms, "number", "ms", "step is not 0", "wall_ms without stall_ms")           \
    X(PROGRESS, mgmt_ms, "number", "ms", "step is not 0", "carrying, placing and taking back, summed over readers") \
    X(PROGRESS, stall_ms, "number", "ms", "step is not 0", "a compute thread's share of the waits for experts") \
    X(PROGRESS, read_mb, "number", "MiB", "step is not 0", "useful bytes of expert reads")         \
    X(PROGRESS, cache_hit_pct, "number", "%", "step is not 0", "experts that were there when they were wanted, since the session opened") \
    X(PROGRESS, majflt, "integer", "count", "step is not 0", "major page faults of the process")   \
    X(PROGRESS, cpu_ms, "number", "ms", "step is not 0", "CPU time of the process, all threads")   \
    X(PROGRESS, dense_resident_frac, "number", "", "step is not 0", "not measured: -1")            \
    X(PROGRESS, delta_reasoning, "text", "", "step is not 0", "what is new of the thinking span")  \
    X(PROGRESS, delta_text, "text", "", "step is not 0", "what is new of the answer")              \
    X(DONE, id, "integer", "", "always", "the request")                                            \
    X(DONE, cancelled, "boolean", "", "always", "it was ended by `cancel` or a signal")            \
    X(DONE, end, "text", "", "always", "`model`, `limit`, `stop` or `cancelled`: what ended it")   \
    X(DONE, n_dropped, "integer", "count", "always", "messages that `fit_ctx` left out")           \
    X(DONE, reasoning, "text", "", "always", "the thinking span")                                  \
    X(DONE, text, "text", "", "always", "the answer")                                              \
    X(DECIDE, id, "integer", "", "always", "the request")                                          \
    X(DECIDE, cancelled, "boolean", "", "always", "it was ended by `cancel` or a signal")          \
    X(DECIDE, best, "integer", "", "always", "index of the likeliest choice, -1 when cancelled")   \
    X(DECIDE, choice_logp, "numbers", "", "always", "natural logarithm of the probability of each choice's first token, 17 digits; null: it has none") \
    X(DECIDE, n_tokens, "integer", "count", "always", "prefix and suffix")                         \
    X(DECIDE, n_reused, "integer", "count", "always", "of them, from the kept state")              \
    X(DECIDE, n_prefilled, "integer", "count", "always", "of them, computed")                      \
    X(DECIDE, restore_s, "number", "s", "always", "bringing the kept state back")                  \
    X(DECIDE, store_s, "number", "s", "always", "keeping the state")                               \
    X(DECIDE, prefill_s, "number", "s", "always", "computing")                                     \
    X(DECIDE, prefill_stall_s, "number", "s", "always", "a compute thread's share of the waits for experts") \
    X(DECIDE, prefill_mgmt_s, "number", "s", "always", "carrying, placing and taking back, summed over readers") \
    X(DECIDE, prefix_state_mib, "number", "MiB", "always", "the kept state")                       \
    X(STATS, id, "integer", "", "always", "the request")                                           \
    X(STATS, n_messages, "integer", "count", "always", "messages of the conversation")             \
    X(ERROR, id, "integer", "", "always", "the request, 0 where it is not known")                  \
    X(ERROR, fatal, "boolean", "", "always", "the session ends")                                   \
    X(ERROR, code, "text", "", "always", "what kind of error, see below")                          \
    X(ERROR, scope, "text", "", "always", "`request`, `session` or `process`: what is of no use any more") \
    X(ERROR, msg, "text", "", "always", "one sentence for people")
/* clang-format on */

#endif
