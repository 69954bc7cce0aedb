/*
 * The comparison that counts: the same file in the same memory. Each side runs in a child of its
 * own, in a memory control group (version 1 or 2) made for it, with the file out of the page cache
 * at the start.
 */
#include "bench.h"

#include "engine/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct group {
    char path[256];
};

struct side {
    double prefill, decode;
    long peak_kib;
    int status; /* of the child */
};

static bool put(const struct group *g, const char *file, unsigned long long value)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", g->path, file);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool ok = fprintf(f, "%llu\n", value) > 0;
    return fclose(f) == 0 && ok;
}

static bool group_make(struct group *g, uint64_t bytes)
{
    static const struct {
        const char *root, *limit;
    } kinds[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                 {"/sys/fs/cgroup", "memory.max"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(g->path, sizeof g->path, "%s/bmoe-bench-%d", kinds[i].root, (int)getpid());
        if (mkdir(g->path, 0755) == 0) {
            if (put(g, kinds[i].limit, bytes))
                return true;
            rmdir(g->path);
        }
    }
    return false;
}

static void forget_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static int run_pager(const struct bench_options *o, double *prefill, double *decode)
{
    struct bench_case c = {.name = "limit", .streamed = true, .repack = BMOE_AUTO};
    struct bmoe_error err = {0};
    int rc = bench_case_open(&c, o, &err);
    if (rc == BMOE_OK)
        rc = bench_case_run(&c, o, 0, &err);
    if (rc < 0)
        fprintf(stderr, "bmoe-bench: %s\n", err.text);
    *prefill = c.times.wall[PHASE_PREFILL_512][0];
    *decode = c.times.wall[PHASE_DECODE][0];
    bench_case_close(&c);
    return rc;
}

static int run_stock(const struct bench_options *o, double *prefill, double *decode)
{
    struct bench_stock s;
    int rc = bench_stock_open(&s, o, false);
    if (rc == 0)
        rc = bench_stock_run(&s, prefill, decode);
    bench_stock_close(&s);
    return rc;
}

static void child(const struct bench_options *o, const struct group *g, bool stock, int out)
{
    double times[2] = {0, 0};
    char variant[64] = "";
    struct bmoe_error err;
    if (!put(g, "cgroup.procs", (unsigned long long)getpid()))
        _exit(3);
    int rc = backend_load_cpu(BMOE_BACKENDS_DIR, variant, sizeof variant, &err);
    if (rc == BMOE_OK)
        rc = stock ? run_stock(o, &times[0], &times[1]) : run_pager(o, &times[0], &times[1]);
    if (rc == 0 && write(out, times, sizeof times) != (ssize_t)sizeof times)
        rc = -1;
    _exit(rc == 0 ? 0 : 1);
}

static int side_run(struct side *s, const struct bench_options *o, const struct group *g,
                    bool stock)
{
    int ends[2];
    double times[2] = {0, 0};
    forget_file(o->model);
    fflush(NULL);
    if (pipe(ends) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        child(o, g, stock, ends[1]);
    close(ends[1]);
    ssize_t n = read(ends[0], times, sizeof times);
    close(ends[0]);
    waitpid(pid, &s->status, 0);
    s->prefill = times[0];
    s->decode = times[1];
    return n == (ssize_t)sizeof times ? 0 : -1;
}

static void say(const char *name, const struct side *s, const struct bench_options *o)
{
    if (s->prefill > 0)
        printf("| %-10s | %8.2f | %8.2f |\n", name, 512 / s->prefill, o->n_decode / s->decode);
    else
        printf("| %-10s | ended: status %d |\n", name, s->status);
}

int bench_limit(const struct bench_options *o)
{
    struct group g;
    struct side pager = {0}, stock = {0};
    if (!group_make(&g, o->limit_bytes)) {
        fprintf(stderr,
                "bmoe-bench: no memory control group can be made here (as root, with the memory "
                "controller mounted); the comparison with stock libllama is left out\n");
        return 1;
    }
    int rc = side_run(&pager, o, &g, false);
    int rc2 = side_run(&stock, o, &g, true);
    rmdir(g.path);
    printf("\nIn a memory limit of %.0f MiB, tokens per second:\n| run | prefill 512 | decode "
           "|\n|---|---:"
           "|---:|\n",
           (double)o->limit_bytes / (1 << 20));
    say("bmoe", &pager, o);
    say("stock mmap", &stock, o);
    if (rc == 0 && rc2 == 0)
        printf("bmoe / stock: prefill %.2f x, decode %.2f x\n", stock.prefill / pager.prefill,
               stock.decode / pager.decode);
    return 0;
}
