/*
 * The machine as this process may use it. Every number is read afresh from /proc and /sys; what is
 * absent (another kernel, a container that hides it) does not bound anything.
 */
#include "base/host.h"

#include "base/cgroup.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CPUS_MAX 4096

static FILE *open_below(const char *root, const char *path)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return fopen(full, "re");
}

/* The text behind "word:" in a file of such lines; false when absent. */
static bool field(const char *root, const char *path, const char *word, char *out, size_t bytes)
{
    bool found = false;
    char *line = NULL;
    size_t room = 0, n = strlen(word);
    FILE *f = open_below(root, path);
    while (f && !found && getline(&line, &room, f) > 0)
        if (strncmp(line, word, n) == 0 && line[n] == ':') {
            snprintf(out, bytes, "%s", line + n + 1);
            found = true;
        }
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* The same as a number of KiB, in bytes; -1 when absent. */
static int64_t field_kib(const char *root, const char *path, const char *word)
{
    char text[64];
    long long kib;
    if (!field(root, path, word, text, sizeof text) || sscanf(text, "%lld", &kib) != 1)
        return -1;
    return (int64_t)kib * 1024;
}

/* ---- memory ---- */

/* The group's own limit; INT64_MAX when it has none. Version 2's "high" is one too: beyond it the
 * group is throttled to a crawl. */
static int64_t memory_limit(const struct cgroup *g)
{
    const char *v1[] = {"memory.limit_in_bytes"}, *v2[] = {"memory.max", "memory.high"};
    int64_t least = INT64_MAX, limit;
    for (int i = 0; i < (g->v2 ? 2 : 1); i++)
        if (cgroup_numbers(g, (g->v2 ? v2 : v1)[i], &limit, 1) == 1 && limit < least && limit >= 0)
            least = limit;
    /* Version 1 says "none" by a number near 2^63. */
    return least > (INT64_C(1) << 60) ? INT64_MAX : least;
}

/* What is charged to the group and cannot be dropped at once: clean page cache can. */
static int64_t memory_held(const struct cgroup *g)
{
    int64_t used = 0;
    const char *v1[] = {"total_inactive_file", "total_active_file", "total_dirty",
                        "total_writeback"};
    const char *v2[] = {"inactive_file", "active_file", "file_dirty", "file_writeback"};
    const char **words = g->v2 ? v2 : v1;
    if (cgroup_numbers(g, g->v2 ? "memory.current" : "memory.usage_in_bytes", &used, 1) != 1)
        return 0;
    int64_t file =
        cgroup_stat(g, "memory.stat", words[0]) + cgroup_stat(g, "memory.stat", words[1]);
    int64_t unclean =
        cgroup_stat(g, "memory.stat", words[2]) + cgroup_stat(g, "memory.stat", words[3]);
    int64_t clean = file > unclean ? file - unclean : 0;
    return used > clean ? used - clean : 0;
}

int host_memory_read(const char *root, struct host_memory *out)
{
    errno = 0;
    int64_t total = field_kib(root, "/proc/meminfo", "MemTotal");
    int64_t available = field_kib(root, "/proc/meminfo", "MemAvailable");
    if (total < 0 || available < 0)
        return errno ? -errno : -ENODATA;
    struct host_memory m = {.bound_by = "MemAvailable"};
    struct cgroup g;
    bool more = cgroup_find(&g, root, "memory");
    for (; more; more = cgroup_up(&g)) {
        int64_t limit = memory_limit(&g);
        if (limit == INT64_MAX)
            continue;
        int64_t held = memory_held(&g), headroom = limit > held ? limit - held : 0;
        if (limit < total)
            total = limit;
        if (headroom < available) {
            const char *path = cgroup_path(&g);
            size_t n = strlen(path), most = sizeof m.bound_by - 1;
            available = headroom;
            snprintf(m.bound_by, sizeof m.bound_by, "%s", n > most ? path + n - most : path);
        }
    }
    m.total_bytes = (uint64_t)total;
    m.available_bytes = (uint64_t)available;
    *out = m;
    return 0;
}

int64_t host_peak_rss_bytes(void)
{
    return field_kib("", "/proc/self/status", "VmHWM");
}

int64_t host_rss_bytes(void)
{
    return field_kib("", "/proc/self/status", "VmRSS");
}

void host_process_read(int64_t *cpu_us, int64_t *majflt)
{
    struct rusage u;

    *cpu_us = *majflt = -1;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return;
    *cpu_us = ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
              u.ru_stime.tv_usec;
    *majflt = u.ru_majflt;
}

/* ---- CPUs ---- */

struct cpu_set {
    bool has[CPUS_MAX];
};

/* "0-3,8" */
static bool parse_list(const char *text, struct cpu_set *out)
{
    bool any = false;
    memset(out, 0, sizeof *out);
    for (char *end; *text; text = *end == ',' ? end + 1 : end) {
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            break;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < CPUS_MAX; i++)
            any = out->has[i] = true;
    }
    return any;
}

/* The affinity mask; where it cannot be read, the CPUs that are online. */
static void allowed_cpus(const char *root, struct cpu_set *out)
{
    char text[4096];
    if (field(root, "/proc/self/status", "Cpus_allowed_list", text, sizeof text)) {
        const char *list = text + strspn(text, " \t");
        if (parse_list(list, out))
            return;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    memset(out, 0, sizeof *out);
    for (long i = 0; i < (n < 1 ? 1 : n) && i < CPUS_MAX; i++)
        out->has[i] = true;
}

/* A number about one CPU; -1 when absent. */
static int64_t cpu_number(const char *root, unsigned cpu, const char *file)
{
    char path[128];
    long long value = -1;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, file);
    FILE *f = open_below(root, path);
    if (f && fscanf(f, "%lld", &value) != 1)
        value = -1;
    if (f)
        fclose(f);
    return value;
}

/* Takes away the CPUs that have less than `percent` of the most any allowed one has. False, and
 * nothing is taken, when one of them does not say. */
static bool keep_strong(const char *root, const char *file, int percent, struct cpu_set *cpus)
{
    struct cpu_set kept = {0};
    int64_t most = 0;
    for (unsigned i = 0; i < CPUS_MAX; i++) {
        int64_t value = cpus->has[i] ? cpu_number(root, i, file) : 0;
        if (value < 0)
            return false;
        if (value > most)
            most = value;
    }
    for (unsigned i = 0; i < CPUS_MAX; i++)
        kept.has[i] = cpus->has[i] && cpu_number(root, i, file) * 100 >= most * percent;
    *cpus = kept;
    return true;
}

/*
 * Big cores only: a graph waits for its slowest thread. cpu_capacity is relative to the strongest
 * core; an A55 beside an A76 says 530 of 1024, a middle core of a phone 600 and more. Clock rates
 * lie closer together: 1.8 against 2.4 GHz for the same pair. Intel's hybrids list theirs.
 */
static void keep_big(const char *root, struct cpu_set *cpus)
{
    char text[4096];
    struct cpu_set small;
    FILE *f = open_below(root, "/sys/devices/cpu_atom/cpus");
    bool hybrid = f && fgets(text, sizeof text, f) && parse_list(text, &small);
    if (f)
        fclose(f);
    if (hybrid) {
        struct cpu_set kept = *cpus;
        bool any = false;
        for (unsigned i = 0; i < CPUS_MAX; i++)
            any |= kept.has[i] = cpus->has[i] && !small.has[i];
        if (any)
            *cpus = kept;
        return;
    }
    if (!keep_strong(root, "cpu_capacity", 55, cpus))
        keep_strong(root, "cpufreq/cpuinfo_max_freq", 80, cpus);
}

/* The least whole number of CPUs that any group's quota is worth; UINT32_MAX without a quota. */
static unsigned quota_cpus(const char *root)
{
    unsigned least = UINT32_MAX;
    struct cgroup g;
    for (bool more = cgroup_find(&g, root, "cpu"); more; more = cgroup_up(&g)) {
        int64_t v[2] = {-1, 0};
        if (g.v2) {
            if (cgroup_numbers(&g, "cpu.max", v, 2) != 2)
                continue;
        } else if (cgroup_numbers(&g, "cpu.cfs_quota_us", &v[0], 1) != 1 ||
                   cgroup_numbers(&g, "cpu.cfs_period_us", &v[1], 1) != 1) {
            continue;
        }
        if (v[0] <= 0 || v[1] <= 0)
            continue;
        int64_t n = (v[0] - 1) / v[1] + 1;
        if (n < least)
            least = (unsigned)n;
    }
    return least;
}

unsigned host_cpu_count(const char *root)
{
    struct cpu_set cpus;
    unsigned n = 0, quota = quota_cpus(root);
    allowed_cpus(root, &cpus);
    keep_big(root, &cpus);
    for (unsigned i = 0; i < CPUS_MAX; i++)
        n += cpus.has[i];
    if (n > quota)
        n = quota;
    return n ? n : 1;
}
