/* Monotonic time. */
#ifndef BMOE_BASE_CLOCK_H
#define BMOE_BASE_CLOCK_H

#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC. */
int64_t clock_now_us(void);

#endif
