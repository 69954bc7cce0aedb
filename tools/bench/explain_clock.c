/*
 * The clocks behind explain.h. The graph's thread reads two at the ends of each computed part (a
 * hundred a token), and one at each node; the kernel's figures of the other threads are read when a
 * phase ends.
 */
#include "explain.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int clock_init(struct explain_clock *c)
{
    *c = (struct explain_clock){0};
    for (int p = 0; p < EXPLAIN_PHASES; p++)
        c->alone[p] = calloc(EXPLAIN_MAX_NODES / 64, sizeof *c->alone[p]);
    return c->alone[0] && c->alone[1] ? 0 : -1;
}

void clock_fini(struct explain_clock *c)
{
    for (int p = 0; p < EXPLAIN_PHASES; p++)
        free(c->alone[p]);
}

static double span(struct explain_clock *c)
{
    int64_t now = clock_now_us(), from = c->from_us;
    c->from_us = now;
    return (double)(now - from) / 1e6;
}

static void compute_begins(struct explain_clock *c)
{
    c->computing = true;
    c->cpu_from_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void compute_ends(struct explain_clock *c)
{
    c->now.compute += span(c);
    c->now.graph_cpu += (double)(cpu_ns(CLOCK_THREAD_CPUTIME_ID) - c->cpu_from_ns) / 1e9;
    c->computing = false;
}

static bool alone(struct explain_clock *c, bool wanted)
{
    uint64_t bit = (uint64_t)1 << c->ordinal % 64, *word;
    if (c->ordinal >= EXPLAIN_MAX_NODES)
        return false;
    word = &c->alone[c->phase][c->ordinal / 64];
    if (c->note && wanted)
        *word |= bit;
    return c->ask && (*word & bit);
}

/* A part is computed between a node that was asked for and the telling, or the graph's end. Where
 * the last nodes are wanted by nobody the part begins when the last of them was skipped. */
bool clock_moment(void *user, enum session_moment moment, const struct ggml_tensor *node)
{
    struct explain_clock *c = user;
    (void)node;
    switch (moment) {
    case MOMENT_GRAPH_BEGINS:
        c->ordinal = 0;
        c->now.between += span(c);
        break;
    case MOMENT_NODE_ASKED:
        c->now.between += span(c);
        c->computing = false;
        return alone(c, false);
    case MOMENT_NODE_SKIPPED:
    case MOMENT_NODE_WANTED:
        c->now.hooks += span(c);
        alone(c, moment == MOMENT_NODE_WANTED);
        c->now.isolated += moment == MOMENT_NODE_WANTED;
        c->ordinal++;
        compute_begins(c);
        break;
    case MOMENT_NODE_SETTLED:
        c->now.hooks += span(c);
        break;
    default:
        compute_ends(c);
    }
    return false;
}

/* ---- the other threads ---- */

static double field(const char *line, unsigned n)
{
    for (; n > 0 && line; n--)
        line = strchr(line, ' ') ? strchr(line, ' ') + 1 : NULL;
    return line ? strtod(line, NULL) : 0;
}

static bool read_task(const char *tid, const char *name, char *out, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, name);
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(out, (int)bytes, f);
    if (f)
        fclose(f);
    return ok;
}

static void add_task(struct phase_costs *out, const char *tid, double sign)
{
    char stat[512], sched[128];
    if (!read_task(tid, "stat", stat, sizeof stat) ||
        !read_task(tid, "schedstat", sched, sizeof sched))
        return;
    const char *name = strchr(stat, '('), *rest = strrchr(stat, ')');
    if (!name || !rest)
        return;
    struct thread_costs *c = &out->workers;
    if (strncmp(name, "(bmoe-read", 10) == 0 || strncmp(name, "(bmoe-fault", 11) == 0)
        c = &out->readers;
    else if (strtol(tid, NULL, 10) == (long)gettid())
        c = &out->graph;
    c->cpu += sign * field(sched, 0) / 1e9;
    c->delay += sign * field(sched, 1) / 1e9;
    c->faults += sign * field(rest, 8); /* minflt: the eighth after the name */
}

void clock_process(struct phase_costs *out, const struct pager *pager, double sign)
{
    struct pager_counters p;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));)
        if (e->d_name[0] != '.')
            add_task(out, e->d_name, sign);
    if (tasks)
        closedir(tasks);
    pager_counters_read(pager, &p);
    out->process_cpu += sign * (double)cpu_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
    out->pin_wait += sign * (double)p.pin_wait_us / 1e6;
    out->fault_wait += sign * (double)p.fault_wait_us / 1e6;
    out->read += sign * (double)p.read_us / 1e6;
    out->carry += sign * (double)p.carry_us / 1e6;
    out->place += sign * (double)p.place_us / 1e6;
    out->evict += sign * (double)p.evict_us / 1e6;
}

double clock_page_touch(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = ((size_t)16 << 20) / page;
    size_t bytes = pages * page;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 0;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    int64_t from = clock_now_us();
    for (size_t i = 0; i < bytes; i += page)
        p[i] = 1;
    double us = (double)(clock_now_us() - from);
    munmap(p, bytes);
    return us / 1e6 / (double)pages;
}
