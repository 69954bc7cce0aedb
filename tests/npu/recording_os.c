/* Compares system calls with a script; see recording_os.h. */
#include "recording_os.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/drm.h"

__attribute__((format(printf, 2, 3))) static int differ(struct recording *rec, const char *format,
                                                        ...)
{
    va_list args;
    int used = snprintf(rec->failure, sizeof rec->failure, "step %zu: ", rec->at);
    va_start(args, format);
    vsnprintf(rec->failure + used, sizeof rec->failure - (size_t)used, format, args);
    va_end(args);
    return -EPROTO;
}

/* The next step if it is of this call; else NULL, and the difference is noted. */
static struct recorded_step *next_step(struct recording *rec, enum recorded_call call,
                                       const char *what)
{
    static const char *const names[] = {"open", "close", "ioctl", "map", "unmap"};
    if (rec->failure[0])
        return NULL;
    if (rec->at == rec->n_steps) {
        differ(rec, "unexpected %s (%s) after the end of the script", names[call], what);
        return NULL;
    }
    if (rec->steps[rec->at].call != call) {
        differ(rec, "expected %s, got %s (%s)", names[rec->steps[rec->at].call], names[call], what);
        return NULL;
    }
    return &rec->steps[rec->at++];
}

static int rec_open(void *context, const char *path)
{
    struct recording *rec = context;
    int result = -ENOENT;
    pthread_mutex_lock(&rec->lock);
    if (rec->at < rec->n_steps && rec->steps[rec->at].call == CALL_OPEN &&
        !strcmp(rec->steps[rec->at].path, path))
        result = rec->steps[rec->at++].result;
    pthread_mutex_unlock(&rec->lock);
    return result;
}

static void rec_close(void *context, int fd)
{
    struct recording *rec = context;
    struct recorded_step *step;
    pthread_mutex_lock(&rec->lock);
    step = next_step(rec, CALL_CLOSE, "");
    if (step && step->fd != fd)
        differ(rec, "close of %d, expected %d", fd, step->fd);
    pthread_mutex_unlock(&rec->lock);
}

static int rec_lock(void *context, int fd)
{
    const struct recording *rec = context;

    (void)fd;
    return rec->lock_result;
}

static int first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return (int)i;
    return -1;
}

static void answer_version(const struct recorded_step *step, void *argument)
{
    struct drm_version_arg *version = argument;
    size_t length = strlen(step->driver);
    version->major = 0;
    version->minor = 9;
    version->patch = 6;
    if (version->name_bytes >= length)
        memcpy((void *)(uintptr_t)version->name, step->driver, length);
    version->name_bytes = length;
}

static int answer_ioctl(struct recording *rec, const struct recorded_step *step, int fd,
                        unsigned long request, void *argument)
{
    int at;
    if (step->request != request || step->fd != fd)
        return differ(rec, "ioctl 0x%lx on %d, expected 0x%lx on %d", request, fd, step->request,
                      step->fd);
    if (step->check && !step->check(argument))
        return differ(rec, "argument of ioctl 0x%lx", request);
    at = first_difference(argument, step->want, step->argument_bytes);
    if (!step->check && at >= 0)
        return differ(rec, "byte %d of ioctl 0x%lx is 0x%02x, expected 0x%02x", at, request,
                      ((unsigned char *)argument)[at], step->want[at]);
    if (step->driver && step->result >= 0)
        answer_version(step, argument);
    else if (step->argument_bytes)
        memcpy(argument, step->reply, step->argument_bytes);
    return step->result;
}

static int rec_ioctl(void *context, int fd, unsigned long request, void *argument)
{
    struct recording *rec = context;
    struct recorded_step *step;
    char what[32];
    int result = -EPROTO;
    snprintf(what, sizeof what, "0x%lx", request);
    pthread_mutex_lock(&rec->lock);
    step = next_step(rec, CALL_IOCTL, what);
    if (step)
        result = answer_ioctl(rec, step, fd, request, argument);
    pthread_mutex_unlock(&rec->lock);
    return result;
}

static int rec_map(void *context, int fd, uint64_t offset, uint64_t bytes, void **map)
{
    struct recording *rec = context;
    struct recorded_step *step;
    int result = -EPROTO;
    pthread_mutex_lock(&rec->lock);
    step = next_step(rec, CALL_MAP, "");
    if (step && (step->fd != fd || step->offset != offset || step->bytes != bytes))
        result = differ(rec, "map of %llu bytes at 0x%llx", (unsigned long long)bytes,
                        (unsigned long long)offset);
    else if (step)
        result = step->result;
    if (!result) {
        *map = rec->maps[rec->n_maps++] = malloc(bytes);
        memset(*map, 0x55, bytes);
    }
    pthread_mutex_unlock(&rec->lock);
    return result;
}

static void rec_unmap(void *context, void *map, uint64_t bytes)
{
    struct recording *rec = context;
    struct recorded_step *step;
    (void)map;
    pthread_mutex_lock(&rec->lock);
    step = next_step(rec, CALL_UNMAP, "");
    if (step && step->bytes != bytes)
        differ(rec, "unmap of %llu bytes", (unsigned long long)bytes);
    pthread_mutex_unlock(&rec->lock);
}

static int rec_compatible(void *context, int fd, char *strings, size_t size)
{
    const struct recording *rec = context;
    (void)fd;
    if (!rec->compatible || rec->compatible_bytes > size)
        return -ENOENT;
    memcpy(strings, rec->compatible, rec->compatible_bytes);
    return (int)rec->compatible_bytes;
}

static uint64_t rec_memlock(void *context)
{
    return ((const struct recording *)context)->memlock;
}

static int64_t rec_now(void *context)
{
    struct recording *rec = context;
    int64_t now;
    pthread_mutex_lock(&rec->lock);
    now = rec->now += rec->tick;
    pthread_mutex_unlock(&rec->lock);
    return now;
}

void recording_init(struct recording *rec)
{
    static const char board[] = "rockchip,rk3588-rknn-core\0rockchip,rk3588-rknpu";
    memset(rec, 0, sizeof *rec);
    pthread_mutex_init(&rec->lock, NULL);
    rec->compatible = board;
    rec->compatible_bytes = sizeof board;
    rec->memlock = UINT64_MAX;
    rec->os = (struct ork_os){.context = rec,
                              .open = rec_open,
                              .close = rec_close,
                              .lock = rec_lock,
                              .ioctl = rec_ioctl,
                              .map = rec_map,
                              .unmap = rec_unmap,
                              .compatible = rec_compatible,
                              .memlock_bytes = rec_memlock,
                              .now_ns = rec_now};
}

void recording_fini(struct recording *rec)
{
    for (size_t i = 0; i < rec->n_maps; i++)
        free(rec->maps[i]);
    pthread_mutex_destroy(&rec->lock);
}

static struct recorded_step *add_step(struct recording *rec, enum recorded_call call, int result)
{
    struct recorded_step *step = &rec->steps[rec->n_steps++];
    if (rec->n_steps > sizeof rec->steps / sizeof *rec->steps)
        abort();
    step->call = call;
    step->result = result;
    return step;
}

void recording_open(struct recording *rec, const char *path, int result)
{
    snprintf(add_step(rec, CALL_OPEN, result)->path, sizeof rec->steps->path, "%s", path);
}

void recording_close(struct recording *rec, int fd)
{
    add_step(rec, CALL_CLOSE, 0)->fd = fd;
}

void recording_ioctl(struct recording *rec, int fd, unsigned long request, const void *want,
                     const void *reply, size_t bytes, int result)
{
    struct recorded_step *step = add_step(rec, CALL_IOCTL, result);
    if (bytes > sizeof step->want)
        abort();
    step->fd = fd;
    step->request = request;
    step->argument_bytes = bytes;
    memcpy(step->want, want, bytes);
    memcpy(step->reply, reply ? reply : want, bytes);
}

void recording_ioctl_check(struct recording *rec, int fd, unsigned long request,
                           bool (*check)(const void *argument), int result)
{
    struct recorded_step *step = add_step(rec, CALL_IOCTL, result);
    step->fd = fd;
    step->request = request;
    step->check = check;
}

static bool any_argument(const void *argument)
{
    return argument != NULL;
}

void recording_version(struct recording *rec, int fd, const char *driver)
{
    recording_ioctl_check(rec, fd, DRM_REQUEST_VERSION, any_argument, 0);
    rec->steps[rec->n_steps - 1].driver = driver;
}

void recording_map(struct recording *rec, int fd, uint64_t offset, uint64_t bytes, int result)
{
    struct recorded_step *step = add_step(rec, CALL_MAP, result);
    step->fd = fd;
    step->offset = offset;
    step->bytes = bytes;
}

void recording_unmap(struct recording *rec, uint64_t bytes)
{
    add_step(rec, CALL_UNMAP, 0)->bytes = bytes;
}

const char *recording_verdict(struct recording *rec)
{
    pthread_mutex_lock(&rec->lock);
    if (!rec->failure[0] && rec->at != rec->n_steps)
        snprintf(rec->failure, sizeof rec->failure, "only %zu of %zu steps were made", rec->at,
                 rec->n_steps);
    pthread_mutex_unlock(&rec->lock);
    return rec->failure[0] ? rec->failure : NULL;
}
