/* The simulator as a transport: options, buffers in simulated address spaces, the table.
 *
 * Buffers are anonymous mappings. With noncoherent=1 a cached buffer has two of them, one for the
 * host and one for the device, and bo_sync copies between them: a driver that forgets a sync gets
 * stale bytes here as on the board. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ork.h"
#include "sim/sim_device.h"
#include "sim/sim_options.h"
#include "transport/transport.h"

struct sim_transport {
    struct ork_transport base; /* first */
    struct sim_device *device;
};

/* Hardware version register of the RK3588's NPU [ork]. */
static const uint32_t hw_version = 0x46495245;

static struct sim_device *device_of(const struct ork_transport *t)
{
    return ((const struct sim_transport *)t)->device;
}

static void sim_info(const struct ork_transport *t, struct ork_transport_info *out)
{
    const struct sim_config *config = &device_of(t)->config;
    bool vendor = config->kernel == ORK_KERNEL_VENDOR;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "sim");
    snprintf(out->device, sizeof out->device, "simulated RK3588, %s kernel",
             vendor ? "vendor" : "mainline");
    out->hw_version = hw_version;
    out->drv_version = 1;
    out->n_cores = config->n_cores;
    out->n_domains = config->n_domains;
    out->iova_bytes = (UINT64_C(1) << 32) - config->iova_base;
    out->max_programs = SIM_MAX_PROGRAMS;
    out->max_jobs = JOB_QUEUE_SLOTS;
    out->chain = config->chain;
    out->kernel = config->kernel;
    out->simulated = true;
}

static void *map_bytes(uint64_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static int sim_bo_create(struct ork_transport *t, uint64_t bytes, uint32_t flags, uint32_t domain,
                         struct ork_bo *out)
{
    struct sim_device *device = device_of(t);
    bool apart = device->config.noncoherent && !(flags & ORK_BO_WRITE_COMBINE);
    struct ork_bo bo = {.domain = domain, .flags = flags};
    int err = -ENOMEM;
    if (!bytes || domain >= device->config.n_domains)
        return -EINVAL;
    if (bytes > UINT64_C(1) << 32)
        return -ENOMEM;
    bo.bytes = (bytes + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES * SIM_PAGE_BYTES;
    bo.map = map_bytes(bo.bytes);
    bo.priv = apart ? map_bytes(bo.bytes) : bo.map;
    if (bo.map && bo.priv)
        err = sim_mem_place(&device->spaces[domain], device->config.iova_base, bo.priv, bo.bytes,
                            &bo.iova);
    if (!err) {
        *out = bo;
        return 0;
    }
    if (bo.priv && bo.priv != bo.map)
        munmap(bo.priv, bo.bytes);
    if (bo.map)
        munmap(bo.map, bo.bytes);
    return err;
}

static void sim_bo_destroy(struct ork_transport *t, struct ork_bo *bo)
{
    if (!bo->map)
        return;
    sim_mem_remove(&device_of(t)->spaces[bo->domain], bo->iova);
    if (bo->priv != bo->map)
        munmap(bo->priv, bo->bytes);
    munmap(bo->map, bo->bytes);
    memset(bo, 0, sizeof *bo);
}

static int sim_bo_sync(struct ork_transport *t, const struct ork_bo *bo, uint64_t offset,
                       uint64_t bytes, unsigned dir)
{
    char *host = bo->map, *device = bo->priv;
    if (!host || offset > bo->bytes || bytes > bo->bytes - offset || !dir ||
        dir & ~(unsigned)(ORK_SYNC_TO_DEVICE | ORK_SYNC_FROM_DEVICE))
        return -EINVAL;
    if (host != device && dir & ORK_SYNC_TO_DEVICE)
        memcpy(device + offset, host + offset, bytes);
    if (host != device && dir & ORK_SYNC_FROM_DEVICE)
        memcpy(host + offset, device + offset, bytes);
    if (dir & ORK_SYNC_FROM_DEVICE)
        sim_device_settle(device_of(t));
    return 0;
}

static int sim_submit(struct ork_transport *t, const struct ork_job *job, uint64_t *ticket)
{
    struct ork_transport_info info;
    unsigned domain;
    int err;
    sim_info(t, &info);
    err = job_check(job, &info);
    if (!err)
        err = job_domain(job, &domain);
    return err ? err : sim_device_submit(device_of(t), job, domain, ticket);
}

static int sim_wait(struct ork_transport *t, uint64_t ticket, int64_t timeout_us,
                    struct ork_job_result *out)
{
    return job_queue_wait(&device_of(t)->queue, ticket, timeout_us, out);
}

static void sim_close(struct ork_transport *t)
{
    if (!t)
        return;
    sim_device_destroy(device_of(t));
    free(t);
}

static const struct ork_transport_ops sim_ops = {
    .info = sim_info,
    .bo_create = sim_bo_create,
    .bo_destroy = sim_bo_destroy,
    .bo_sync = sim_bo_sync,
    .submit = sim_submit,
    .wait = sim_wait,
    .close = sim_close,
};

int ork_sim_open(const char *options, struct ork_transport **out, struct ork_error *error)
{
    struct sim_transport *t;
    struct sim_config config;
    int err = sim_options_parse(options, &config, error);
    if (err)
        return err;
    t = calloc(1, sizeof *t);
    err = t ? sim_device_create(&config, &t->device) : -ENOMEM;
    if (err) {
        free(t);
        if (error) {
            error->code = err;
            snprintf(error->text, sizeof error->text,
                     "The simulator could not start: %s; free some memory or use threads=0.",
                     strerror(-err));
        }
        return err;
    }
    t->base.ops = &sim_ops;
    *out = &t->base;
    return 0;
}
