/* Opening a device: a transport by name or the first that is there, then the self test. */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ork_error.h"

#define DEFAULT_TIMEOUT_MS 3000

double ork_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* A node that may not be opened can belong to any driver (a display's card, most often), so it
 * does not end the search; it is what gets reported when nothing else is found. */
static int open_any(struct ork_transport **out, struct ork_error *error)
{
    struct ork_error vendor = {0, ""};
    int rc = ork_vendor_open(out, &vendor), mainline;

    if (rc >= 0)
        return rc;
    mainline = ork_mainline_open(out, error);
    if (mainline != -ENODEV)
        return mainline;
    if (rc != -ENODEV)
        return ork_fail(error, rc, "%s", vendor.text);
    return ork_fail(error, rc,
                    "No RK3588 NPU is here: no \"rknpu\" under /dev/dri and no \"rocket\" under "
                    "/dev/accel; the transport \"sim\" needs none.");
}

static int open_transport(const struct ork_open_options *o, struct ork_transport **out,
                          struct ork_error *error)
{
    if (o->sim_options && (!o->transport || strcmp(o->transport, "sim") != 0))
        return ork_fail(error, -EINVAL, "sim_options go with the transport \"sim\" only.");
    if (!o->transport)
        return open_any(out, error);
    if (!strcmp(o->transport, "vendor"))
        return ork_vendor_open(out, error);
    if (!strcmp(o->transport, "mainline"))
        return ork_mainline_open(out, error);
    if (!strcmp(o->transport, "sim"))
        return ork_sim_open(o->sim_options, out, error);
    return ork_fail(error, -EINVAL, "There is no transport \"%s\"; vendor, mainline, sim are.",
                    o->transport);
}

static void fill_caps(struct ork_device *d)
{
    struct ork_caps *c = &d->caps;

    snprintf(c->transport, sizeof(c->transport), "%s", d->info.name);
    snprintf(c->device, sizeof(c->device), "%s", d->info.device);
    c->hw_version = d->info.hw_version;
    c->drv_version = d->info.drv_version;
    c->n_cores = d->n_cores;
    c->n_domains = d->info.n_domains;
    c->iova_bytes = d->info.iova_bytes;
    c->simulated = d->info.simulated;
    c->m_multiple = 4;
    c->selftest_i8 = c->selftest_m1 = c->selftest_i4 = c->selftest_f16 = c->selftest_chain = -1;
}

static int init(struct ork_device *d, const struct ork_open_options *o, struct ork_error *error)
{
    int rc = open_transport(o, &d->transport, error);

    if (rc < 0)
        return rc;
    d->options = *o;
    d->options.transport = d->options.sim_options = NULL;
    if (!d->options.timeout_ms)
        d->options.timeout_ms = DEFAULT_TIMEOUT_MS;
    d->transport->ops->info(d->transport, &d->info);
    d->n_cores = d->info.n_cores;
    if (o->n_cores && o->n_cores < d->n_cores)
        d->n_cores = o->n_cores;
    d->kernels = ork_kernels_best();
    fill_caps(d);
    rc = ork_pool_init(&d->pool, d->transport);
    if (rc < 0)
        return ork_fail(error, rc, "No memory to open the device.");
    if (o->skip_selftest)
        return 0;
    rc = ork_device_selftest(d, error);
    memset(&d->stats, 0, sizeof(d->stats));
    return rc;
}

int ork_device_open(const struct ork_open_options *options, struct ork_device **out,
                    struct ork_error *error)
{
    const struct ork_open_options defaults = {.size = sizeof(defaults)};
    struct ork_device *d;
    int rc;

    if (options && options->size != sizeof(*options))
        return ork_fail(error, -EINVAL, "ork_open_options.size is %zu, not %zu.", options->size,
                        sizeof(*options));
    d = calloc(1, sizeof(*d));
    if (!d || pthread_mutex_init(&d->lock, NULL)) {
        free(d);
        return ork_fail(error, -ENOMEM, "No memory to open the device.");
    }
    rc = init(d, options ? options : &defaults, error);
    if (rc < 0) {
        ork_device_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void ork_device_close(struct ork_device *device)
{
    if (!device)
        return;
    ork_pool_fini(&device->pool);
    if (device->transport)
        device->transport->ops->close(device->transport);
    pthread_mutex_destroy(&device->lock);
    free(device->failure);
    free(device);
}

/* Reading under the lock does not change what a const device means to its user. */
static pthread_mutex_t *lock_of(const struct ork_device *device)
{
    return (pthread_mutex_t *)(uintptr_t)&device->lock;
}

void ork_device_caps(const struct ork_device *device, struct ork_caps *out)
{
    pthread_mutex_lock(lock_of(device));
    *out = device->caps;
    pthread_mutex_unlock(lock_of(device));
}

void ork_device_stats(const struct ork_device *device, struct ork_stats *out)
{
    pthread_mutex_t *pool_lock = (pthread_mutex_t *)(uintptr_t)&device->pool.lock;

    pthread_mutex_lock(lock_of(device));
    *out = device->stats;
    pthread_mutex_unlock(lock_of(device));
    pthread_mutex_lock(pool_lock);
    out->bo_bytes = device->pool.held_bytes;
    out->bo_bytes_peak = device->pool.peak_bytes;
    pthread_mutex_unlock(pool_lock);
}

int ork_device_health(const struct ork_device *device)
{
    bool dead;

    pthread_mutex_lock(lock_of(device));
    dead = device->dead;
    pthread_mutex_unlock(lock_of(device));
    return dead ? -EIO : 0;
}

void ork_device_set_runner(struct ork_device *device, ork_runner *runner, void *context)
{
    device->runner = runner;
    device->runner_context = context;
}

char *ork_device_last_failure(const struct ork_device *device)
{
    char *copy;

    pthread_mutex_lock(lock_of(device));
    copy = device->failure ? strdup(device->failure) : NULL;
    pthread_mutex_unlock(lock_of(device));
    return copy;
}
