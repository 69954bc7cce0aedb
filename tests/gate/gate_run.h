/*
 * Running a case in a child process of its own, so that its peak memory is its own and a crash is a
 * result. Three ways: stock libllama without anything of ours, our engine resident, our engine
 * streamed.
 */
#ifndef GATE_RUN_H
#define GATE_RUN_H

#include "gate_case.h"
#include "gate_rows.h"

enum gate_way {
    GATE_STOCK,
    GATE_RESIDENT,
    GATE_STREAMED,
    GATE_PROBE, /* opens and describes; no rows */
};

/* What a child leaves. Pointers in info are not valid in the parent. */
struct gate_result {
    int code; /* enum bmoe_code; 1: the child did not come to its end */
    char text[512];
    char mode[1024];
    uint32_t prompt_bytes; /* of the gate's text, for n_prompt tokens */
    uint32_t n_prompt, n_vocab, n_rows;
    int64_t peak_bytes; /* VmHWM */
    double seconds;
    struct bmoe_info info;
    struct bmoe_stats stats;
};

/* Runs the case; prompt_bytes: how much of gate_text is the prompt (0: found out, stock only). Rows
 * go to *rows, which the caller has opened. */
void gate_run(const struct gate_case *c, enum gate_way way, uint32_t prompt_bytes,
              struct gate_rows *rows, struct gate_result *out);

/* In the child: the ways. */
void gate_stock(const struct gate_case *c, struct gate_rows *rows, struct gate_result *out);
void gate_probe(const struct gate_case *c, struct gate_result *out);
void gate_bmoe(const struct gate_case *c, bool streamed, uint32_t prompt_bytes,
               struct gate_rows *rows, struct gate_result *out);

#endif
