/*
 * Memory and CPUs as a process may use them, from folders that imitate /proc and /sys: a plain
 * machine, control groups of both versions, nested, in containers; quotas; big and little cores.
 */
#include "base/host.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1024 * 1024ull)

static char root[PATH_MAX];
static int n_roots;

/* A fresh, empty root for the test. */
static int new_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "host-root-%d-%d", (int)getpid(), n_roots++);
    return mkdir(root, 0755);
}

static int remove_root(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* Writes a file below the root, with its folders. */
static void put(const char *path, const char *text)
{
    char full[2 * PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        mkdir(full, 0755);
        *s = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_meminfo(void)
{
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
                         "MemAvailable:    8388608 kB\n"); /* 16 and 8 GiB */
}

static void put_v2(const char *mounted, const char *group)
{
    char text[512];
    snprintf(text, sizeof text,
             "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
             "30 1 0:26 %s /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
             mounted);
    put("/proc/self/mountinfo", text);
    snprintf(text, sizeof text, "0::%s\n", group);
    put("/proc/self/cgroup", text);
}

static void put_v1(const char *mounted, const char *group)
{
    char text[1024];
    snprintf(text, sizeof text,
             "30 1 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "31 1 0:27 %s /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
             "32 1 0:28 %s /sys/fs/cgroup/memory rw shared:6 - cgroup cgroup rw,memory\n",
             mounted, mounted);
    put("/proc/self/mountinfo", text);
    snprintf(text, sizeof text, "9:memory:%s\n4:cpu,cpuacct:%s\n0::/\n", group, group);
    put("/proc/self/cgroup", text);
}

static struct host_memory read_memory(void)
{
    struct host_memory m;
    assert_int_equal(host_memory_read(root, &m), 0);
    return m;
}

static void without_groups_meminfo_decides(void **state)
{
    (void)state;
    put_meminfo();
    struct host_memory m = read_memory();
    assert_int_equal(m.total_bytes, 16384 * MIB);
    assert_int_equal(m.available_bytes, 8192 * MIB);
    assert_string_equal(m.bound_by, "MemAvailable");
}

static void without_meminfo_it_fails(void **state)
{
    (void)state;
    struct host_memory m;
    assert_true(host_memory_read(root, &m) < 0);
}

static void unlimited_groups_bound_nothing(void **state)
{
    (void)state;
    put_meminfo();
    put_v2("/", "/a/b");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "123456789\n");
    assert_string_equal(read_memory().bound_by, "MemAvailable");
    put_v1("/", "/a");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    assert_string_equal(read_memory().bound_by, "MemAvailable");
}

static void v2_counts_what_cannot_be_dropped(void **state)
{
    (void)state;
    put_meminfo();
    put_v2("/", "/a");
    put("/sys/fs/cgroup/a/memory.max", "2147483648\n");     /* 2048 MiB */
    put("/sys/fs/cgroup/a/memory.current", "1610612736\n"); /* 1536 MiB */
    /* 1024 MiB of page cache, of which 256 are dirty and 128 being written. */
    put("/sys/fs/cgroup/a/memory.stat",
        "anon 536870912\nfile 1073741824\nfile_dirty 268435456\nfile_writeback 134217728\n"
        "inactive_file 805306368\nactive_file 268435456\n");
    struct host_memory m = read_memory();
    assert_int_equal(m.total_bytes, 2048 * MIB);
    assert_int_equal(m.available_bytes, (2048 - 1536 + 1024 - 256 - 128) * MIB);
    assert_string_equal(m.bound_by, "/a");
    put("/sys/fs/cgroup/a/memory.high", "1073741824\n"); /* below what is used, cache aside */
    m = read_memory();
    assert_int_equal(m.available_bytes, (1024 - 1536 + 1024 - 256 - 128) * MIB);
}

static void v2_tightest_ancestor_decides(void **state)
{
    (void)state;
    put_meminfo();
    put_v2("/", "/outer/middle/inner");
    put("/sys/fs/cgroup/outer/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/outer/memory.current", "4026531840\n"); /* 256 MiB left */
    put("/sys/fs/cgroup/outer/middle/memory.max", "max\n");
    put("/sys/fs/cgroup/outer/middle/inner/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/outer/middle/inner/memory.current", "0\n");
    struct host_memory m = read_memory();
    assert_int_equal(m.total_bytes, 1024 * MIB);
    assert_int_equal(m.available_bytes, 256 * MIB);
    assert_string_equal(m.bound_by, "/outer");
}

static void a_group_over_its_limit_leaves_nothing(void **state)
{
    (void)state;
    put_meminfo();
    put_v2("/", "/a");
    put("/sys/fs/cgroup/a/memory.max", "1048576\n");
    put("/sys/fs/cgroup/a/memory.current", "2097152\n");
    assert_int_equal(read_memory().available_bytes, 0);
}

static void v1_is_read_too(void **state)
{
    (void)state;
    put_meminfo();
    put_v1("/", "/a/b");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 0\nactive_file 0\ntotal_inactive_file 1073741824\n"
        "total_active_file 536870912\ntotal_dirty 536870912\ntotal_writeback 0\n");
    struct host_memory m = read_memory();
    assert_int_equal(m.available_bytes, (3072 - 2048 + 1024) * MIB);
    assert_string_equal(m.bound_by, "/a");
}

/* What /proc/self/cgroup says is outside of what is mounted, as in many containers. */
static void containers_see_what_is_mounted(void **state)
{
    (void)state;
    put_meminfo();
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    put_v2("/", "/");
    assert_int_equal(read_memory().available_bytes, 1024 * MIB);
    assert_string_equal(read_memory().bound_by, "/");
    put_v2("/docker/1234", "/docker/1234");
    assert_int_equal(read_memory().available_bytes, 1024 * MIB);
    put_v2("/", "/../../elsewhere");
    assert_int_equal(read_memory().available_bytes, 1024 * MIB);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
    put_v1("/docker/1234", "/docker/1234");
    assert_int_equal(read_memory().available_bytes, 2048 * MIB);
    put_v1("/docker/1234", "/kubepods/other");
    assert_int_equal(read_memory().available_bytes, 2048 * MIB);
}

static void put_affinity(const char *list)
{
    char text[128];
    snprintf(text, sizeof text, "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\n", list);
    put("/proc/self/status", text);
}

static void affinity_is_counted(void **state)
{
    (void)state;
    put_affinity("0-3,8,10-11");
    assert_int_equal(host_cpu_count(root), 7);
}

static void quotas_bound_the_count(void **state)
{
    (void)state;
    put_affinity("0-15");
    put_v2("/", "/outer/inner");
    put("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
    assert_int_equal(host_cpu_count(root), 16);
    put("/sys/fs/cgroup/outer/cpu.max", "250000 100000\n");
    assert_int_equal(host_cpu_count(root), 3);
    put("/sys/fs/cgroup/outer/inner/cpu.max", "50000 100000\n");
    assert_int_equal(host_cpu_count(root), 1);
    put_v1("/", "/a");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(host_cpu_count(root), 16);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "600000\n");
    assert_int_equal(host_cpu_count(root), 6);
}

static void put_cpu(int cpu, const char *file, int value)
{
    char path[128], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, file);
    snprintf(text, sizeof text, "%d\n", value);
    put(path, text);
}

static void little_cores_are_left_out(void **state)
{
    (void)state;
    put_affinity("0-7");
    for (int i = 0; i < 8; i++) /* RK3588: four A55, four A76 */
        put_cpu(i, "cpu_capacity", i < 4 ? 530 : 1024);
    assert_int_equal(host_cpu_count(root), 4);
    put_affinity("0-3"); /* bound to the little ones: they are all there is */
    assert_int_equal(host_cpu_count(root), 4);
    put_affinity("0-7");
    for (int i = 0; i < 8; i++) /* a phone: little, middle, one prime */
        put_cpu(i, "cpu_capacity", i < 4 ? 180 : i < 7 ? 620 : 1024);
    assert_int_equal(host_cpu_count(root), 4);
}

static void clock_rates_tell_where_capacity_does_not(void **state)
{
    (void)state;
    put_affinity("0-7");
    for (int i = 0; i < 7; i++)
        put_cpu(i, "cpufreq/cpuinfo_max_freq", i < 4 ? 1800000 : 2400000);
    assert_int_equal(host_cpu_count(root), 8); /* one does not say */
    put_cpu(7, "cpufreq/cpuinfo_max_freq", 2300000);
    assert_int_equal(host_cpu_count(root), 4);
}

static void hybrids_name_their_small_cores(void **state)
{
    (void)state;
    put_affinity("0-15");
    put("/sys/devices/cpu_atom/cpus", "8-15\n");
    assert_int_equal(host_cpu_count(root), 8);
    put_affinity("12-15");
    assert_int_equal(host_cpu_count(root), 4);
}

static void this_machine_answers(void **state)
{
    (void)state;
    struct host_memory m;
    assert_int_equal(host_memory_read("", &m), 0);
    assert_true(m.total_bytes > 0 && m.available_bytes > 0);
    assert_true(m.available_bytes <= m.total_bytes);
    assert_in_range(host_cpu_count(""), 1, (unsigned long)sysconf(_SC_NPROCESSORS_CONF));
    /* The kernel sums its counters lazily, so the peak may lag a little behind. */
    assert_true(host_rss_bytes() > 0 && host_peak_rss_bytes() + (1 << 20) > host_rss_bytes());
}

#define with_root(test) cmocka_unit_test_setup_teardown(test, new_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_root(without_groups_meminfo_decides),
        with_root(without_meminfo_it_fails),
        with_root(unlimited_groups_bound_nothing),
        with_root(v2_counts_what_cannot_be_dropped),
        with_root(v2_tightest_ancestor_decides),
        with_root(a_group_over_its_limit_leaves_nothing),
        with_root(v1_is_read_too),
        with_root(containers_see_what_is_mounted),
        with_root(affinity_is_counted),
        with_root(quotas_bound_the_count),
        with_root(little_cores_are_left_out),
        with_root(clock_rates_tell_where_capacity_does_not),
        with_root(hybrids_name_their_small_cores),
        cmocka_unit_test(this_machine_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
