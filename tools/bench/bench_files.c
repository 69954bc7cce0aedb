/* What the subcommands write. */
#include "bench.h"

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

FILE *bench_output(const char *path)
{
    FILE *out = path ? fopen(path, "we") : stdout;
    if (!out)
        perror(path);
    return out;
}

int bench_output_end(FILE *out, const char *path)
{
    return !path || bench_finish(out, path) == 0 ? 0 : 1;
}
