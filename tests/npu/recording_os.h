/* A kernel made of expectations: system calls are compared with a script, field by field, and
 * answered from it.
 *
 * The first difference is kept and every later call fails with -EPROTO; a test asks for it at the
 * end, in its own thread (transports call from threads of their own). Mapped memory is malloc'd
 * and stays readable until the recording is fini'd. */
#ifndef RECORDING_OS_H
#define RECORDING_OS_H

#include <pthread.h>
#include <stdbool.h>

#include "transport/os.h"

enum recorded_call { CALL_OPEN, CALL_CLOSE, CALL_IOCTL, CALL_MAP, CALL_UNMAP };

struct recorded_step {
    enum recorded_call call;
    char path[64];
    unsigned long request;
    int fd;
    uint64_t offset, bytes;
    int result;
    size_t argument_bytes;
    unsigned char want[104], reply[104];
    const char *driver;                  /* answers DRM's version query with this name */
    bool (*check)(const void *argument); /* instead of want */
};

struct recording {
    struct ork_os os;
    pthread_mutex_t lock; /* guards all below */
    struct recorded_step steps[512];
    size_t n_steps, at;
    char failure[256];
    void *maps[64];
    size_t n_maps;
    const char *compatible;
    size_t compatible_bytes;
    uint64_t memlock;
    int lock_result;
    int64_t now; /* advances by tick on every query */
    int64_t tick;
};

void recording_init(struct recording *rec);
void recording_fini(struct recording *rec);

/* Expectations, in order. A path that is not the next expected one does not exist. */
void recording_open(struct recording *rec, const char *path, int result);
void recording_close(struct recording *rec, int fd);
void recording_version(struct recording *rec, int fd, const char *driver);
/* want and reply have the same size; reply is copied out whatever the result, as DRM does. NULL
 * reply: the argument stays as it is. */
void recording_ioctl(struct recording *rec, int fd, unsigned long request, const void *want,
                     const void *reply, size_t bytes, int result);
void recording_ioctl_check(struct recording *rec, int fd, unsigned long request,
                           bool (*check)(const void *argument), int result);
void recording_map(struct recording *rec, int fd, uint64_t offset, uint64_t bytes, int result);
void recording_unmap(struct recording *rec, uint64_t bytes);

/* NULL if all went as scripted and the script is used up; else what differed. */
const char *recording_verdict(struct recording *rec);

#endif
