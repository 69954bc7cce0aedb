/*
 * Something that may crash, abort or compute without end on what somebody gave us, run in a child
 * process first. What the child prints is kept, its processor time is limited, and it tells of each
 * stage that it came through.
 *
 * It is a fork of a process that may have other threads: it may begin with a lock that one of them
 * held, and wait for ever. So the parent gives up after half a minute (of its own looks), and there
 * is no verdict then.
 */
#ifndef BMOE_ENGINE_GUARDED_CHILD_H
#define BMOE_ENGINE_GUARDED_CHILD_H

#include <stddef.h>

struct guarded_child;

/* Runs in the child, whose standard output and error are kept; tell is for guarded_child_tell. */
typedef void guarded_child_fn(const void *ctx, int tell);

enum guarded_child_end {
    GUARDED_CHILD_CAME_THROUGH,
    GUARDED_CHILD_DIED, /* it crashed, aborted or used up its time */
    GUARDED_CHILD_LEFT  /* it ended by itself before, or nobody knows */
};

/* Starts it; ctx must outlive it. NULL: no child could be made. */
struct guarded_child *guarded_child_begin(guarded_child_fn *run, const void *ctx,
                                          unsigned cpu_seconds);
/* In the child: one more stage is done. */
void guarded_child_tell(int tell);
/* Waits until the child has come through so many stages, or is gone. */
enum guarded_child_end guarded_child_wait(struct guarded_child *c, unsigned stage);
/* The end of what it printed, as a string; answers its length. */
size_t guarded_child_words(const struct guarded_child *c, char *out, size_t bytes);
/* Ends the child, if it still runs, and waits for it; takes NULL. */
void guarded_child_end(struct guarded_child *c);

#endif
