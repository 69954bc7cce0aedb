/* Finding the NPU among DRM devices; see drm.h. */
#include "transport/drm.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct drm_version_arg) == 64, "drm_version of a 64-bit kernel");
static_assert(sizeof(struct drm_gem_close_arg) == 8, "drm_gem_close");

enum { MAX_NODES = 64 };

int drm_fail(struct ork_error *error, int err, const char *format, ...)
{
    va_list args;
    if (!error)
        return err;
    error->code = err;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return err;
}

int drm_ioctl(const struct ork_os *os, int fd, unsigned long request, void *argument)
{
    int err;
    do {
        err = os->ioctl(os->context, fd, request, argument);
    } while (err == -EINTR);
    return err;
}

/* 1: the node belongs to `driver`; 0: to another. */
static int is_driver(const struct ork_os *os, struct drm_node *node, const char *driver)
{
    char name[32] = {0};
    struct drm_version_arg version = {.name_bytes = sizeof name - 1, .name = (uintptr_t)name};
    if (drm_ioctl(os, node->fd, DRM_REQUEST_VERSION, &version) < 0 || strcmp(name, driver) != 0)
        return 0;
    node->version = (uint32_t)(version.major * 10000 + version.minor * 100 + version.patch);
    return 1;
}

/* 0: an RK3588, or nothing is known; else the refusal, with the chip in the sentence. */
static int check_chip(const struct ork_os *os, const struct drm_node *node, struct ork_error *error)
{
    static const char family[] = "rockchip,rk3588";
    char strings[512];
    int n = os->compatible(os->context, node->fd, strings, sizeof strings - 1);
    if (n <= 0)
        return 0;
    strings[n] = 0;
    for (int at = 0; at < n; at += (int)strlen(strings + at) + 1)
        if (!strncmp(strings + at, family, sizeof family - 1))
            return 0;
    return drm_fail(error, -EOPNOTSUPP,
                    "%s is the NPU of another chip (%.64s): its registers differ, only the RK3588 "
                    "is driven.",
                    node->path, strings);
}

int drm_find(const struct ork_os *os, const char *prefix, const char *driver, struct drm_node *out,
             struct ork_error *error)
{
    struct drm_node node, denied = {.fd = 0};
    for (unsigned i = 0; i < MAX_NODES; i++) {
        int err;
        snprintf(node.path, sizeof node.path, "%s%u", prefix, i);
        node.fd = os->open(os->context, node.path);
        if ((node.fd == -EACCES || node.fd == -EPERM) && !denied.fd)
            denied = node;
        if (node.fd < 0)
            continue;
        if (is_driver(os, &node, driver)) {
            err = check_chip(os, &node, error);
            if (err)
                os->close(os->context, node.fd);
            else
                *out = node;
            return err;
        }
        os->close(os->context, node.fd);
    }
    if (denied.fd)
        return drm_fail(error, denied.fd,
                        "%s may not be opened by this user: add the user to the group that owns "
                        "it (often render or video).",
                        denied.path);
    return drm_fail(error, -ENODEV, "No %s* belongs to the kernel driver \"%s\".", prefix, driver);
}

int drm_explain_memory(const struct ork_os *os, const char *path, int err, struct ork_error *error)
{
    uint64_t limit = os->memlock_bytes(os->context);
    if (err == -EACCES || err == -EPERM)
        return drm_fail(error, err,
                        "%s was opened but this user may not allocate on it: the group that owns "
                        "the node may.",
                        path);
    if ((err == -ENOMEM || err == -EAGAIN) && limit != UINT64_MAX)
        return drm_fail(error, err,
                        "%s could not lock a first page: RLIMIT_MEMLOCK is %llu KiB, raise it "
                        "(ulimit -l unlimited).",
                        path, (unsigned long long)(limit / 1024));
    return drm_fail(error, err, "%s could not allocate a first page: %s.", path, strerror(-err));
}
