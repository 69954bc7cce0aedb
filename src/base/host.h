/*
 * What this process may use of the machine: CPUs (affinity, cgroup quota, big cores), memory (the
 * host's MemAvailable and the headroom of every ancestor memory cgroup, v1 and v2), its own peak.
 * Reads /proc and /sys afresh at each call; root is "" or, in tests, a folder that imitates them.
 */
#ifndef BMOE_BASE_HOST_H
#define BMOE_BASE_HOST_H

#include <stdint.h>

struct host_memory {
    uint64_t total_bytes;     /* MemTotal, or the smallest cgroup limit when that is less */
    uint64_t available_bytes; /* min(MemAvailable, headroom of every ancestor cgroup) */
    char bound_by[128];       /* what set it: "MemAvailable" or the cgroup's path */
};

/* Answers 0, or -errno when not even /proc/meminfo can be read. Clean page cache of a cgroup is
 * not counted as used. */
int host_memory_read(const char *root, struct host_memory *out);

/* CPUs for compute threads: affinity mask, cgroup CPU quota rounded up, and on a machine of big and
 * little cores only the big ones; at least 1. */
unsigned host_cpu_count(const char *root);

/* Peak resident bytes of this process (VmHWM) and the current ones (VmRSS); -1 when unknown. */
int64_t host_peak_rss_bytes(void);
int64_t host_rss_bytes(void);

/* CPU time of this process, user and system, in microseconds, and its major page faults; -1 when
 * unknown. */
void host_process_read(int64_t *cpu_us, int64_t *majflt);

#endif
