/*
 * The fault thread: sleeps in poll on userfaultfd, and for each touch of an absent page finds the
 * extent and puts it at the front of the queue. It places nothing itself but blocks of mappings;
 * the reader that places the pages wakes the toucher by the placing call. A fault is also news: the
 * graph has got to this extent, so what its hints announced well before it has been passed.
 *
 * An event may be stale when it is looked at (placed in the meantime: nothing to do but a wake), so
 * a fault on a resident extent is believed only when mincore says that the page is not there: then
 * the page was lost, and the extent is loaded again and counted.
 */
#include "pager/pager_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "pager/uffd_abi.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static void extent_demand(struct pager *p, uint32_t e)
{
    struct extent *x = &p->extents.at[e];
    if (!(x->flags & EXTENT_FAULTED)) {
        x->flags |= EXTENT_FAULTED;
        x->fault_us = (uint32_t)clock_now_us();
    }
    if (!x->order && x->state != EXTENT_READING) /* unannounced: not counted yet */
        p->policy.ops->touch(&p->policy, e);
    extent_asked(p, e);
    if (x->order > p->config.n_touchers)
        order_pass(p, x->order - p->config.n_touchers);
    if (x->state == EXTENT_ABSENT)
        queue_push(p, e, QUEUE_DEMAND);
    else if (x->state == EXTENT_QUEUED)
        queue_promote(p, e, QUEUE_DEMAND);
}

static void extent_lost(struct pager *p, uint32_t e)
{
    p->count.lost_pages++;
    p->extents.at[e].flags |= EXTENT_FAULTED;
    p->extents.at[e].fault_us = (uint32_t)clock_now_us();
    room_empty(p, e, false);
}

static void fault_store(struct pager *p, char *addr)
{
    pthread_mutex_lock(p->lock);
    uint32_t e = store_find(p, addr);
    p->count.faults++;
    if (p->extents.at[e].state != EXTENT_RESIDENT)
        extent_demand(p, e);
    else if (store_page_present(p, addr))
        uffd_wake(p->uffd, addr - (uintptr_t)addr % p->sys_page, p->sys_page);
    else
        extent_lost(p, e);
    readers_wake(p);
    pthread_mutex_unlock(p->lock);
}

/* A touch where nothing of ours is: our own mistake, or the caller's. The toucher must go on. */
static void fault_stray(struct pager *p, char *addr)
{
    struct bmoe_error err;
    error_set(&err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST,
              "a touch at %p, which belongs to no extent of the store", (void *)addr);
    pthread_mutex_lock(p->lock);
    failure_keep(p, &err);
    pthread_mutex_unlock(p->lock);
    uffd_zero(p->uffd, addr - (uintptr_t)addr % p->sys_page, p->sys_page);
}

static void fault_answer(struct pager *p, char *addr)
{
    pthread_mutex_lock(p->lock);
    bool ours =
        addr >= p->base && addr < p->base + p->paged_bytes && store_find(p, addr) != EXTENT_NONE;
    pthread_mutex_unlock(p->lock);
    if (ours)
        fault_store(p, addr);
    else if (!mapping_answer(p, addr))
        fault_stray(p, addr);
}

static void *fault_main(void *arg)
{
    struct pager *p = arg;
    struct pollfd fds[2] = {{.fd = p->uffd, .events = POLLIN},
                            {.fd = p->stop_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        struct uffd_msg msgs[16];
        ssize_t got = read(p->uffd, msgs, sizeof msgs);
        for (ssize_t i = 0; i < got / (ssize_t)sizeof msgs[0]; i++)
            if (msgs[i].event == UFFD_EVENT_PAGEFAULT)
                fault_answer(p, (char *)(uintptr_t)msgs[i].arg.pagefault.address);
    }
    return NULL;
}

int fault_start(struct pager *p, struct bmoe_error *err)
{
    if (p->fault_running || p->uffd < 0)
        return 0;
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    int rc = p->stop_fd < 0 ? errno : thread_start(&p->fault_thread, "bmoe-fault", fault_main, p);
    if (rc)
        return error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, rc,
                               "cannot start the fault thread");
    p->fault_running = true;
    return 0;
}

void fault_stop(struct pager *p)
{
    if (p->fault_running) {
        uint64_t one = 1;
        if (write(p->stop_fd, &one, sizeof one) == sizeof one)
            pthread_join(p->fault_thread, NULL);
        p->fault_running = false;
    }
    if (p->stop_fd >= 0)
        close(p->stop_fd);
    p->stop_fd = -1;
}
