/*
 * What the command line said. options_parse fills struct cli_options from argv by the one table
 * of option_table.h; every value is checked whole (range, choice, unit) and the contradictory
 * combinations are refused, so that whoever reads the struct need not look again.
 *
 * Strings point into argv and live as long as it does.
 */
#ifndef BMOE_CLI_OPTIONS_H
#define BMOE_CLI_OPTIONS_H

#include "bmoe.h"
#include "option_table.h"

enum cli_action { CLI_RUN, CLI_HELP, CLI_VERSION, CLI_LIST_DEVICES, CLI_DESCRIBE_PARAMS };

enum { CLI_STOP_MAX = 16 };

/* Stop strings, in the order given. */
struct cli_list {
    const char *item[CLI_STOP_MAX];
    size_t n;
};

struct cli_options {
    int action; /* enum cli_action */

    const char *model;
    const char *prompt;
    const char *prompt_file; /* "-": standard input */
    bool show_config;
    bool session;
    bool decide;
    const char *decide_probe;
    int decide_cache;   /* enum bmoe_tristate */
    uint32_t n_predict; /* 0: until the context is full */
    struct cli_list stop;
    bool ignore_eos;

    bool chatml;
    int chat_format; /* index into the chat formats, -1: by the model's template */
    bool no_think;

    float temp;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repeat_penalty;
    uint32_t seed;
    const char *grammar_file;

    uint32_t threads; /* 0: the library's choice */
    uint32_t threads_batch;
    uint32_t ctx_size;
    uint32_t ubatch;     /* 0: the library's choice */
    int flash_attn;      /* enum bmoe_tristate */
    const char *cache_k; /* types of the KV cache */
    const char *cache_v;
    int cpu_repack; /* enum bmoe_tristate */
    uint32_t n_expert_used;

    bool moe_stream, no_moe_stream;
    uint64_t cache_mb; /* BMOE_CACHE_AUTO: auto */
    uint64_t cache_floor_mb;
    uint64_t cache_ceil_mb;
    uint32_t io_threads;
    bool no_odirect;
    int dense; /* enum bmoe_dense */
    bool load_all;
    int place; /* enum bmoe_place */

    const char *prefill_device;  /* NULL: none */
    uint32_t prefill_min_tokens; /* BMOE_MIN_TOKENS_AUTO: auto */
    uint32_t prefill_ubatch;
    uint32_t prefill_loaders;
    bool no_prefill_routed;
    float prefill_routed_full;
    int prefill_dense; /* enum bmoe_prefill_dense */

    const char *csv;
    const char *route_trace;
    const char *io_trace;
    const char *graph_trace;
    const char *ppl_file;
    const char *ppl_list;    /* a file of paths */
    const char *ppl_choices; /* with commas between them */
    uint32_t ppl_chunk;
    uint32_t ppl_skip;
    bool ppl_step;

    bool typed[OPTION_COUNT]; /* given on the command line, by enum option_id */
};

/* One line for the person who typed the options: an option that was accepted but does nothing. */
typedef void options_note_fn(void *user, const char *line);

/* Answers 0, or BMOE_E_MISUSE with the sentence in *err. Parsing ends at --help and --version.
 * note is called once for each accepted option that has no effect. */
int options_parse(struct cli_options *out, int argc, char **argv, options_note_fn *note, void *user,
                  struct bmoe_error *err);

/* What single options cannot know: contradictions and missing parts. Called by options_parse. */
int options_check(const struct cli_options *o, options_note_fn *note, void *user,
                  struct bmoe_error *err);

#endif
