/* Time on the slow disk is handed out in the order of the calls. */
#include "throttle.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* When a read of so many bytes, asked for now, is done; 0: whenever it is. */
static double done_at(struct throttle *t, size_t bytes)
{
    double done = 0, now = (double)clock_now_us();
    pthread_mutex_lock(&t->lock);
    if (t->bytes_per_us > 0) {
        done = (t->free_us > now ? t->free_us : now) + (double)bytes / t->bytes_per_us;
        t->free_us = done;
    }
    pthread_mutex_unlock(&t->lock);
    return done;
}

static ssize_t slow_pread(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    double done = done_at(ctx, bytes);
    ssize_t got = pread(fd, buf, bytes, offset);
    int errnum = errno;
    struct timespec until = {(time_t)(done / 1e6), (long)((int64_t)done % 1000000) * 1000};
    if (done > (double)clock_now_us())
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    errno = errnum;
    return got;
}

void throttle_init(struct throttle *t)
{
    *t = (struct throttle){.io = {.pread = slow_pread, .ctx = t}};
    pthread_mutex_init(&t->lock, NULL);
}

void throttle_fini(struct throttle *t)
{
    pthread_mutex_destroy(&t->lock);
}

void throttle_set(struct throttle *t, double bytes_per_second)
{
    pthread_mutex_lock(&t->lock);
    t->bytes_per_us = bytes_per_second / 1e6;
    t->free_us = 0;
    pthread_mutex_unlock(&t->lock);
}
