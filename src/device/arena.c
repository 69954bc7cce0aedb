/*
 * The loaders' order: what the graph waits for, then dense weights, then experts that are expected;
 * earlier layers first. At most n_slots layers are open, so a look over them is short.
 */
#include "device/arena_internal.h"

#include "base/clock.h"
#include "base/error.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct layer *layer_at(const struct arena *a, uint32_t layer)
{
    return &a->config.layers->layers[layer];
}

/* The first expert of `set` that nobody has taken, or LAYERS_NONE. */
static uint32_t first_untaken(const struct fill *f, const uint64_t *set)
{
    for (uint32_t w = 0; w < f->n_words; w++) {
        uint64_t left = set[w] & ~f->taken[w];
        if (left)
            return w * 64 + (uint32_t)__builtin_ctzll(left);
    }
    return LAYERS_NONE;
}

static bool pick_expert(struct arena *a, uint32_t layer, bool urgent, struct arena_job *job)
{
    const struct layer *l = layer_at(a, layer);
    for (uint32_t s = l->first_site; s < l->first_site + l->n_sites; s++) {
        struct fill *f = &a->fills[s];
        uint32_t expert = first_untaken(f, urgent ? f->urgent : f->want);
        if (expert == LAYERS_NONE)
            continue;
        bit_set(f->taken, expert);
        *job = (struct arena_job){.layer = layer, .site = s, .index = expert};
        return true;
    }
    return false;
}

static bool pick_dense(struct arena *a, uint32_t layer, struct arena_job *job)
{
    struct open_layer *o = &a->open[layer];
    if (o->dense_next == layer_at(a, layer)->n_dense)
        return false;
    *job = (struct arena_job){.layer = layer,
                              .site = LAYERS_NONE,
                              .index = layer_at(a, layer)->first_dense + o->dense_next++};
    return true;
}

/* Locked. */
static bool pick(struct arena *a, struct arena_job *job)
{
    uint32_t from =
        a->next_open > a->config.layers->n_slots ? a->next_open - a->config.layers->n_slots : 0;
    for (int what = 0; what < 3; what++) {
        for (uint32_t k = from; k < a->next_open; k++) {
            if (!a->open[k].open)
                continue;
            if (what == 1 ? pick_dense(a, k, job) : pick_expert(a, k, what == 0, job))
                return true;
        }
    }
    return false;
}

/* Locked. */
static void finish(struct arena *a, struct loader *r, const struct arena_job *job, int rc,
                   const struct bmoe_error *err)
{
    struct open_layer *o = &a->open[job->layer];
    o->n_busy--;
    if (rc < 0 && !atomic_load_explicit(&a->failed, memory_order_relaxed)) {
        a->error = *err;
        atomic_store_explicit(&a->failed, true, memory_order_relaxed);
    }
    if (rc == BMOE_OK && job->site == LAYERS_NONE)
        o->dense_done++;
    if (rc == BMOE_OK && job->site != LAYERS_NONE)
        bit_set(a->fills[job->site].ready, job->index);
    a->count.read_bytes += r->read_bytes;
    a->count.host_bytes += r->host_bytes;
    a->count.carried_bytes += r->carried_bytes;
    r->read_bytes = r->host_bytes = r->carried_bytes = 0;
    pthread_cond_broadcast(&a->done);
}

static void *loader_main(void *arg)
{
    struct loader *r = arg;
    struct arena *a = r->arena;
    struct arena_job job;
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        if (atomic_load_explicit(&a->failed, memory_order_relaxed) || !pick(a, &job)) {
            pthread_cond_wait(&a->work, &a->lock);
            continue;
        }
        struct open_layer *o = &a->open[job.layer];
        bool late = a->config.hooks.delay_us && !o->delayed;
        struct bmoe_error err = {0};
        o->delayed = true;
        o->n_busy++;
        pthread_mutex_unlock(&a->lock);
        if (late)
            usleep(a->config.hooks.delay_us);
        int rc = arena_load(r, &job, &err);
        pthread_mutex_lock(&a->lock);
        finish(a, r, &job, rc, &err);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static bool start_loader(struct arena *a, unsigned i)
{
    struct loader *r = &a->loaders[i];
    sigset_t all, before;
    r->arena = a;
    r->buffer = a->buffers.base + i * a->buffers.step;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
    bool ok = pthread_create(&r->thread, NULL, loader_main, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    a->n_loaders += ok;
    return ok;
}

static bool start_loaders(struct arena *a)
{
    unsigned n = a->config.n_loaders < ARENA_MAX_LOADERS ? a->config.n_loaders : ARENA_MAX_LOADERS;
    if (!pager_buffers_init(&a->buffers, n, arena_load_buffer_bytes(a->config.layers)))
        return false;
    a->count.buffer_bytes = a->buffers.bytes;
    for (unsigned i = 0; i < n && start_loader(a, i); i++)
        ;
    return a->n_loaders > 0; /* fewer are slower, not wrong */
}

static bool alloc_fills(struct arena *a)
{
    const struct layers *l = a->config.layers;
    size_t words = 0;
    for (uint32_t s = 0; s < l->n_sites; s++)
        words += 5 * (size_t)((l->sites[s].n_expert + 63) / 64);
    a->fills = calloc(l->n_sites + 1, sizeof *a->fills);
    a->open = calloc(l->n_layers + 1, sizeof *a->open);
    a->words = calloc(words + 1, sizeof *a->words);
    if (!a->fills || !a->open || !a->words)
        return false;
    uint64_t *at = a->words;
    for (uint32_t s = 0; s < l->n_sites; s++) {
        uint32_t n = (l->sites[s].n_expert + 63) / 64;
        a->fills[s] = (struct fill){.want = at,
                                    .urgent = at + n,
                                    .taken = at + 2 * n,
                                    .ready = at + 3 * n,
                                    .before = at + 4 * n,
                                    .n_words = n};
        at += 5 * n;
    }
    return true;
}

int arena_create(struct arena **out, const struct arena_config *config, struct bmoe_error *err)
{
    struct arena *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the arena");
    a->config = *config;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    pthread_cond_init(&a->done, NULL);
    if (!alloc_fills(a) || !start_loaders(a)) {
        arena_destroy(a);
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the loaders");
    }
    *out = a;
    return BMOE_OK;
}

void arena_destroy(struct arena *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    for (unsigned i = 0; i < a->n_loaders; i++)
        pthread_join(a->loaders[i].thread, NULL);
    pager_buffers_fini(&a->buffers);
    pthread_cond_destroy(&a->work);
    pthread_cond_destroy(&a->done);
    pthread_mutex_destroy(&a->lock);
    free(a->fills);
    free(a->open);
    free(a->words);
    free(a);
}

static void set_all(uint64_t *set, uint32_t n)
{
    memset(set, 0xff, n / 64 * sizeof *set);
    if (n % 64)
        set[n / 64] = ((uint64_t)1 << (n % 64)) - 1;
}

/* Locked. What is expected of a layer: all of it, or what the graph before routed to. */
static void expect(struct arena *a, uint32_t layer)
{
    const struct layer *l = layer_at(a, layer);
    for (uint32_t s = l->first_site; s < l->first_site + l->n_sites; s++) {
        struct fill *f = &a->fills[s];
        memset(f->want, 0, 4 * (size_t)f->n_words * sizeof *f->want); /* all but `before` */
        f->told = false;
        if (!a->config.routed)
            set_all(f->want, a->config.layers->sites[s].n_expert);
        else if (f->any_before)
            memcpy(f->want, f->before, f->n_words * sizeof *f->want);
    }
}

/* Locked. The slot of the layer n_slots before must be free. */
static void open_next(struct arena *a)
{
    if (a->next_open == a->config.layers->n_layers)
        return;
    uint32_t k = a->next_open++;
    struct open_layer *o = &a->open[k];
    o->open = true;
    o->delayed = false;
    o->dense_next = o->dense_done = o->resident_there ? layer_at(a, k)->n_dense : 0;
    expect(a, k);
    pthread_cond_broadcast(&a->work);
}

/* Locked. */
static void close_layer(struct arena *a, uint32_t layer)
{
    struct open_layer *o = &a->open[layer];
    const struct layers *l = a->config.layers;
    if (!o->open)
        return;
    o->open = false;
    while (o->n_busy)
        pthread_cond_wait(&a->done, &a->lock);
    uint32_t first = l->layers[layer].first_dense, n = l->layers[layer].n_dense;
    bool stays = n > 0 && o->dense_done == n;
    for (uint32_t i = first; stays && i < first + n; i++)
        stays = l->entries[i].resident || !l->entries[i].device;
    o->resident_there = stays;
}

void arena_begin(struct arena *a)
{
    pthread_mutex_lock(&a->lock);
    a->next_open = 0;
    for (unsigned i = 0; i < a->config.layers->n_slots; i++)
        open_next(a);
    pthread_mutex_unlock(&a->lock);
}

int arena_end(struct arena *a, struct bmoe_error *err)
{
    pthread_mutex_lock(&a->lock);
    for (uint32_t k = 0; k < a->next_open; k++)
        close_layer(a, k);
    a->next_open = 0;
    int rc = atomic_load_explicit(&a->failed, memory_order_relaxed) ? a->error.code : BMOE_OK;
    if (rc && err)
        *err = a->error;
    atomic_store_explicit(&a->failed, false, memory_order_relaxed);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

bool arena_failed(const struct arena *a)
{
    return atomic_load_explicit(&a->failed, memory_order_relaxed);
}

bool arena_is_open(const struct arena *a, uint32_t layer)
{
    return layer < a->next_open && a->open[layer].open; /* both are written by this thread only */
}

bool arena_dense(struct arena *a, uint32_t layer)
{
    int64_t start = clock_now_us();
    pthread_mutex_lock(&a->lock);
    const struct open_layer *o = &a->open[layer];
    while (!a->config.hooks.skip_dense_wait && !arena_failed(a) &&
           o->dense_done < layer_at(a, layer)->n_dense)
        pthread_cond_wait(&a->done, &a->lock);
    a->count.stall_us += (uint64_t)(clock_now_us() - start);
    pthread_mutex_unlock(&a->lock);
    return !arena_failed(a);
}

static uint32_t count_bits(const uint64_t *set, uint32_t n_words)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < n_words; w++)
        n += (uint32_t)__builtin_popcountll(set[w]);
    return n;
}

static bool all_ready(const struct fill *f, const uint64_t *set)
{
    for (uint32_t w = 0; w < f->n_words; w++)
        if (set[w] & ~f->ready[w])
            return false;
    return true;
}

/* Locked. Now it is known what the site wants: the rest of what was expected is not read, and the
 * next layer is read whole when this one is nearly so. */
static void settle(struct arena *a, uint32_t site, const uint64_t *set, uint32_t layer)
{
    const struct layers *l = a->config.layers;
    struct fill *f = &a->fills[site];
    uint32_t n = count_bits(set, f->n_words), unused = 0, demand = 0;
    for (uint32_t w = 0; w < f->n_words; w++) {
        demand += (uint32_t)__builtin_popcountll(set[w] & ~f->taken[w]);
        unused += (uint32_t)__builtin_popcountll(f->taken[w] & ~set[w]);
        f->urgent[w] = a->config.hooks.skip_demand ? 0 : set[w];
        f->want[w] &= set[w];
        f->before[w] = set[w];
    }
    f->any_before = f->told = true;
    a->count.routed += a->config.routed ? n : 0;
    a->count.demand += a->config.routed ? demand : 0;
    a->count.unused_bytes += unused * l->sites[site].expert_bytes;
    bool whole = n > a->config.whole_part * l->sites[site].n_expert;
    uint32_t next = layer + 1;
    if (!whole || next >= a->next_open || !a->open[next].open)
        return;
    for (uint32_t s = l->layers[next].first_site;
         s < l->layers[next].first_site + l->layers[next].n_sites; s++)
        if (!a->fills[s].told)
            set_all(a->fills[s].want, l->sites[s].n_expert);
}

static uint32_t layer_of_site(const struct arena *a, uint32_t site)
{
    return a->config.layers->layer_of[a->config.layers->sites[site].entries[0]];
}

bool arena_experts(struct arena *a, uint32_t site, const uint64_t *set)
{
    struct fill *f = &a->fills[site];
    uint32_t layer = layer_of_site(a, site);
    uint64_t all[32]; /* libllama knows at most 1024 experts; 2048 fit */
    int64_t start = clock_now_us();
    if (!set || !a->config.routed) {
        memset(all, 0, sizeof all);
        set_all(all, a->config.layers->sites[site].n_expert);
        set = all;
    }
    pthread_mutex_lock(&a->lock);
    if (!f->told)
        settle(a, site, set, layer);
    else
        for (uint32_t w = 0; w < f->n_words; w++)
            f->urgent[w] |= set[w];
    pthread_cond_broadcast(&a->work);
    const uint64_t *wait = a->config.hooks.skip_demand ? f->taken : set;
    while (!a->config.hooks.skip_expert_wait && !arena_failed(a) && !all_ready(f, wait))
        pthread_cond_wait(&a->done, &a->lock);
    a->count.stall_us += (uint64_t)(clock_now_us() - start);
    pthread_mutex_unlock(&a->lock);
    return !arena_failed(a);
}

void arena_passed(struct arena *a, uint32_t layer)
{
    pthread_mutex_lock(&a->lock);
    uint32_t n_slots = a->config.layers->n_slots;
    for (uint32_t k = 0; k <= layer && k < a->next_open; k++)
        close_layer(a, k);
    while (a->next_open < a->config.layers->n_layers && a->next_open <= layer + n_slots)
        open_next(a);
    pthread_mutex_unlock(&a->lock);
}

void arena_counters(const struct arena *a, struct arena_counters *out)
{
    struct arena *unlocked = (struct arena *)(uintptr_t)a;
    pthread_mutex_lock(&unlocked->lock);
    *out = a->count;
    pthread_mutex_unlock(&unlocked->lock);
}
