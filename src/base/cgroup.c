/*
 * Where a control group lies: its path comes from /proc/self/cgroup, the hierarchy's mount point
 * and which part of it is mounted there from /proc/self/mountinfo. In a container the two often
 * begin at different groups; then what is mounted is all there is to see.
 */
#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_below(const char *root, const char *path)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

/* Whether word is one of the comma-separated words of list (which ends at a 0 or a newline). */
static bool has_word(const char *list, size_t list_bytes, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list, *end = list + list_bytes; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t bytes = comma ? (size_t)(comma - at) : (size_t)(end - at);
        if (bytes == n && memcmp(at, word, n) == 0)
            return true;
        at += bytes + 1;
    }
    return false;
}

/* The group's path in its hierarchy: a line "N:controllers:path" of version 1, else "0::path". */
static bool read_path(const char *root, const char *controller, char *path, size_t bytes, bool *v2)
{
    bool found = false;
    char *line = NULL;
    size_t room = 0;
    FILE *f = open_below(root, "/proc/self/cgroup");
    while (f && getline(&line, &room, f) > 0) {
        char *list = strchr(line, ':');
        char *at = list ? strchr(list + 1, ':') : NULL;
        if (!at)
            continue;
        line[strcspn(line, "\n")] = '\0';
        bool is_v2 = strncmp(line, "0::", 3) == 0;
        bool is_v1 = has_word(list + 1, (size_t)(at - list - 1), controller);
        if (!is_v1 && !(is_v2 && !found))
            continue;
        found = true;
        *v2 = !is_v1;
        snprintf(path, bytes, "%s", at + 1);
        if (is_v1)
            break;
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* One line of mountinfo, taken apart in place: "id parent dev ROOT MOUNT options - TYPE source
 * SUPER". */
struct mount {
    const char *root, *at, *type, *super;
};

static bool parse_mount(char *line, struct mount *out)
{
    char *fields[5], *save = NULL, *tail = strstr(line, " - ");
    if (!tail)
        return false;
    *tail = '\0';
    for (int i = 0; i < 5; i++)
        if (!(fields[i] = strtok_r(i ? NULL : line, " ", &save)))
            return false;
    out->root = fields[3];
    out->at = fields[4];
    out->type = strtok_r(tail + 3, " ", &save);
    if (!out->type || !strtok_r(NULL, " ", &save))
        return false;
    out->super = strtok_r(NULL, " \n", &save);
    return out->super != NULL;
}

/* The mount point of the hierarchy, and the group that is mounted there. */
static bool read_mount(const char *root, const char *controller, bool v2, char *at, char *mounted,
                       size_t bytes)
{
    bool found = false;
    char *line = NULL;
    size_t room = 0;
    FILE *f = open_below(root, "/proc/self/mountinfo");
    while (f && !found && getline(&line, &room, f) > 0) {
        struct mount m;
        if (!parse_mount(line, &m))
            continue;
        found =
            v2 ? strcmp(m.type, "cgroup2") == 0
               : strcmp(m.type, "cgroup") == 0 && has_word(m.super, strlen(m.super), controller);
        if (found) {
            snprintf(at, bytes, "%s", m.at);
            snprintf(mounted, bytes, "%s", m.root);
        }
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* The part of path below what is mounted: "" for the mounted group itself, or for one outside. */
static const char *below(const char *path, const char *mounted)
{
    size_t n = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    if (strncmp(path, mounted, n) != 0 || (path[n] && path[n] != '/') || strstr(path, "/.."))
        return "";
    return strcmp(path + n, "/") == 0 ? "" : path + n;
}

bool cgroup_find(struct cgroup *g, const char *root, const char *controller)
{
    char path[PATH_MAX], at[PATH_MAX], mounted[PATH_MAX];
    if (!read_path(root, controller, path, sizeof path, &g->v2) ||
        !read_mount(root, controller, g->v2, at, mounted, sizeof at))
        return false;
    int n = snprintf(g->dir, sizeof g->dir, "%s%s%s", root, at, below(path, mounted));
    g->top = strlen(root) + strlen(at);
    return n > 0 && (size_t)n < sizeof g->dir;
}

bool cgroup_up(struct cgroup *g)
{
    char *slash = strrchr(g->dir + g->top, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

const char *cgroup_path(const struct cgroup *g)
{
    return g->dir[g->top] ? g->dir + g->top : "/";
}

int cgroup_numbers(const struct cgroup *g, const char *file, int64_t *out, int n)
{
    char name[64];
    int found = 0;
    snprintf(name, sizeof name, "/%s", file);
    FILE *f = open_below(g->dir, name);
    if (!f)
        return 0;
    for (long long value; found < n && fscanf(f, "%lld", &value) == 1; found++)
        out[found] = value;
    fclose(f);
    return found;
}

int64_t cgroup_stat(const struct cgroup *g, const char *file, const char *word)
{
    char name[64], line[256];
    long long value = 0;
    size_t n = strlen(word);
    snprintf(name, sizeof name, "/%s", file);
    FILE *f = open_below(g->dir, name);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, n) == 0 && line[n] == ' ' && sscanf(line + n, "%lld", &value) == 1)
            break;
    if (f)
        fclose(f);
    return value;
}
