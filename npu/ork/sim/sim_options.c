/* Parses the simulator's options by one table; a value is read whole and checked for its range. */
#include "sim_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_kind { OPTION_NUMBER, OPTION_BOOL, OPTION_KERNEL, OPTION_CHAIN, OPTION_QUIRKS };

struct option {
    const char *key;
    enum option_kind kind;
    uint64_t low, high, step;
    const char *allowed;
};

enum option_key {
    CORES,
    DOMAINS,
    THREADS,
    IOVA_BASE,
    NONCOHERENT,
    FAIL_JOB,
    DEAD_AFTER,
    KERNEL,
    CHAIN,
    QUIRKS
};

static const struct option table[] = {
    [CORES] = {"cores", OPTION_NUMBER, 1, ORK_MAX_CORES, 1, "1..3"},
    [DOMAINS] = {"domains", OPTION_NUMBER, 1, SIM_MAX_DOMAINS, 1, "1..16"},
    [THREADS] = {"threads", OPTION_NUMBER, 0, 1, 1, "0 or 1"},
    [IOVA_BASE] = {"iova_base", OPTION_NUMBER, 0, UINT32_MAX, SIM_PAGE_BYTES,
                   "a multiple of 4096 below 2^32"},
    [NONCOHERENT] = {"noncoherent", OPTION_NUMBER, 0, 1, 1, "0 or 1"},
    [FAIL_JOB] = {"fail_job", OPTION_NUMBER, 0, UINT64_MAX, 1, "a job number, from 1"},
    [DEAD_AFTER] = {"dead_after", OPTION_NUMBER, 0, UINT64_MAX, 1, "a number of jobs"},
    [KERNEL] = {"kernel", OPTION_KERNEL, 0, 0, 1, "vendor or mainline"},
    [CHAIN] = {"chain", OPTION_CHAIN, 0, 0, 1, "none, required or either"},
    [QUIRKS] = {"quirks", OPTION_QUIRKS, 0, 0, 1, "clamp, chain, lag, joined by +"},
};

struct word {
    const char *name;
    uint64_t value;
};

static const struct word kernels[] = {
    {"vendor", ORK_KERNEL_VENDOR}, {"mainline", ORK_KERNEL_MAINLINE}, {NULL, 0}};
static const struct word chains[] = {{"none", ORK_CHAIN_NONE},
                                     {"required", ORK_CHAIN_REQUIRED},
                                     {"either", ORK_CHAIN_EITHER},
                                     {NULL, 0}};
static const struct word quirks[] = {
    {"clamp", SIM_QUIRK_CLAMP}, {"chain", SIM_QUIRK_CHAIN}, {"lag", SIM_QUIRK_LAG}, {NULL, 0}};

static bool parse_word(const struct word *words, const char *text, size_t length, uint64_t *value)
{
    for (; words->name; words++)
        if (strlen(words->name) == length && !memcmp(words->name, text, length)) {
            *value = words->value;
            return true;
        }
    return false;
}

static bool parse_quirks(const char *text, uint64_t *value)
{
    *value = 0;
    for (;;) {
        size_t length = strcspn(text, "+");
        uint64_t bit;
        if (!parse_word(quirks, text, length, &bit))
            return false;
        *value |= bit;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

static bool parse_number(const struct option *option, const char *text, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return !errno && !*end && *value >= option->low && *value <= option->high &&
           *value % option->step == 0;
}

static bool parse_value(const struct option *option, const char *text, uint64_t *value)
{
    switch (option->kind) {
    case OPTION_KERNEL:
        return parse_word(kernels, text, strlen(text), value);
    case OPTION_CHAIN:
        return parse_word(chains, text, strlen(text), value);
    case OPTION_QUIRKS:
        return parse_quirks(text, value);
    default:
        return parse_number(option, text, value);
    }
}

static int refuse(struct ork_error *error, const char *what, const char *allowed)
{
    if (error) {
        error->code = -EINVAL;
        snprintf(error->text, sizeof error->text, "Simulator option \"%s\": expected %s.", what,
                 allowed);
    }
    return -EINVAL;
}

#define N_OPTIONS (sizeof table / sizeof *table)

/* One "key=value" into values[]. */
static int parse_pair(char *pair, uint64_t *values, bool *given, struct ork_error *error)
{
    char *value = strchr(pair, '=');
    for (size_t i = 0; value && i < N_OPTIONS; i++) {
        size_t length = (size_t)(value - pair);
        if (strlen(table[i].key) != length || memcmp(table[i].key, pair, length))
            continue;
        if (!parse_value(&table[i], value + 1, &values[i]))
            return refuse(error, pair, table[i].allowed);
        given[i] = true;
        return 0;
    }
    return refuse(error, pair,
                  "kernel, chain, cores, domains, threads, iova_base, noncoherent, quirks, "
                  "fail_job or dead_after, and a value");
}

int sim_options_parse(const char *options, struct sim_config *out, struct ork_error *error)
{
    uint64_t v[N_OPTIONS] = {[CORES] = ORK_MAX_CORES, [THREADS] = 1};
    bool given[N_OPTIONS] = {false};
    char *copy = strdup(options ? options : ""), *rest = NULL;
    int err = copy ? 0 : -ENOMEM;
    for (char *pair = copy ? strtok_r(copy, ",", &rest) : NULL; pair && !err;
         pair = strtok_r(NULL, ",", &rest))
        err = parse_pair(pair, v, given, error);
    free(copy);
    if (err)
        return err;
    if (!given[CHAIN])
        v[CHAIN] = v[KERNEL] == ORK_KERNEL_MAINLINE ? ORK_CHAIN_NONE : ORK_CHAIN_REQUIRED;
    if (!given[DOMAINS])
        v[DOMAINS] = v[KERNEL] == ORK_KERNEL_MAINLINE ? 1 : SIM_MAX_DOMAINS;
    *out = (struct sim_config){.kernel = (enum ork_kernel)v[KERNEL],
                               .chain = (enum ork_chain)v[CHAIN],
                               .n_cores = (unsigned)v[CORES],
                               .n_domains = (unsigned)v[DOMAINS],
                               .threads = v[THREADS],
                               .iova_base = v[IOVA_BASE],
                               .quirks = (unsigned)v[QUIRKS],
                               .noncoherent = v[NONCOHERENT],
                               .fail_job = v[FAIL_JOB],
                               .dead_after = v[DEAD_AFTER]};
    return 0;
}
