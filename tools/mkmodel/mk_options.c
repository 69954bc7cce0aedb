/*
 * Parses the options in two steps, so that their order does not matter: the preset is looked up
 * first, then the overrides are laid over its shape. Every number is parsed whole and checked
 * against the range in the table.
 */
#include "mk_options.h"

#include "mk_arch.h"
#include "mk_vocab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum option_id {
    OPT_PRESET,
    OPT_ARCH,
    OPT_SHAPE,
    OPT_TYPE,
    OPT_TYPE_FOR,
    OPT_ZIPF,
    OPT_SEED,
    OPT_SHARDS,
    OPT_EMPTY_FIRST,
    OPT_TIED,
    OPT_FUSED,
    OPT_MTP,
    OPT_TEMPLATE,
    OPT_THREADS,
    OPT_LIST,
    OPT_OUTPUT,
    OPT_HELP,
};

struct option_row {
    const char *name;
    const char *value; /* what the value is called; NULL: no value */
    const char *help;
    enum option_id id;
    size_t offset; /* OPT_SHAPE: of the number in struct mk_shape */
    long long min;
    long long max;
};

#define SHAPE(field) OPT_SHAPE, offsetof(struct mk_shape, field)

static const struct option_row table[] = {
    {"--preset", "NAME", "begin with this preset (default T1)", OPT_PRESET, 0, 0, 0},
    {"--arch", "NAME", "begin with the tiny preset of an architecture", OPT_ARCH, 0, 0, 0},
    {"--layers", "N", "layers", SHAPE(layers), 1, 512},
    {"--experts", "N", "experts of a layer", SHAPE(experts), 1, 1024},
    {"--used", "N", "routed experts of a token", SHAPE(used), 1, 256},
    {"--embd", "N", "width of the residual stream", SHAPE(embd), 32, 65536},
    {"--ff", "N", "inner width of an expert", SHAPE(ff), 32, 65536},
    {"--shared-ff", "N", "inner width of the shared expert", SHAPE(shared_ff), 32, 65536},
    {"--dense-ff", "N", "inner width of a dense layer", SHAPE(dense_ff), 32, 65536},
    {"--heads", "N", "attention heads", SHAPE(heads), 1, 1024},
    {"--kv-heads", "N", "key and value heads", SHAPE(kv_heads), 1, 1024},
    {"--vocab", "N", "tokens of the vocabulary", SHAPE(vocab), MK_VOCAB_MIN, 1000000},
    {"--type", "TYPE", "type of the matrices, or Q4_K_M, Q5_K_M, MXFP4_MOE", OPT_TYPE, 0, 0, 0},
    {"--type-for", "PATTERN=TYPE", "type of the tensors a shell pattern matches", OPT_TYPE_FOR, 0,
     0, 0},
    {"--zipf", "S", "exponent of the preferences for experts (0: none)", OPT_ZIPF, 0, 0, 16},
    {"--seed", "N", "seed of all numbers (default 1)", OPT_SEED, 0, 0, INT64_MAX},
    {"--shards", "N", "write N files NAME-00001-of-0000N.gguf", OPT_SHARDS, 0, 1, 999},
    {"--empty-first", NULL, "the first shard holds metadata only", OPT_EMPTY_FIRST, 0, 0, 0},
    {"--tied", NULL, "the head is the embedding", OPT_TIED, 0, 0, 0},
    {"--fused", NULL, "gate and up of the experts are one tensor", OPT_FUSED, 0, 0, 0},
    {"--mtp", NULL, "add a block that predicts a second token", OPT_MTP, 0, 0, 0},
    {"--chat-template", "FILE", "put a chat template into the file", OPT_TEMPLATE, 0, 0, 0},
    {"--threads", "N", "threads (default: the CPUs, at most 16)", OPT_THREADS, 0, 1, 256},
    {"--list", NULL, "print the tensors and write nothing", OPT_LIST, 0, 0, 0},
    {"-o", "FILE", "the file to write", OPT_OUTPUT, 0, 0, 0},
    {"--help", NULL, "print this", OPT_HELP, 0, 0, 0},
};

enum { N_OPTIONS = sizeof table / sizeof table[0] };

/* What was given for the shape, to be laid over the preset. */
struct given {
    const char *preset;
    const char *arch;
    int64_t numbers[N_OPTIONS]; /* by row of the table; 0: not given */
};

void mk_options_help(void)
{
    printf("Usage: bmoe-mkmodel [OPTION]... -o FILE\n"
           "Writes a synthetic Mixture-of-Experts model that libllama loads.\n\n");
    for (int i = 0; i < N_OPTIONS; i++)
        printf("  %-15s %-13s %s\n", table[i].name, table[i].value ? table[i].value : "",
               table[i].help);
    printf("\nPresets:\n");
    for (int i = 0; mk_shape_at(i); i++) {
        const struct mk_shape *shape = mk_shape_at(i);

        printf("  %-6s %-15s %s\n", shape->preset, shape->arch, shape->mimics);
    }
}

static int parse_int(const struct option_row *row, const char *text, long long *value,
                     struct bmoe_error *error)
{
    char *end;

    errno = 0;
    *value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end || *value < row->min || *value > row->max)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "%s %s: give a whole number from %lld to %lld.", row->name, text, row->min,
                         row->max);
    return 0;
}

static int parse_real(const struct option_row *row, const char *text, float *value,
                      struct bmoe_error *error)
{
    char *end;

    *value = strtof(text, &end);
    if (end == text || *end || !(*value >= (float)row->min && *value <= (float)row->max))
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "%s %s: give a number from %lld to %lld.", row->name, text, row->min,
                         row->max);
    return 0;
}

static int add_rule(struct mk_options *options, char *text, struct bmoe_error *error)
{
    char *equals = strrchr(text, '=');

    if (!equals || equals == text)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "--type-for %s: write PATTERN=TYPE.", text);
    if (options->n_rules == MK_MAX_RULES)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "More than %d --type-for; use wider patterns.", MK_MAX_RULES);
    *equals = '\0';
    options->rules[options->n_rules++] = (struct mk_type_rule){text, equals + 1};
    return 0;
}

/* Options without a number. */
static int apply_text(struct mk_options *options, struct given *given, const struct option_row *row,
                      char *value, struct bmoe_error *error)
{
    switch (row->id) {
    case OPT_PRESET:
        given->preset = value;
        break;
    case OPT_ARCH:
        given->arch = value;
        break;
    case OPT_TYPE:
        options->type = value;
        break;
    case OPT_TYPE_FOR:
        return add_rule(options, value, error);
    case OPT_ZIPF:
        return parse_real(row, value, &options->write.data.zipf, error);
    case OPT_EMPTY_FIRST:
        options->write.empty_first = true;
        break;
    case OPT_TIED:
        options->tied = true;
        break;
    case OPT_FUSED:
        options->fused = true;
        break;
    case OPT_MTP:
        options->mtp = true;
        break;
    case OPT_TEMPLATE:
        options->chat_template = value;
        break;
    case OPT_LIST:
        options->list = true;
        break;
    case OPT_OUTPUT:
        options->write.path = value;
        break;
    default:
        options->help = true;
        break;
    }
    return 0;
}

static int apply(struct mk_options *options, struct given *given, const struct option_row *row,
                 char *value, struct bmoe_error *error)
{
    long long number;
    int rc;

    if (row->id != OPT_SHAPE && row->id != OPT_SEED && row->id != OPT_SHARDS &&
        row->id != OPT_THREADS)
        return apply_text(options, given, row, value, error);
    rc = parse_int(row, value, &number, error);
    if (rc < 0)
        return rc;
    if (row->id == OPT_SHAPE)
        given->numbers[row - table] = number;
    else if (row->id == OPT_SEED)
        options->write.data.seed = (uint64_t)number;
    else if (row->id == OPT_SHARDS)
        options->write.shards = (int)number;
    else
        options->write.data.threads = (int)number;
    return 0;
}

static const struct option_row *find_row(const char *name)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* Chooses the preset and lays the given numbers over it. */
static int make_shape(struct mk_options *options, const struct given *given,
                      struct bmoe_error *error)
{
    const struct mk_shape *shape = mk_shape_find(given->preset ? given->preset : "T1");

    if (given->preset && !shape)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "No preset is called %s; --help lists them.", given->preset);
    if (given->arch && !mk_shape_of_arch(given->arch))
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "No architecture is called %s; --help lists them with the presets.",
                         given->arch);
    if (given->arch && !given->preset)
        shape = mk_shape_of_arch(given->arch);
    if (given->arch && strcmp(given->arch, shape->arch) != 0)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "Preset %s is of architecture %s; leave out --arch %s.", shape->preset,
                         shape->arch, given->arch);
    options->shape = *shape;
    for (int i = 0; i < N_OPTIONS; i++) {
        int64_t *field;

        if (given->numbers[i] == 0)
            continue;
        field = (int64_t *)(void *)((char *)&options->shape + table[i].offset);
        if (*field == 0)
            return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS, "Architecture %s has no %s.",
                             shape->arch, table[i].name);
        *field = given->numbers[i];
    }
    return mk_shape_settle(&options->shape, error);
}

/*
 * The exponent with which 300 tokens of text use about half of a layer's experts, as real models
 * do. Few of many experts need little preference for that [measured: docs/mkmodel.md].
 */
static float default_zipf(const struct mk_shape *shape)
{
    float zipf = shape->experts ? 12.0f * (float)shape->used / (float)shape->experts : 0.0f;

    return zipf < 3.0f ? zipf : 3.0f;
}

static int check(struct mk_options *options, const struct given *given, struct bmoe_error *error)
{
    struct mk_arch_traits traits;
    int rc;

    if (!options->list && !options->write.path)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "Name the file to write with -o FILE.");
    if (options->write.empty_first && options->write.shards < 2)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "--empty-first needs --shards 2 or more.");
    rc = make_shape(options, given, error);
    if (rc < 0)
        return rc;
    if (options->write.data.zipf < 0.0f)
        options->write.data.zipf = default_zipf(&options->shape);
    traits = mk_arch_traits(options->shape.arch);
    if (options->fused && !traits.may_fuse)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "libllama reads no fused experts of %s; leave out --fused.",
                         options->shape.arch);
    if (options->tied && traits.never_tied)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "libllama wants a head of its own for %s; leave out --tied.",
                         options->shape.arch);
    if (options->mtp && !traits.may_mtp)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "Architecture %s has no such block; leave out --mtp.",
                         options->shape.arch);
    return 0;
}

int mk_options_parse(struct mk_options *options, int argc, char **argv, struct bmoe_error *error)
{
    static char no_value[] = "";
    struct given given = {0};
    int cpus = get_nprocs();

    memset(options, 0, sizeof *options);
    options->write.shards = 1;
    options->write.data.seed = 1;
    options->write.data.zipf = -1.0f; /* not given */
    options->write.data.threads = cpus < 1 ? 1 : cpus > 16 ? 16 : cpus;
    for (int i = 1; i < argc; i++) {
        const struct option_row *row = find_row(argv[i]);
        int rc;

        if (!row)
            return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                             "Unknown option %s; --help lists the options.", argv[i]);
        if (row->value && i + 1 == argc)
            return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS, "%s needs %s after it.",
                             row->name, row->value);
        rc = apply(options, &given, row, row->value ? argv[++i] : no_value, error);
        if (rc < 0)
            return rc;
    }
    return options->help ? 0 : check(options, &given, error);
}
