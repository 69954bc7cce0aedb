/*
 * The page-cache promise, measured where it is kept: in a fresh memory cgroup (v1 or v2), on a file
 * that was evicted from the cache before. Direct reads leave less than 1 % of what they read there;
 * buffered ones drop behind themselves and stay below their own bound. Skipped where no cgroup can
 * be made.
 */
#include "pager_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20, SLICE = 300000 };

static char group[256];

static bool group_make(const char *root, const char *probe)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, probe);
    if (access(path, R_OK) != 0)
        return false;
    snprintf(group, sizeof group, "%s/bmoe-test-%d", root, (int)getpid());
    return mkdir(group, 0755) == 0;
}

static bool group_enter(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool fine = fprintf(f, "%d\n", (int)getpid()) > 0;
    return fclose(f) == 0 && fine;
}

/* Bytes of page cache charged to the group; -1 when it does not say. */
static long long group_cache(void)
{
    char path[300], line[256];
    long long bytes = -1, v;
    snprintf(path, sizeof path, "%s/memory.stat", group);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "cache %lld", &v) == 1 || sscanf(line, "file %lld", &v) == 1)
            bytes = v;
    if (f)
        fclose(f);
    return bytes;
}

static void evict(const char *path)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

/* Reads the whole file through the pager: page cache that grew, in parts per thousand of it. */
static int child_run(struct rig *r, bool buffered)
{
    if (!group_enter())
        return 250;
    r->config.buffered = buffered;
    r->config.reserve_bytes = 2 * FILE_BYTES;
    rig_create(r);
    rig_matrix(r, 777, SLICE, (FILE_BYTES - 777) / SLICE, NULL);
    rig_start(r);
    long long before = group_cache();
    for (uint32_t e = 0; e < r->n_extents; e++) {
        if (pager_pin(r->pager, &e, 1, NULL) != 0)
            return 251;
        pager_unpin(r->pager, &e, 1);
    }
    long long grown = group_cache() - before;
    if (before < 0 || pager_file_direct(r->pager, r->file) == buffered)
        return 252;
    pager_destroy(r->pager);
    return grown <= 0                        ? 0
           : grown * 1000 / FILE_BYTES > 249 ? 249
                                             : (int)(grown * 1000 / FILE_BYTES);
}

/* The same file by plain reads, which nobody drops: what the measure has to see. */
static int child_plain(struct rig *r)
{
    static char block[1 << 20];
    int fd = open(r->path, O_RDONLY);
    if (!group_enter() || fd < 0)
        return 0;
    long long before = group_cache();
    while (read(fd, block, sizeof block) > 0)
        ;
    long long grown = (group_cache() - before) * 100 / FILE_BYTES;
    return grown < 0 ? 0 : (int)grown;
}

enum how { DIRECT, BUFFERED, PLAIN };

static int run_child(struct rig *r, enum how how)
{
    return how == PLAIN ? child_plain(r) : child_run(r, how == BUFFERED);
}

static int measure(enum how how)
{
    struct rig r;
    rig_init(&r, FILE_BYTES);
    evict(r.path);
    pid_t child = fork();
    if (child == 0)
        _exit(run_child(&r, how));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(r.path);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void plain_reads_are_seen(void **state)
{
    (void)state;
    assert_in_range(measure(PLAIN), 80, 110); /* per cent */
}

static void direct_reads_leave_nothing(void **state)
{
    (void)state;
    assert_in_range(measure(DIRECT), 0, 9); /* per mille */
}

static void buffered_reads_drop_behind(void **state)
{
    (void)state;
    assert_in_range(measure(BUFFERED), 0, 49); /* per mille */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_reads_are_seen),
        cmocka_unit_test(direct_reads_leave_nothing),
        cmocka_unit_test(buffered_reads_drop_behind),
    };
    if (!group_make("/sys/fs/cgroup/memory", "memory.stat") &&
        !group_make("/sys/fs/cgroup", "cgroup.controllers")) {
        printf("no memory cgroup can be made here: skipped\n");
        return 77;
    }
    int rc = group_cache() < 0 ? 77 : cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(group);
    return rc;
}
