/*
 * One gate case: a model, how it is run, and from what memory. Written as words `name=value`, so
 * that a script can make products of them and a failing line can be run again by hand. The first
 * group is the run key: cases that share it must give the same bits.
 */
#ifndef GATE_CASE_H
#define GATE_CASE_H

#include "bmoe.h"

enum gate_budget {
    GATE_BUDGET_ALL,
    GATE_BUDGET_HALF,
    GATE_BUDGET_EIGHTH,
    GATE_BUDGET_FLOOR, /* or a part of the experts, when the floor is more */
};

struct gate_case {
    const char *model;
    bool repack;
    uint32_t n_expert_used; /* 0: the model's */
    uint32_t n_threads, n_ubatch, n_ctx;
    bool flash_attn;
    uint32_t n_prompt, n_decode; /* tokens */
    bool greedy;                 /* else tokens are drawn with a fixed seed: more varied routing */

    enum gate_budget budget;
    bool buffered, load_all;
    enum bmoe_place place;
    enum bmoe_dense dense;
    uint32_t n_readers;

    /* With a prefill device; zero: the defaults. */
    uint32_t prefill_ubatch, n_loaders;
    bool prefill_whole;
    float prefill_full;
    enum bmoe_prefill_dense prefill_dense;

    uint64_t budget_bytes; /* made of `budget` once the model's sizes are known; 0: all */

    bool stock; /* compare with a stock libllama run too */
};

#define GATE_SEED 7

void gate_case_init(struct gate_case *c);
/* Takes one word; false with a sentence on stderr when it is none. Borrows the word. */
bool gate_case_word(struct gate_case *c, const char *word);
/* The words of a case, for messages. */
void gate_case_print(const struct gate_case *c, char *out, size_t bytes);

/* Engine options of the case. */
void gate_case_options(const struct gate_case *c, bool streamed, struct bmoe_options *o);
/* The budget in bytes, for experts of expert_bytes and a floor. */
uint64_t gate_case_budget(const struct gate_case *c, uint64_t expert_bytes, uint64_t floor_bytes);

#endif
