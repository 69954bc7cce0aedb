/*
 * What the seam tests share: the tiny model opened in one of a few ways, its graph watched, its
 * logits taken. Every test is a function of no arguments that fails through cmocka's assertions;
 * the table in seam_main.c gives it its name and the sentence that a refusal prints.
 *
 * A run is opened and closed by one test and used by its thread alone.
 */
#ifndef SEAM_H
#define SEAM_H

#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SEAM_VOCAB      2048
#define SEAM_PROMPT_MAX 64

struct seam_run;

/* Sees each node before (ask) and, where it answered true, after it was computed. */
typedef bool seam_node_fn(struct seam_run *run, struct ggml_tensor *node, bool ask);

struct seam_setup {
    bool untouchable;  /* libllama's mapping is answered with memory that faults on any access */
    bool extra_bufts;  /* the load may repack */
    uint32_t n_ubatch; /* 0: the whole prompt in one graph */
    seam_node_fn *node;
    void *user;
};

/* A tensor of the file, as the graph shows it. */
struct seam_weight {
    struct ggml_tensor *tensor;
    size_t offset; /* in the file */
    void *mapped;  /* where libllama thought it is */
    size_t bytes;
    bool matrix_only; /* every use is src[0] of MUL_MAT or MUL_MAT_ID */
    bool expert;      /* some use is src[0] of MUL_MAT_ID */
};

struct seam_run {
    struct seam_setup setup;
    struct llama_model *model;
    struct llama_context *ctx;
    llama_token prompt[SEAM_PROMPT_MAX];
    int n_prompt;

    void *map; /* what libllama was given when untouchable; libllama unmaps it */
    size_t map_bytes;
    unsigned n_maps;   /* times a mapping of the model was asked for */
    int slots;         /* import slots that were found */
    int abort_after;   /* abort callback calls answered false before true; -1: never true */
    unsigned n_asked;  /* nodes seen with ask, since it was last zeroed */
    unsigned n_shown;  /* nodes seen after compute */
    bool other_thread; /* a callback came on a thread that did not call the decode */
    uint64_t thread;

    uint8_t *file; /* the whole file, read by us; owned */
    size_t file_bytes;
    struct seam_weight *weights; /* from seam_capture; owned */
    size_t n_weights;
};

/* The path of the model, given to the program. */
extern const char *seam_model_path;

/* Loads the one CPU backend that suits this machine best, once per process. */
void seam_load_cpu(void);

void seam_open(struct seam_run *run, const struct seam_setup *setup);
void seam_close(struct seam_run *run);

/* llama_decode of the prompt or of one token; the answer is llama_decode's. */
int seam_prefill(struct seam_run *run);
int seam_decode(struct seam_run *run, llama_token token);
void seam_forget(struct seam_run *run);

/* The last output's logits. */
void seam_logits(struct seam_run *run, float out[SEAM_VOCAB]);

/* Prefill and four decodes of fixed tokens in a fresh memory, all logits one after the other. */
#define SEAM_STEPS 5
void seam_answer(struct seam_run *run, float out[SEAM_STEPS * SEAM_VOCAB]);

/* The same from a plain load, which every binding must reproduce. */
void seam_stock_answer(bool extra_bufts, float out[SEAM_STEPS * SEAM_VOCAB]);

/* The weight a node's source is (through its views), or NULL: by its buffer's usage. */
struct ggml_tensor *seam_root(struct ggml_tensor *t);
bool seam_is_weight(const struct ggml_tensor *t);

/* Fills run->weights by a decode that is aborted at once, and points them at run->file. */
void seam_capture(struct seam_run *run);

/* Points every weight at our copy of the file. Where pad is given, experts lie at multiples of it.
 */
struct seam_store {
    uint8_t *base; /* an anonymous mapping; owned */
    size_t bytes;
};
void seam_bind(struct seam_run *run, struct seam_store *store, size_t pad);
void seam_store_free(struct seam_store *store);

/* ggml's faster CPU layouts, or NULL where this CPU has none. */
ggml_backend_buffer_type_t seam_repack_type(void);

#endif
