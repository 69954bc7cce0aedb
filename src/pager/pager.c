/*
 * The pager's life: create, files and matrices, start, destroy, and what may be asked of it. The
 * work is elsewhere: pager_store (addresses), pager_state and pager_table (extents), pager_queue
 * (hints), pager_room (budget), pager_reader, pager_place, pager_fault, pager_pin.
 */
#include "pager/pager_internal.h"

#include "base/checked.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int config_check(const struct pager_config *c, size_t sys_page, struct bmoe_error *err)
{
    if (c->n_readers < 1 || c->n_readers > PAGER_MAX_READERS)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "reader threads: 1 to %d, not %u",
                         PAGER_MAX_READERS, c->n_readers);
    if (c->n_touchers < 1 || c->n_touchers > 4096)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION,
                         "touching threads: 1 to 4096, not %u", c->n_touchers);
    size_t page = c->page_bytes ? c->page_bytes : sys_page;
    if (page % sys_page || (page & (page - 1)) || page > 2u << 20)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION,
                         "a page of %zu bytes does not go with the system's of %zu", page,
                         sys_page);
    if (c->reserve_bytes > UINT64_MAX / 4 || c->budget_bytes > UINT64_MAX / 4)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "store or budget is too large");
    return 0;
}

/* Settles how pages are placed. What was asked for by name and is not there is an error. */
static void place_measure(struct pager *p)
{
    struct page_costs cost;
    uffd_trial(p->uffd, p->sys_page, p->place == BMOE_PLACE_MOVE, &cost);
    if (p->place == BMOE_PLACE_MOVE && cost.move_us > cost.copy_us * 1.25)
        p->place = BMOE_PLACE_COPY;
    p->page_us = p->place == BMOE_PLACE_MOVE ? cost.move_us : cost.copy_us;
    log_line(&p->config.log, BMOE_LOG_DEBUG,
             "placing a page takes %.2f us by move and %.2f us by copy here", cost.move_us,
             cost.copy_us);
}

static int place_open(struct pager *p, struct bmoe_error *err)
{
    int errnum = 0;
    enum bmoe_place want = p->config.place;
    if (want == BMOE_PLACE_NONE) {
        p->place = want;
        return 0;
    }
    p->uffd = uffd_open(want, &p->place, &errnum);
    if (p->uffd >= 0 && want == BMOE_PLACE_AUTO)
        place_measure(p);
    if (p->uffd >= 0)
        return 0;
    if (want != BMOE_PLACE_AUTO)
        return error_set_errno(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, errnum,
                               "this kernel does not offer placing by %s",
                               want == BMOE_PLACE_MOVE ? "move" : "copy");
    log_line(&p->config.log, BMOE_LOG_WARN,
             "userfaultfd is not available (%s): the graph waits for its reads", strerror(errnum));
    return 0;
}

static struct pager *pager_alloc(const struct pager_config *config)
{
    struct pager *p = calloc(1, sizeof *p);
    pthread_mutex_t *lock = malloc(sizeof *lock);
    if (!p || !lock) {
        free(p);
        free(lock);
        return NULL;
    }
    pthread_mutex_init(lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->parked, NULL);
    pthread_cond_init(&p->done, NULL);
    p->lock = lock;
    p->config = *config;
    if (config->io)
        p->io = *config->io;
    p->config.io = &p->io;
    p->uffd = p->stop_fd = -1;
    p->sys_page = (size_t)sysconf(_SC_PAGESIZE);
    p->page = config->page_bytes ? config->page_bytes : p->sys_page;
    p->budget_bytes = config->budget_bytes;
    for (int q = 0; q < N_QUEUES; q++)
        list_init(&p->queue[q]);
    for (unsigned i = 0; i < PAGER_MAX_READERS; i++) {
        p->readers[i].pager = p;
        p->readers[i].index = i;
    }
    policy_init(&p->policy, &policy_popular, &p->extents, 0);
    return p;
}

int pager_create(struct pager **out, const struct pager_config *config, struct bmoe_error *err)
{
    int rc = config_check(config, (size_t)sysconf(_SC_PAGESIZE), err);
    if (rc)
        return rc;
    struct pager *p = pager_alloc(config);
    if (!p || !order_ring_reserve(&p->order, 1)) {
        pager_destroy(p);
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
    }
    rc = store_create(p, err);
    if (rc == 0)
        rc = place_open(p, err);
    if (rc) {
        pager_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

void pager_destroy(struct pager *p)
{
    if (!p)
        return;
    readers_stop(p);
    fault_stop(p);
    if (p->uffd >= 0)
        close(p->uffd);
    pools_destroy(p);
    store_destroy(p);
    if (p->fault_bounce)
        munmap(p->fault_bounce, mapping_bounce_bytes(p));
    for (uint32_t i = 0; i < p->n_matrices; i++)
        free(p->matrices[i]);
    for (uint32_t i = 0; i < p->n_pinned; i++)
        free(p->pinned[i]);
    for (uint32_t i = 0; i < p->n_files; i++)
        file_close(p->files[i]);
    free(p->matrices);
    free(p->pinned);
    free(p->files);
    free(p->mappings);
    policy_fini(&p->policy);
    free(p->extents.at);
    free(p->order.at);
    free(p->trace);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->parked);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(p->lock);
    free(p->lock);
    free(p);
}

int pager_start(struct pager *p, void (*progress)(void *user, float part), void *user,
                struct bmoe_error *err)
{
    pthread_mutex_lock(p->lock);
    int rc = 0;
    uint64_t floor = sizes_floor(p, p->place, 0);
    if (p->started)
        rc = error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "the pager is already started");
    else if (p->budget_bytes < floor)
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                       "a budget of %llu bytes is below the floor of %llu",
                       (unsigned long long)p->budget_bytes, (unsigned long long)floor);
    if (rc == 0)
        rc = store_register(p, err);
    if (rc == 0)
        rc = fault_start(p, err);
    if (rc == 0) {
        sizes_update(p);
        p->policy.keep = room_in_hand(p);
        p->started = true;
        frames_huge(p);
        memory_huge(p->base + p->pinned_begin, p->map + p->map_bytes);
    }
    pthread_mutex_unlock(p->lock);
    if (rc == 0)
        rc = readers_start(p, err);
    if (rc)
        return rc;
    pthread_mutex_lock(p->lock);
    rc = pinned_wait(p, progress, user, err);
    if (rc == 0)
        room_shrink(p); /* until the readers have given the chunks' buffers back */
    pthread_mutex_unlock(p->lock);
    return rc;
}

enum bmoe_place pager_place(const struct pager *p)
{
    return p->place;
}

void pager_graph_begins(struct pager *p)
{
    pthread_mutex_lock(p->lock);
    p->policy.ops->age(&p->policy);
    pthread_mutex_unlock(p->lock);
}

double pager_page_us(const struct pager *p)
{
    return p->page_us;
}

int pager_place_frames(struct pager *p)
{
    pthread_mutex_lock(p->lock);
    bool early = p->n_matrices == 0 && !p->started;
    if (early)
        p->place = BMOE_PLACE_NONE;
    pthread_mutex_unlock(p->lock);
    return early ? BMOE_OK : BMOE_E_MISUSE;
}

bool pager_file_direct(const struct pager *p, int file)
{
    pthread_mutex_lock(p->lock);
    bool direct = file >= 0 && (uint32_t)file < p->n_files && atomic_load(&p->files[file]->direct);
    pthread_mutex_unlock(p->lock);
    return direct;
}

uint64_t pager_floor_bytes(const struct pager *p, enum bmoe_place place, uint64_t set_bytes)
{
    pthread_mutex_lock(p->lock);
    uint64_t floor = sizes_floor(p, place == BMOE_PLACE_AUTO ? p->place : place, set_bytes);
    pthread_mutex_unlock(p->lock);
    return floor;
}

uint64_t pager_ample_bytes(const struct pager *p)
{
    pthread_mutex_lock(p->lock);
    uint64_t bytes = sizes_ample(p);
    pthread_mutex_unlock(p->lock);
    return bytes;
}

bool pager_extent_resident(const struct pager *p, uint32_t extent)
{
    pthread_mutex_lock(p->lock);
    bool there = extent < p->extents.n && p->extents.at[extent].state == EXTENT_RESIDENT;
    pthread_mutex_unlock(p->lock);
    return there;
}

void pager_counters_read(const struct pager *p, struct pager_counters *out)
{
    pthread_mutex_lock(p->lock);
    *out = p->count;
    out->staging_bytes = p->staging_bytes;
    out->resident_bytes = p->used_bytes - p->covered_bytes;
    pthread_mutex_unlock(p->lock);
}
