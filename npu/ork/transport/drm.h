/* What both kernel drivers share as DRM devices: found by driver name, checked by device tree,
 * closed buffers, and the sentences for what goes wrong at open. */
#ifndef ORK_DRM_H
#define ORK_DRM_H

#include <stdint.h>

#include "ork.h"
#include "transport/os.h"

/* DRM ioctls used here; layouts are those of drm.h (stable kernel interface). */
struct drm_version_arg {
    int32_t major, minor, patch;
    int32_t pad;
    uint64_t name_bytes;
    uint64_t name; /* user pointer */
    uint64_t date_bytes;
    uint64_t date;
    uint64_t desc_bytes;
    uint64_t desc;
};

struct drm_gem_close_arg {
    uint32_t handle;
    uint32_t pad;
};

#define DRM_IOWR(nr, type)    (3ul << 30 | (unsigned long)sizeof(type) << 16 | 'd' << 8 | (nr))
#define DRM_IOW(nr, type)     (1ul << 30 | (unsigned long)sizeof(type) << 16 | 'd' << 8 | (nr))
#define DRM_REQUEST_VERSION   DRM_IOWR(0x00, struct drm_version_arg)
#define DRM_REQUEST_GEM_CLOSE DRM_IOW(0x09, struct drm_gem_close_arg)

struct drm_node {
    int fd;
    char path[64];
    uint32_t version; /* major * 10000 + minor * 100 + patch */
};

/* Opens the first of PREFIX0 .. PREFIX63 whose driver calls itself `driver`. -ENODEV: none is
 * here; -EACCES or -EPERM: one is there that may not be opened; -EOPNOTSUPP: it sits on another
 * chip. All but success fill *error. */
int drm_find(const struct ork_os *os, const char *prefix, const char *driver, struct drm_node *out,
             struct ork_error *error);

/* ioctl, again after EINTR. */
int drm_ioctl(const struct ork_os *os, int fd, unsigned long request, void *argument);

/* Fills *error with why a first small buffer could not be had: permission or RLIMIT_MEMLOCK. */
int drm_explain_memory(const struct ork_os *os, const char *path, int err, struct ork_error *error);

/* Formats the sentence, stores err, returns err. error may be NULL. */
__attribute__((format(printf, 3, 4))) int drm_fail(struct ork_error *error, int err,
                                                   const char *format, ...);

#endif
