/* What the device's parts share: the device, weights, inputs, and one batch in flight. */
#ifndef ORK_DEVICE_H
#define ORK_DEVICE_H

#include <pthread.h>

#include "kernels.h"
#include "ork_plan.h"
#include "pack.h"
#include "pool.h"

/* The mutex guards caps' verdicts, stats, dead and failure; the rest is constant after open. */
struct ork_device {
    struct ork_transport *transport;
    struct ork_transport_info info;
    struct ork_open_options options;
    const struct ork_kernels *kernels;
    uint32_t n_cores;
    struct ork_pool pool;
    pthread_mutex_t lock;
    struct ork_caps caps;
    struct ork_stats stats;
    bool dead;
    char *failure; /* dump of the program that failed last */
    ork_runner *runner;
    void *runner_context;
};

struct ork_weight {
    struct ork_device *device; /* borrowed */
    struct ork_slicing slicing;
    uint32_t n;
    struct ork_bo bo;
};

/* Rows [first, first + rows.m) of an input, laid out as one matmul reads them. */
struct ork_input_part {
    struct ork_rows rows;
    uint64_t offset; /* in the input's memory */
    uint64_t first;
};

/* Invariants: parts describe what was laid out last (n_parts = 0: nothing yet) and end within
 * bo.bytes; part p's scales begin at n_slices * first, [slice][row] when per_slice, else [row]. */
struct ork_input {
    struct ork_device *device; /* borrowed */
    struct ork_slicing slicing;
    uint64_t max_m; /* rows there is room for in scales */
    struct ork_input_part *parts;
    size_t n_parts;
    size_t room_parts;
    struct ork_bo bo;
    float *scales;  /* n_slices x max_m; valid when quantised */
    float *scratch; /* 2 k */
    bool quantised;
    bool per_slice;
};

enum ork_batch_flags {
    ORK_BATCH_CHAIN = 1, /* chain whatever the verdict, where the transport can */
    ORK_BATCH_KICK = 2,  /* never chain */
    ORK_BATCH_PROBE = 4, /* a self test: verdicts do not forbid it, failures do not recover */
};

struct ork_batch_item {
    struct ork_matmul call; /* the caller's pointers, borrowed */
    struct ork_plan plan;
    uint32_t first_read;            /* number of its first read-back among the batch's */
    uint32_t core_base;             /* tile.core + core_base is the real core */
    uint64_t a_iova;                /* of the input's byte 0 */
    uint64_t a_offset;              /* in the batch's own input buffer, when it packs */
    uint64_t c_base[ORK_MAX_CORES]; /* in the real core's output buffer */
};

struct ork_batch_program {
    struct ork_program_ref ref;
    uint32_t item;
    uint32_t tile;
};

struct ork_batch_job {
    uint64_t ticket;
    uint32_t core;
    uint32_t first; /* program */
    uint32_t n;
    bool waited;
    struct ork_job_result result;
};

/* Invariants: programs are sorted by core, core c's are [core_first[c], core_first[c + 1]);
 * jobs [0, n_jobs) were submitted, in the order of programs; reads holds every buffer any of
 * them reads. Owned by the caller between submit and wait. */
struct ork_fence {
    struct ork_device *device;
    uint32_t domain;
    unsigned flags;
    bool chained;
    struct ork_batch_item *items;
    size_t n_items;
    struct ork_bo commands;
    struct ork_bo inputs;
    struct ork_bo outputs[ORK_MAX_CORES];
    uint64_t output_bytes[ORK_MAX_CORES];
    const struct ork_bo **reads;
    uint32_t n_reads;
    struct ork_batch_program *programs;
    uint32_t n_programs;
    uint32_t core_first[ORK_MAX_CORES + 1];
    struct ork_batch_job *jobs;
    uint32_t n_jobs;
    struct ork_work work;
    uint64_t macs_core[ORK_MAX_CORES]; /* as work.type's */
    double start_us;
};

/* ork_matmul_submit with flags. */
int ork_batch_submit(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                     unsigned flags, struct ork_fence **out, struct ork_error *error);
int ork_batch_run(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                  unsigned flags, struct ork_error *error);
/* (Re)submits all jobs of a built batch. On error nothing of it is in flight any more. */
int ork_batch_start(struct ork_fence *fence, struct ork_error *error);
/* Waits for the jobs still out; -ETIMEDOUT keeps them. */
int ork_batch_wait(struct ork_fence *fence, int64_t timeout_us);
/* See struct ork_input. */
const float *ork_input_part_scales(const struct ork_input *input, size_t part);
/* Nothing in flight. NULL and half-built are fine. */
void ork_batch_destroy(struct ork_fence *fence);
/* Marks outputs before a verified run, and waits until no mark is left after it. */
void ork_verify_poison(struct ork_fence *fence, uint8_t pattern);
int ork_verify_wait(struct ork_fence *fence, struct ork_error *error);

/* Weight with explicit plan options (m_multiple, cores), as the self test wants it. */
int ork_weight_create_planned(struct ork_device *device, enum ork_type type, uint32_t n, uint32_t k,
                              const struct ork_plan_options *options, uint32_t domain,
                              struct ork_weight **out, struct ork_error *error);

/* Verdict of the self test on a type: 1, 0, -1. */
int ork_selftest_verdict(const struct ork_device *device, enum ork_type type);
/* A smallest int8 product; 0 when right, -EIO when wrong, else the batch's error. */
int ork_selftest_alive(struct ork_device *device);

/* Keeps the dump of a failed job's program, recovers or marks the device dead; returns the error
 * to give the caller, *error filled. */
int ork_failure_handle(struct ork_fence *fence, struct ork_error *error);

double ork_clock_us(void);

#endif
