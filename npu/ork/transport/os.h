/* The few system calls a kernel transport makes, as a table: the tests put a recorder here.
 *
 * Every function returns a negative errno instead of setting errno. Threads: as the calls
 * themselves; the host's table has no state. */
#ifndef ORK_OS_H
#define ORK_OS_H

#include <stddef.h>
#include <stdint.h>

struct ork_os {
    void *context;                                /* handed to every function */
    int (*open)(void *context, const char *path); /* read-write, close-on-exec: a descriptor */
    void (*close)(void *context, int fd);
    int (*lock)(void *context, int fd); /* exclusive, until close; -EBUSY: another has it */
    int (*ioctl)(void *context, int fd, unsigned long request, void *argument);
    /* Maps bytes of fd at offset, shared, readable and writable: *map. */
    int (*map)(void *context, int fd, uint64_t offset, uint64_t bytes, void **map);
    void (*unmap)(void *context, void *map, uint64_t bytes);
    /* The device tree's "compatible" strings of the device behind fd, else of the board: bytes,
     * each string closed by a zero. -ENOENT where there is no device tree. */
    int (*compatible)(void *context, int fd, char *strings, size_t size);
    uint64_t (*memlock_bytes)(void *context); /* RLIMIT_MEMLOCK, UINT64_MAX = unlimited */
    int64_t (*now_ns)(void *context);         /* CLOCK_MONOTONIC */
};

extern const struct ork_os ork_os_host;

#endif
