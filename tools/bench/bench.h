/*
 * bmoe-bench: how near a run is to its limit. All cases of one call share their prompts and are
 * interleaved, so that the ratios between them hold on a machine whose speed drifts.
 */
#ifndef BMOE_BENCH_H
#define BMOE_BENCH_H

#include "both.h"

#include "bmoe.h"

#include <stdio.h>

struct llama_model;
struct llama_context;

#define BENCH_MAX_REPS   31
#define BENCH_MAX_CASES  16
#define BENCH_MAX_PROMPT 2048
#define BENCH_MAX_DECODE 256

enum bench_phase { PHASE_PREFILL_256, PHASE_PREFILL_512, PHASE_DECODE, BENCH_N_PHASES };

struct bench_options {
    const char *model;
    uint64_t cache_bytes;
    uint64_t limit_bytes; /* memory of the comparison with stock; 0: a third of the file, none: 1 */
    unsigned reps, readers, n_decode;
    unsigned threads; /* 0: as a session chooses; stock: the CPUs */
    int repack;       /* enum bmoe_tristate: ON, OFF, or AUTO for both */
    int place;        /* enum bmoe_place; AUTO: all of them */
    bool no_limit;
};

/* What the pager's threads and waits took, in seconds; the readers' share is the sum over them. */
struct bench_spent {
    double read, carry, place, evict, wait;
    double cpu;           /* of the whole process */
    uint64_t ahead, used; /* experts' matrices read for a guess, and of them used */
};

/* Seconds by repetition. */
struct bench_times {
    double wall[BENCH_N_PHASES][BENCH_MAX_REPS];
    double reads[BENCH_N_PHASES]
                [BENCH_MAX_REPS]; /* the phase's own reads replayed; 0 when resident */
    double both[BENCH_N_PHASES]
               [BENCH_MAX_REPS]; /* computing all resident and these reads at once */
    double read_bytes[BENCH_N_PHASES];
    struct bench_spent spent[BENCH_N_PHASES]; /* of the last repetition */
    uint64_t logits; /* hash over all logits of the last repetition: equal within a run key */
};

struct bench_case {
    char name[48];
    bool streamed;
    enum bmoe_place place;
    enum bmoe_tristate repack;
    struct bmoe_session *session;
    struct bench_reads reads[BENCH_N_PHASES]; /* of the last repetition */
    struct bench_times times;
};

/* bench_case.c: opens, runs one repetition of all phases, makes its reads again beside a resident
 * case's computing (times.both), closes. Negative with *err. */
int bench_case_open(struct bench_case *c, const struct bench_options *o, struct bmoe_error *err);
int bench_case_run(struct bench_case *c, const struct bench_options *o, unsigned rep,
                   struct bmoe_error *err);
int bench_case_both(struct bench_case *c, const struct bench_case *resident,
                    const struct bench_options *o, unsigned rep, struct bmoe_error *err);
void bench_case_close(struct bench_case *c);
/* Of the wall times and the limits, repetition by repetition (so that a drift of the machine
 * cancels out), the median of their ratios. */
double bench_ratio(const double *wall, const double *limit, unsigned reps);

/* bench_stock.c: stock libllama, the file mapped (repack: copied into its faster layouts), in this
 * process. open answers -1 when libllama cannot; close is right after that too. run measures the
 * seconds of a prefill of 512 tokens into an empty context and of n_decode tokens. */
struct bench_stock {
    struct llama_model *model;
    struct llama_context *ctx;
    int32_t tokens[512], n_vocab;
    unsigned n_decode;
};
int bench_stock_open(struct bench_stock *s, const struct bench_options *o, bool repack);
int bench_stock_run(struct bench_stock *s, double *prefill, double *decode);
void bench_stock_close(struct bench_stock *s);

/* bench_limit.c: prints the pager and stock, each in a child in a memory control group of its own.
 * Answers 0, or 1 when no group can be made (said on stderr). */
int bench_limit(const struct bench_options *o);

/* bench_report.c */
double bench_median(const double *values, unsigned n);
void bench_report(const struct bench_case *cases, unsigned n, const struct bench_options *o);

/* max(compute, reads) by repetition. */
void bench_limits(const struct bench_case *c, const struct bench_case *resident, int phase,
                  unsigned reps, double *limits);
/* The case with everything resident in the same layouts, or NULL. */
const struct bench_case *bench_resident_of(const struct bench_case *cases, unsigned n,
                                           const struct bench_case *c);

/* bench_files.c: DIR/NAME and END, to be written; NULL with a sentence on stderr. finish answers -1
 * likewise. */
FILE *bench_create(const char *dir, const char *name, const char *end);
int bench_finish(FILE *f, const char *name);
/* A file, or stdout where path is NULL. end answers the exit status. */
FILE *bench_output(const char *path);
int bench_output_end(FILE *out, const char *path);

/* The prompt: the same n tokens in every case. */
void bench_tokens(int32_t *out, unsigned n, uint32_t n_vocab);
/* A request of these tokens, answered by n_predict whatever they are. */
void bench_generate_init(struct bmoe_generate *g, const int32_t *tokens, unsigned n,
                         unsigned n_predict);

/* FNV-1a over every 61st byte of a row: whether two runs gave the same. */
#define BENCH_HASH_EMPTY 14695981039346656037u
uint64_t bench_hash(uint64_t hash, const float *logits, uint32_t n_vocab);

#endif
