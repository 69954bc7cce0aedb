/* CLOCK_MONOTONIC in microseconds: 2^63 of them last 292 000 years. */
#include "base/clock.h"

#include <time.h>

int64_t clock_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
