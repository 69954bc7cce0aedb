/* What the subcommands' options have in common, and how a file they write names its command. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_number(const char *text, unsigned long most, unsigned long *out)
{
    char *end;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out > 0 && *out <= most;
}

int bench_place(const char *text, int *out)
{
    static const char *const names[] = {"all", "move", "copy", "none"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return 0;
        }
    fputs("bmoe-bench: --place is move, copy, none or all; see bmoe-bench --help\n", stderr);
    return 2;
}

void bench_command(char *out, size_t bytes, int argc, char **argv)
{
    int n = snprintf(out, bytes, "bmoe-bench");
    for (int i = 0; i < argc && n > 0 && (size_t)n < bytes; i++) {
        const char *word = argv[i];
        bool output = i > 0 && strcmp(argv[i - 1], "-o") == 0;
        if (!output && strrchr(word, '/'))
            word = strrchr(word, '/') + 1;
        n += snprintf(out + n, bytes - (size_t)n, " %s", word);
    }
}

FILE *bench_create(const char *dir, const char *name, const char *end)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, end);
    FILE *f = fopen(path, "we");
    if (!f)
        perror(path);
    return f;
}

int bench_finish(FILE *f, const char *name)
{
    if (fclose(f) == 0)
        return 0;
    perror(name);
    return -1;
}
