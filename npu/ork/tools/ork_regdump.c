/* ork-regdump: a program as readable text, from a file of command words or made for a shape. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regcmd.h"
#include "regdump.h"
#include "tool.h"

static const char help[] =
    "usage: ork-regdump FILE\n"
    "       ork-regdump --type TYPE --m M --n N --k K [--no-rdma]\n"
    "\n"
    "Prints NPU command words, one register write a line with its fields by name.\n"
    "\n"
    "  FILE         64-bit little-endian command words; - is standard input\n"
    "  --type TYPE  i8, i4, f16 (fp32 results), f16h (fp16 results),\n"
    "               i4:stride2, i4:bchain, i4:rows\n"
    "  --m --n --k  the shape; every program of its plan on one core is printed\n"
    "  --no-rdma    the recipe without the DPU_RDMA block\n"
    "  --help       this text\n";

struct settings {
    const char *file;
    const char *type;
    uint32_t m, n, k;
    bool no_rdma;
};

static int print_words(const uint64_t *words, size_t n)
{
    const size_t length = ork_regdump(words, n, NULL, 0);
    char *text = malloc(length + 1);

    if (!text) {
        fprintf(stderr, "ork-regdump: no memory for %zu bytes of text\n", length);
        return 1;
    }
    ork_regdump(words, n, text, length + 1);
    fputs(text, stdout);
    free(text);
    return 0;
}

/* Little-endian words, whatever this machine is. */
static uint64_t word_at(const unsigned char *p)
{
    uint64_t word = 0;

    for (int i = 7; i >= 0; i--)
        word = word << 8 | p[i];
    return word;
}

static int dump_file(const char *name)
{
    enum { WORDS = 65536 };
    static unsigned char bytes[WORDS * 8 + 1]; /* one more tells that there is more */
    static uint64_t words[WORDS];
    FILE *f = strcmp(name, "-") ? fopen(name, "rb") : stdin;
    size_t n;

    if (!f) {
        fprintf(stderr, "ork-regdump: %s: %s\n", name, strerror(errno));
        return 1;
    }
    n = fread(bytes, 1, sizeof(bytes), f);
    if (ferror(f) || n % 8 || n > sizeof(words)) {
        if (ferror(f))
            fprintf(stderr, "ork-regdump: %s: %s\n", name, strerror(errno));
        else
            fprintf(stderr, "ork-regdump: %s is not a list of at most %d 8-byte words\n", name,
                    WORDS);
        fclose(f);
        return 1;
    }
    fclose(f);
    for (size_t i = 0; i < n / 8; i++)
        words[i] = word_at(bytes + 8 * i);
    return print_words(words, n / 8);
}

/* Addresses are those of buffers placed one after the other from 64 KiB up. */
static int dump_tile(const struct ork_plan *plan, uint32_t index, bool rdma_block)
{
    const struct ork_tile *t = &plan->tiles[index];
    const uint64_t a = 65536, b = a + (plan->a_bytes + 4095) / 4096 * 4096;
    const uint64_t c = b + (plan->b_bytes + 4095) / 4096 * 4096;
    const struct ork_addresses addresses = {a + t->a_offset, b + t->b_offset, c + t->c_offset};
    const struct ork_recipe recipe = {.rdma_block = rdma_block};
    uint64_t words[ORK_PROGRAM_MAX];
    struct ork_geometry geometry;
    uint32_t bad_reg;

    printf("# program %u of %u: rows %u+%u, columns %u+%u, K slice %u of depth %u\n", index,
           plan->n_tiles, t->m0, t->rows, t->n0, t->cols, t->slice, t->depth);
    ork_geometry_of_tile(plan, t, &geometry);
    if (ork_regcmd_emit(&geometry, &addresses, &recipe, words, &bad_reg) < 0) {
        fprintf(stderr, "ork-regdump: a value does not fit register 0x%04x\n", bad_reg);
        return 1;
    }
    return print_words(words, ork_regcmd_entries(rdma_block));
}

static int dump_shape(const struct settings *s)
{
    struct ork_plan_options options = {0};
    struct ork_error error = {0, ""};
    struct ork_slicing slicing;
    struct ork_plan plan;
    enum ork_type type;
    int rc = 0;

    if (!tool_type(s->type, &type, &options.i4_mode)) {
        fprintf(stderr, "ork-regdump: there is no type %s\n", s->type);
        return 2;
    }
    if (ork_slicing_make(type, s->k, &options, &slicing, &error) < 0 ||
        ork_plan_make(&slicing, s->m, s->n, &plan, &error) < 0) {
        fprintf(stderr, "ork-regdump: %s\n", error.text);
        return 1;
    }
    for (uint32_t i = 0; i < plan.n_tiles && !rc; i++)
        rc = dump_tile(&plan, i, !s->no_rdma);
    ork_plan_fini(&plan);
    return rc;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                            {"m", required_argument, NULL, 'm'},
                                            {"n", required_argument, NULL, 'n'},
                                            {"k", required_argument, NULL, 'k'},
                                            {"no-rdma", no_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t *number = c == 'm' ? &s->m : c == 'n' ? &s->n : c == 'k' ? &s->k : NULL;

        if (c == 'h')
            return 1;
        if (c == '?')
            return -1;
        if (number && !tool_number(optarg, 1, UINT32_MAX, number)) {
            fprintf(stderr, "ork-regdump: --%c takes a number from 1, not \"%s\"\n", c, optarg);
            return -1;
        }
        if (c == 't')
            s->type = optarg;
        if (c == 'r')
            s->no_rdma = true;
    }
    if (optind < argc)
        s->file = argv[optind];
    if (optind + 1 < argc)
        fprintf(stderr, "ork-regdump: one file, not also %s\n", argv[optind + 1]);
    else if (s->type ? s->file || !s->m || !s->n || !s->k : !s->file || s->m || s->n || s->k)
        fprintf(stderr, "ork-regdump: either FILE or all of --type, --m, --n and --k\n");
    else
        return 0;
    return -1;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    int parsed = parse(argc, argv, &s);

    if (parsed) {
        fputs(help, parsed > 0 ? stdout : stderr);
        return tool_finish("ork-regdump", parsed > 0 ? 0 : 2);
    }
    return tool_finish("ork-regdump", s.file ? dump_file(s.file) : dump_shape(&s));
}
