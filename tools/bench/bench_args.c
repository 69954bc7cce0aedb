/* getopt reads the words by a table made of ours. */
#include "bench_args.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const bench_places[] = {"all", "move", "copy", "none", NULL};

enum { MOST = 1 << 24, WORDS = 256 }; /* getopt's values from WORDS on: entries of the table */

static bool number(const char *text, unsigned most, unsigned *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    *out = (unsigned)n;
    return errno == 0 && end != text && *end == '\0' && n > 0 && n <= (most ? most : MOST);
}

static bool real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out > 0 && *out < 1e9;
}

static bool choose(const struct bench_arg *a, const char *text)
{
    for (int i = 0; a->choices[i]; i++)
        if (strcmp(text, a->choices[i]) == 0) {
            *(int *)a->to = i;
            return true;
        }
    return false;
}

static bool take(const struct bench_arg *a, const char *text)
{
    unsigned n = 0;
    switch (a->kind) {
    case ARG_TEXT:
        *(const char **)a->to = text;
        return true;
    case ARG_NUMBER:
        return number(text, a->most, a->to);
    case ARG_MIB:
        if (!number(text, a->most, &n))
            return false;
        *(uint64_t *)a->to = (uint64_t)n << 20;
        return true;
    case ARG_REAL:
        return real(text, a->to);
    case ARG_CHOICE:
        return choose(a, text);
    default:
        *(bool *)a->to = true;
        return true;
    }
}

static int refuse(const struct bench_arg *a, const char *text)
{
    const char *dashes = a->name[1] ? "--" : "-";
    fprintf(stderr, "bmoe-bench: %s%s does not take '%s' but ", dashes, a->name, text);
    if (a->kind == ARG_CHOICE)
        for (int i = 0; a->choices[i]; i++)
            fprintf(stderr, "%s%s", i == 0 ? "" : a->choices[i + 1] ? ", " : " or ", a->choices[i]);
    else if (a->kind == ARG_REAL)
        fputs("a number above 0", stderr);
    else
        fprintf(stderr, "a whole number from 1 to %u", a->most ? a->most : MOST);
    fputs("; see --help\n", stderr);
    return 2;
}

int bench_misuse(const char *what)
{
    fprintf(stderr, "bmoe-bench: %s; see --help\n", what);
    return 2;
}

int bench_args(const struct bench_arg *args, size_t n, const char *usage, int argc, char **argv,
               int *rest)
{
    struct option longs[BENCH_MAX_ARGS + 2] = {{"help", 0, NULL, 'h'}};
    char shorts[2 * BENCH_MAX_ARGS + 2] = "h";
    for (size_t i = 0, l = 1, s = 1; i < n && i < BENCH_MAX_ARGS; i++) {
        if (args[i].name[1])
            longs[l++] =
                (struct option){args[i].name, args[i].kind != ARG_FLAG, NULL, WORDS + (int)i};
        else
            s += (size_t)snprintf(shorts + s, sizeof shorts - s, "%c:", args[i].name[0]);
    }
    for (int c; (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const struct bench_arg *a = c >= WORDS ? &args[c - WORDS] : NULL;
        for (size_t i = 0; !a && i < n; i++)
            if (args[i].name[0] == c && !args[i].name[1])
                a = &args[i];
        if (!a && c == 'h')
            return fputs(usage, stdout) < 0;
        if (!a)
            return 2; /* getopt has said why */
        if (!take(a, optarg))
            return refuse(a, optarg);
    }
    if (rest)
        *rest = optind;
    else if (optind < argc)
        return bench_misuse("there is a word too many");
    return -1;
}

/* A folder below the present one, as a path from here. */
static const char *from_here(const char *path)
{
    char here[4096];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && strncmp(path, here, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void bench_command(char *out, size_t bytes, int argc, char **argv)
{
    int n = snprintf(out, bytes, "bmoe-bench");
    for (int i = 0; i < argc && n > 0 && (size_t)n < bytes; i++) {
        const char *word = argv[i];
        if (i > 0 && strcmp(argv[i - 1], "-o") == 0)
            word = from_here(word);
        else if (strrchr(word, '/'))
            word = strrchr(word, '/') + 1;
        n += snprintf(out + n, bytes - (size_t)n, " %s", word);
    }
}
