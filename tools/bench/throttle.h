/*
 * A slower disk than the one there is: reads are made as ever, and each returns no sooner than a
 * disk of so many bytes a second would be done with it and with all that were asked for before.
 */
#ifndef BMOE_BENCH_THROTTLE_H
#define BMOE_BENCH_THROTTLE_H

#include "pager/pager.h"

#include <pthread.h>

struct throttle {
    struct pager_io io;   /* for session_hooks; good as long as the session */
    pthread_mutex_t lock; /* guards what follows */
    double bytes_per_us;  /* 0: as fast as the disk */
    double free_us;       /* when it is done with what was asked for so far */
};

void throttle_init(struct throttle *t);
void throttle_fini(struct throttle *t);
void throttle_set(struct throttle *t, double bytes_per_second); /* 0: none */

#endif
