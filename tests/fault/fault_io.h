/*
 * File reads that go wrong, for struct session_hooks.io. What goes wrong is set at any time, from
 * any thread; counters tell that it did.
 */
#ifndef FAULT_IO_H
#define FAULT_IO_H

#include "pager/pager.h"

#include <stdatomic.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_EIO,         /* every read */
    FAULT_EIO_ONCE,    /* each seventh read of a thread, so never its retry */
    FAULT_SHORT,       /* half of what was asked for, down to a sector */
    FAULT_INTERRUPTED, /* each second call: EINTR */
    FAULT_SLOW,        /* 3 ms more per read */
};

struct fault_io {
    struct pager_io io; /* give this to the session */
    atomic_int kind;    /* enum fault_kind */
    bool no_direct;     /* opening with O_DIRECT: EINVAL */
    atomic_uint n_calls, n_faults;
};

void fault_io_init(struct fault_io *f);

#endif
