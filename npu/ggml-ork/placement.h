/* Who multiplies: the NPU or the host. From where the weight lies, how many rows meet it, the bytes
 * that move and what a submit costs on this machine; never from a name. Pure arithmetic, so that it
 * can be asked before a graph runs and tested without one.
 *
 * Both compute the same bits (ork_matmul_host), so that the answer is a matter of time alone. */
#ifndef GGML_ORK_PLACEMENT_H
#define GGML_ORK_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct placement_rules {
    double submit_us;  /* of one submit: measured at open, or what the option says */
    uint32_t n_cores;  /* of the NPU */
    uint32_t min_rows; /* dense products of at least so many rows go to the NPU; 0 = by time */
};

/* A product. */
struct placement_ask {
    bool resident; /* its weight is packed in device memory */
    bool routed;   /* MUL_MAT_ID */
    uint64_t rows; /* in all */
    uint32_t n, k;
    uint32_t active;       /* matrices that have rows */
    uint64_t weight_bytes; /* packed, of the active ones */
    uint64_t source_bytes; /* of the same in the model's type; what would be packed */
};

struct placement {
    bool on_npu;
    const char *why; /* a phrase; lives for ever */
    double npu_us;   /* model */
    double host_us;  /* model */
};

struct placement placement_decide(const struct placement_rules *rules,
                                  const struct placement_ask *ask);

#endif
