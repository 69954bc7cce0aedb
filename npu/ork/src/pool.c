/* See pool.h. Creation runs outside the lock: the transport has its own. */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ork_pooled {
    struct ork_bo bo;
    struct ork_pooled *next;
};

#define GUARD_BYTES 4096

int ork_pool_init(struct ork_pool *pool, struct ork_transport *transport)
{
    memset(pool, 0, sizeof(*pool));
    pool->transport = transport;
    return -pthread_mutex_init(&pool->lock, NULL);
}

/* Unlinks every kept buffer of a domain (all domains: -1) and returns them as one list. */
static struct ork_pooled *take_kept(struct ork_pool *pool, int64_t domain)
{
    struct ork_pooled *taken = NULL;

    pthread_mutex_lock(&pool->lock);
    for (int kind = 0; kind < ORK_N_KINDS; kind++) {
        struct ork_pooled **link = &pool->free[kind];

        while (*link) {
            struct ork_pooled *entry = *link;

            if (domain >= 0 && entry->bo.domain != (uint32_t)domain) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            entry->next = taken;
            taken = entry;
            pool->kept_bytes -= entry->bo.bytes;
            pool->held_bytes -= entry->bo.bytes;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

static bool drop_kept(struct ork_pool *pool, int64_t domain)
{
    struct ork_pooled *list = take_kept(pool, domain);
    const bool any = list;

    while (list) {
        struct ork_pooled *next = list->next;

        pool->transport->ops->bo_destroy(pool->transport, &list->bo);
        free(list);
        list = next;
    }
    return any;
}

void ork_pool_fini(struct ork_pool *pool)
{
    if (!pool->transport)
        return;
    drop_kept(pool, -1);
    for (size_t i = 0; i < ORK_POOL_DOMAINS; i++)
        pool->transport->ops->bo_destroy(pool->transport, &pool->guards[i]);
    pthread_mutex_destroy(&pool->lock);
    memset(pool, 0, sizeof(*pool));
}

/* A program cannot tell address 0 from "none", and mainline hands out 0 first: whatever lies there
 * is kept as the domain's guard. true: bo was taken. */
static bool keep_as_guard(struct ork_pool *pool, const struct ork_bo *bo)
{
    bool kept = false;

    if (bo->iova || bo->domain >= ORK_POOL_DOMAINS)
        return false;
    pthread_mutex_lock(&pool->lock);
    if (!pool->guards[bo->domain].map) {
        pool->guards[bo->domain] = *bo;
        kept = true;
    }
    pthread_mutex_unlock(&pool->lock);
    return kept;
}

/* So that the guard is one page and not the first real buffer: asks for a page once per domain. */
static void guard(struct ork_pool *pool, uint32_t domain)
{
    struct ork_bo bo = {0};
    bool first;

    pthread_mutex_lock(&pool->lock);
    first = domain < ORK_POOL_DOMAINS && !(pool->guarded >> domain & 1);
    if (first)
        pool->guarded |= (uint16_t)(1u << domain);
    pthread_mutex_unlock(&pool->lock);
    if (!first || pool->transport->ops->bo_create(pool->transport, GUARD_BYTES, ORK_BO_CACHED,
                                                  domain, &bo) < 0)
        return;
    if (!keep_as_guard(pool, &bo))
        pool->transport->ops->bo_destroy(pool->transport, &bo);
}

static int create_once(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind,
                       uint32_t domain, struct ork_bo *out)
{
    const uint32_t flags = kind == ORK_KIND_COMMANDS ? ORK_BO_WRITE_COMBINE : ORK_BO_CACHED;
    const struct ork_transport_ops *ops = pool->transport->ops;
    struct ork_bo bo = {0};
    int rc = ops->bo_create(pool->transport, bytes, flags, domain, &bo);

    if (rc >= 0 && keep_as_guard(pool, &bo))
        rc = ops->bo_create(pool->transport, bytes, flags, domain, &bo);
    if (rc < 0)
        return rc;
    if (bo.iova == 0 || bo.iova + bo.bytes > UINT64_C(1) << 32)
        rc = -ENOMEM;
    /* The kernel's zeroing may still sit in caches; let nothing of it fall on a result later. */
    if (rc >= 0)
        rc = ops->bo_sync(pool->transport, &bo, 0, bo.bytes,
                          ORK_SYNC_TO_DEVICE | ORK_SYNC_FROM_DEVICE);
    if (rc < 0)
        ops->bo_destroy(pool->transport, &bo);
    else
        *out = bo;
    return rc;
}

int ork_pool_create(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind, uint32_t domain,
                    struct ork_bo *out)
{
    int rc;

    if (bytes > UINT64_C(1) << 32)
        return -ENOMEM;
    guard(pool, domain);
    rc = create_once(pool, bytes, kind, domain, out);
    if (rc == -ENOMEM && drop_kept(pool, domain))
        rc = create_once(pool, bytes, kind, domain, out);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&pool->lock);
    pool->held_bytes += out->bytes;
    if (pool->held_bytes > pool->peak_bytes)
        pool->peak_bytes = pool->held_bytes;
    pthread_mutex_unlock(&pool->lock);
    return 0;
}

void ork_pool_destroy(struct ork_pool *pool, struct ork_bo *bo)
{
    if (!bo->map)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->held_bytes -= bo->bytes;
    pthread_mutex_unlock(&pool->lock);
    pool->transport->ops->bo_destroy(pool->transport, bo);
    memset(bo, 0, sizeof(*bo));
}

/* The smallest kept buffer that holds bytes without wasting more than its half, unlinked. */
static struct ork_pooled *take_fit(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind,
                                   uint32_t domain)
{
    struct ork_pooled **best = NULL, *entry = NULL;

    pthread_mutex_lock(&pool->lock);
    for (struct ork_pooled **link = &pool->free[kind]; *link; link = &(*link)->next) {
        const struct ork_bo *bo = &(*link)->bo;

        if (bo->domain == domain && bo->bytes >= bytes && bo->bytes <= 2 * bytes + 65536 &&
            (!best || bo->bytes < (*best)->bo.bytes))
            best = link;
    }
    if (best) {
        entry = *best;
        *best = entry->next;
        pool->kept_bytes -= entry->bo.bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

int ork_pool_get(struct ork_pool *pool, uint64_t bytes, enum ork_bo_kind kind, uint32_t domain,
                 struct ork_bo *out)
{
    struct ork_pooled *entry;

    memset(out, 0, sizeof(*out));
    if (!bytes)
        return 0;
    entry = take_fit(pool, bytes, kind, domain);
    if (!entry)
        return ork_pool_create(pool, bytes, kind, domain, out);
    *out = entry->bo;
    free(entry);
    return 0;
}

void ork_pool_put(struct ork_pool *pool, struct ork_bo *bo, enum ork_bo_kind kind)
{
    struct ork_pooled *entry;

    if (!bo->map)
        return;
    entry = malloc(sizeof(*entry));
    pthread_mutex_lock(&pool->lock);
    if (entry && pool->kept_bytes + bo->bytes <= ORK_POOL_KEEP) {
        *entry = (struct ork_pooled){*bo, pool->free[kind]};
        pool->free[kind] = entry;
        pool->kept_bytes += bo->bytes;
        entry = NULL;
        memset(bo, 0, sizeof(*bo));
    }
    pthread_mutex_unlock(&pool->lock);
    free(entry);
    ork_pool_destroy(pool, bo);
}
