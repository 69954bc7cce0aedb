/*
 * The one table of options. The parser, --help, the option section of the manual page and the check
 * that they agree all read it; nothing else lists options.
 *
 * Invariant of a row: its value's C type follows from its kind (see the comment there) and lies at
 * `offset` of struct cli_options; `fallback` is text of the same form a user would type, parsed by
 * the same code. A row whose kind is OPTION_IGNORED or OPTION_REFUSED has no value: `help` is the
 * sentence that says why.
 */
#ifndef BMOE_CLI_OPTION_TABLE_H
#define BMOE_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_id {
    OPT_MODEL,
    OPT_PROMPT,
    OPT_FILE,
    OPT_SESSION,
    OPT_DECIDE,
    OPT_DECIDE_PREFIX_CACHE,
    OPT_DECIDE_PROBE,
    OPT_N_PREDICT,
    OPT_STOP,
    OPT_IGNORE_EOS,
    OPT_CHATML,
    OPT_CHAT_FORMAT,
    OPT_NO_THINK,
    OPT_TEMP,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPEAT_PENALTY,
    OPT_SEED,
    OPT_GRAMMAR_FILE,
    OPT_THREADS,
    OPT_THREADS_BATCH,
    OPT_CTX_SIZE,
    OPT_UBATCH,
    OPT_FLASH_ATTN,
    OPT_CACHE_TYPE_K,
    OPT_CACHE_TYPE_V,
    OPT_CPU_REPACK,
    OPT_N_EXPERT_USED,
    OPT_MOE_STREAM,
    OPT_NO_MOE_STREAM,
    OPT_CACHE_MB,
    OPT_CACHE_FLOOR_MB,
    OPT_CACHE_CEIL_MB,
    OPT_IO_THREADS,
    OPT_NO_ODIRECT,
    OPT_DENSE_WEIGHTS,
    OPT_LOAD_ALL,
    OPT_FORCE_CACHE,
    OPT_OVERLAP,
    OPT_PREFILL_DEVICE,
    OPT_PREFILL_MIN_TOKENS,
    OPT_PREFILL_UBATCH,
    OPT_PREFILL_LOADERS,
    OPT_NO_PREFILL_ROUTED,
    OPT_PREFILL_ROUTED_FULL,
    OPT_PREFILL_DENSE,
    OPT_PPL,
    OPT_PPL_CHUNK,
    OPT_PPL_SKIP,
    OPT_PPL_STEP,
    OPT_PPL_LIST,
    OPT_PPL_CHOICES,
    OPT_CSV,
    OPT_ROUTE_TRACE,
    OPT_IO_TRACE,
    OPT_GRAPH_TRACE,
    OPT_LIST_DEVICES,
    OPT_DESCRIBE_PARAMS,
    OPT_SHOW_CONFIG,
    OPT_HELP,
    OPT_VERSION,
    OPT_PLACE,
    OPT_PREFETCH,
    OPT_PREFETCH_SYNC,
    OPT_PREDICT_LOG,
    OPT_PREDICT_PREFETCH,
    OPT_PREDICT_SPEC_MAX,
    OPT_DROP_COLD_EXPERTS,
    OPT_DROP_NO_RENORM,
    OPT_DROP_IN_PREFILL,
    OPT_EXPERT_SUBSTITUTE,
    OPT_ROUTE_AHEAD,
    OPT_MTP,
    OPT_MTP_P_MIN,
    OPT_NGRAM,
    OPT_NGRAM_MIN_MATCH,
    OPT_NGRAM_MAX_MATCH,
    OPT_DRAFT,
    OPTION_COUNT
};

enum option_kind {
    OPTION_SWITCH,  /* bool, no argument */
    OPTION_TEXT,    /* const char *; one of the choices if there are any */
    OPTION_LIST,    /* struct cli_list, may be given several times */
    OPTION_U32,     /* uint32_t in [min, max] or a choice */
    OPTION_U64,     /* uint64_t in [min, max] or a choice */
    OPTION_F32,     /* float in [min, max]; above_min: in (min, max] */
    OPTION_CHOICE,  /* int, one of the choices */
    OPTION_ACTION,  /* int, `min` is the enum cli_action it sets */
    OPTION_IGNORED, /* accepted with one line */
    OPTION_REFUSED  /* refused with one sentence */
};

enum option_group {
    GROUP_MAIN,
    GROUP_CHAT,
    GROUP_SAMPLING,
    GROUP_RUN,
    GROUP_STREAM,
    GROUP_DEVICE,
    GROUP_MEASURE,
    GROUP_OTHER,
    GROUP_TEST,
    GROUP_REFUSED,
    GROUP_COUNT
};

/* A dense mode the public API does not have; options_check refuses it. */
enum { OPTION_DENSE_AHWB = 100 };

struct option_choice {
    const char *name; /* NULL ends a list of choices */
    int64_t value;
};

struct option_row {
    const char *name;     /* "--model" */
    const char *brief;    /* "-m" or NULL */
    const char *argument; /* "FILE"; NULL: takes none */
    const char *unit;     /* "tokens", "MiB"; NULL: none */
    const char *fallback; /* the value when not given, as a user would type it; NULL: zero */
    const char *help;     /* a phrase without a full stop; for REFUSED and IGNORED a sentence */
    const struct option_choice *choices;
    double min, max;
    size_t offset;
    enum option_kind kind;
    enum option_group group;
    bool above_min;
};

extern const struct option_row option_table[OPTION_COUNT];

/* The heading of a group in help and manual page: "Sampling". */
const char *option_group_title(enum option_group group);

#endif
