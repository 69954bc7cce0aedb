/* The system calls of this machine behind struct ork_os. */
#include "transport/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

static int host_open(void *context, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    (void)context;
    return fd < 0 ? -errno : fd;
}

static void host_close(void *context, int fd)
{
    (void)context;
    close(fd);
}

/* A lock of the open file, gone with it however the process ends. */
static int host_lock(void *context, int fd)
{
    (void)context;
    if (!flock(fd, LOCK_EX | LOCK_NB))
        return 0;
    return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

static int host_ioctl(void *context, int fd, unsigned long request, void *argument)
{
    int result = ioctl(fd, request, argument);
    (void)context;
    return result < 0 ? -errno : result;
}

static int host_map(void *context, int fd, uint64_t offset, uint64_t bytes, void **map)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    (void)context;
    if (at == MAP_FAILED)
        return -errno;
    *map = at;
    return 0;
}

static void host_unmap(void *context, void *map, uint64_t bytes)
{
    (void)context;
    munmap(map, bytes);
}

static int read_file(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    if (fd < 0)
        return -errno;
    n = read(fd, bytes, size);
    if (n < 0)
        n = -errno;
    close(fd);
    return (int)n;
}

static int host_compatible(void *context, int fd, char *strings, size_t size)
{
    char path[96];
    struct stat st;
    int n = -ENOENT;
    (void)context;
    if (!fstat(fd, &st)) {
        snprintf(path, sizeof path, "/sys/dev/char/%u:%u/device/of_node/compatible",
                 major(st.st_rdev), minor(st.st_rdev));
        n = read_file(path, strings, size);
    }
    if (n < 0)
        n = read_file("/proc/device-tree/compatible", strings, size);
    return n;
}

static uint64_t host_memlock_bytes(void *context)
{
    struct rlimit limit;
    (void)context;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

static int64_t host_now_ns(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const struct ork_os ork_os_host = {
    .open = host_open,
    .close = host_close,
    .lock = host_lock,
    .ioctl = host_ioctl,
    .map = host_map,
    .unmap = host_unmap,
    .compatible = host_compatible,
    .memlock_bytes = host_memlock_bytes,
    .now_ns = host_now_ns,
};
