/* The plug-in's options: environment variables, in one table, read once when ggml loads it. */
#ifndef GGML_ORK_PLUGIN_OPTIONS_H
#define GGML_ORK_PLUGIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plugin_options {
    char transport[16]; /* "" = the first device that is there */
    char sim[128];      /* the simulator's own options */
    uint32_t cores;     /* 0 = all */
    uint32_t timeout_ms;
    bool verify;
    char quant[16]; /* "" = w8a8 */
    char group[8];  /* "" = 128; of w4a4 */
    bool rotate;
    uint32_t min_rows;
    uint32_t submit_us; /* 0 = as measured */
    uint32_t threads;   /* 0 = one per processor */
    bool move;
    char pack[1024]; /* path; "" = none */
    bool trace;
    bool stats;
};

/* Looks a variable up; getenv, or a table of a test. */
typedef const char *plugin_lookup(const char *name);

/* 0, or -EINVAL with one sentence that names the variable and what it takes. Unset and empty
 * variables leave the default. */
int plugin_options_read(plugin_lookup *lookup, struct plugin_options *out, char *sentence,
                        size_t sentence_bytes);

/* The table's *n lines, for documents and their test. */
struct plugin_option_line {
    const char *name;
    const char *takes;
    const char *does;
};
const struct plugin_option_line *plugin_options_lines(size_t *n);

#endif
