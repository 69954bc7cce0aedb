/*
 * The control group of this process for one controller, version 1 or 2, and the way up to the top
 * of what is mounted here. Reads /proc/self/cgroup and /proc/self/mountinfo below `root` ("" or, in
 * tests, a folder that imitates them).
 */
#ifndef BMOE_BASE_CGROUP_H
#define BMOE_BASE_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup {
    char dir[PATH_MAX]; /* the group's folder */
    size_t top;         /* dir's first `top` bytes are the hierarchy's mount point */
    bool v2;
};

/* Finds the group for "memory" or "cpu"; false when there is none. */
bool cgroup_find(struct cgroup *g, const char *root, const char *controller);
/* Goes to the parent; false at the top. */
bool cgroup_up(struct cgroup *g);
/* The group's path below the mount point, "/" at the top. */
const char *cgroup_path(const struct cgroup *g);

/* The numbers at the front of a file of the group, at most n; answers how many there were ("max"
 * and what follows it are not numbers). */
int cgroup_numbers(const struct cgroup *g, const char *file, int64_t *out, int n);
/* The number behind a word at the start of a line; 0 when absent. */
int64_t cgroup_stat(const struct cgroup *g, const char *file, const char *word);

#endif
