/* A built batch on its way: submit the jobs, wait for all of them, account, read the outputs
 * back. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ork_error.h"

static int submit_job(struct ork_fence *f, struct ork_batch_job *job, struct ork_program_ref *refs)
{
    const struct ork_bo *writes[1] = {&f->outputs[job->core]};
    struct ork_job request = {
        .size = sizeof(request),
        .programs = refs + job->first,
        .n_programs = job->n,
        .core = job->core,
        .chained = f->chained,
        .reads = f->reads,
        .n_reads = f->n_reads,
        .writes = writes,
        .n_writes = 1,
        .timeout_ms = f->device->options.timeout_ms,
    };

    job->waited = false;
    memset(&job->result, 0, sizeof(job->result));
    return f->device->transport->ops->submit(f->device->transport, &request, &job->ticket);
}

static int start_failed(struct ork_fence *f, uint32_t job, int rc, struct ork_error *error)
{
    for (uint32_t i = job; i < f->n_jobs; i++)
        f->jobs[i].waited = true;
    ork_batch_wait(f, -1);
    if (rc == -ENODEV) {
        pthread_mutex_lock(&f->device->lock);
        f->device->dead = true;
        pthread_mutex_unlock(&f->device->lock);
    }
    if (rc == -EAGAIN)
        return ork_fail(error, rc, "Too many jobs are in flight; wait for a fence first.");
    return ork_fail(error, rc, "A job could not be submitted: %s.", strerror(-rc));
}

static void count_submits(struct ork_fence *f)
{
    struct ork_stats *s = &f->device->stats;
    uint64_t per_core = 0;

    f->work.n_jobs = f->n_jobs;
    f->work.chained = f->chained;
    f->work.n_cores = 0;
    f->work.macs_core = 0;
    for (uint32_t c = 0; c < ORK_MAX_CORES; c++) {
        const uint32_t n = f->core_first[c + 1] - f->core_first[c];

        f->work.n_cores += n > 0;
        per_core = n > per_core ? n : per_core;
        if (f->macs_core[c] > f->work.macs_core)
            f->work.macs_core = f->macs_core[c];
    }
    f->work.n_programs_core = (uint32_t)per_core;
    pthread_mutex_lock(&f->device->lock);
    s->submits += f->n_jobs;
    s->programs += f->n_programs;
    pthread_mutex_unlock(&f->device->lock);
}

int ork_batch_start(struct ork_fence *f, struct ork_error *error)
{
    struct ork_program_ref *refs = calloc(f->n_programs, sizeof(*refs));

    if (!refs)
        return ork_fail(error, -ENOMEM, "No memory for %u programs.", f->n_programs);
    for (uint32_t i = 0; i < f->n_programs; i++)
        refs[i] = f->programs[i].ref;
    f->start_us = ork_clock_us();
    for (uint32_t i = 0; i < f->n_jobs; i++) {
        int rc = submit_job(f, &f->jobs[i], refs);

        if (rc < 0) {
            free(refs);
            return start_failed(f, i, rc, error);
        }
    }
    free(refs);
    count_submits(f);
    return 0;
}

int ork_batch_wait(struct ork_fence *f, int64_t timeout_us)
{
    const double end = ork_clock_us() + (double)timeout_us;

    for (uint32_t i = 0; i < f->n_jobs; i++) {
        struct ork_batch_job *job = &f->jobs[i];
        double left = timeout_us < 0 ? -1 : end - ork_clock_us();
        int rc;

        if (job->waited)
            continue;
        if (timeout_us >= 0 && left < 0)
            left = 0;
        rc = f->device->transport->ops->wait(f->device->transport, job->ticket, (int64_t)left,
                                             &job->result);
        if (rc == -ETIMEDOUT)
            return rc;
        if (rc < 0)
            job->result.error = rc;
        job->waited = true;
    }
    return 0;
}

static bool any_failed(const struct ork_fence *f)
{
    for (uint32_t i = 0; i < f->n_jobs; i++)
        if (f->jobs[i].result.error)
            return true;
    return false;
}

static int sync_outputs(struct ork_fence *f, struct ork_error *error)
{
    int rc = 0;

    for (uint32_t c = 0; c < ORK_MAX_CORES && rc >= 0; c++)
        if (f->output_bytes[c])
            rc = f->device->transport->ops->bo_sync(f->device->transport, &f->outputs[c], 0,
                                                    f->output_bytes[c], ORK_SYNC_FROM_DEVICE);
    if (rc < 0)
        return ork_fail(error, rc, "The outputs could not be handed to the host: %s.",
                        strerror(-rc));
    return 0;
}

static const float *row_scales(const struct ork_matmul *call)
{
    if (call->a_scale || !call->input)
        return call->a_scale;
    return ork_input_part_scales(call->input, call->part);
}

/* Read-backs: of all slices of one tile, which others do not touch. */
struct reading {
    const struct ork_fence *fence;
    atomic_uint_least64_t at_bound;
};

/* The item that read-back i belongs to. */
static const struct ork_batch_item *item_of_read(const struct ork_fence *f, size_t i)
{
    size_t low = 0, high = f->n_items;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (f->items[middle].first_read <= i)
            low = middle;
        else
            high = middle;
    }
    return &f->items[low];
}

static void read_one(void *user, size_t i)
{
    struct reading *r = user;
    const struct ork_fence *f = r->fence;
    const struct ork_batch_item *item = item_of_read(f, i);
    const uint32_t t = (uint32_t)(i - item->first_read) * item->plan.slicing.n_slices;
    const uint32_t core = item->core_base + item->plan.tiles[t].core;
    const struct ork_matmul *call = &item->call;
    const struct ork_readback to = {
        .c = call->c,
        .stride = call->c_stride,
        .rows = call->c_rows,
        .b_scale = call->b_scale,
        .a_scale = row_scales(call),
        .per_slice = call->scales_per_slice,
    };
    const uint64_t at_bound =
        ork_unpack_tiles(f->device->kernels, &item->plan, t,
                         (const uint8_t *)f->outputs[core].map + item->c_base[core], &to);

    if (at_bound)
        atomic_fetch_add_explicit(&r->at_bound, at_bound, memory_order_relaxed);
}

/* Below this, waking others takes longer than reading. */
#define RUNNER_BYTES (64u << 10)

static uint64_t read_all(struct ork_fence *f)
{
    const struct ork_device *d = f->device;
    struct reading reading = {.fence = f};
    size_t n = 0;

    for (size_t i = 0; i < f->n_items; i++) {
        f->items[i].first_read = (uint32_t)n;
        n += f->items[i].plan.n_tiles / f->items[i].plan.slicing.n_slices;
    }
    if (d->runner && n > 1 && f->work.output_bytes >= RUNNER_BYTES)
        d->runner(d->runner_context, n, read_one, &reading);
    else
        for (size_t i = 0; i < n; i++)
            read_one(&reading, i);
    return atomic_load_explicit(&reading.at_bound, memory_order_relaxed);
}

static void account(struct ork_fence *f, double wall_us, uint64_t at_bound)
{
    double core_us[ORK_MAX_CORES] = {0}, device_us = 0;
    struct ork_stats *s = &f->device->stats;
    struct ork_work device_work = f->work;
    struct ork_time time;

    device_work.host_pack_bytes = device_work.host_unpack_bytes = 0;
    ork_timemodel_predict(f->device->info.kernel, &device_work, &time);
    for (uint32_t i = 0; i < f->n_jobs; i++) {
        double *us = &core_us[f->jobs[i].core];

        *us += f->jobs[i].result.device_us;
        device_us = *us > device_us ? *us : device_us;
    }
    pthread_mutex_lock(&f->device->lock);
    s->matmuls += f->n_items;
    for (size_t i = 0; i < f->n_items; i++)
        s->macs += f->items[i].plan.macs_wanted;
    s->macs_padded += f->work.macs;
    s->bytes_read += f->work.feature_bytes + f->work.weight_bytes;
    s->bytes_written += f->work.output_bytes;
    s->packed_bytes += f->work.host_pack_bytes;
    s->unpacked_bytes += f->work.host_unpack_bytes;
    s->saturated_cells += at_bound;
    s->wall_us += wall_us;
    s->device_us += device_us;
    s->predicted_us += time.total_us;
    pthread_mutex_unlock(&f->device->lock);
}

int ork_fence_wait(struct ork_fence *fence, int64_t timeout_us, struct ork_error *error)
{
    uint64_t at_bound;
    double wall_us;
    int rc = ork_batch_wait(fence, timeout_us);

    if (rc == -ETIMEDOUT)
        return ork_fail(error, rc, "The batch is not done after %lld us; wait again.",
                        (long long)timeout_us);
    wall_us = ork_clock_us() - fence->start_us;
    if (any_failed(fence)) {
        rc = ork_failure_handle(fence, error);
        goto out;
    }
    rc = fence->device->options.verify ? ork_verify_wait(fence, error) : sync_outputs(fence, error);
    if (rc < 0)
        goto out;
    at_bound = read_all(fence);
    account(fence, wall_us, at_bound);
out:
    ork_batch_destroy(fence);
    return rc;
}

int ork_batch_run(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                  unsigned flags, struct ork_error *error)
{
    struct ork_fence *fence;
    int rc = ork_batch_submit(device, batch, n, flags, &fence, error);

    return rc < 0 ? rc : ork_fence_wait(fence, -1, error);
}

int ork_matmul_submit(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                      struct ork_fence **out, struct ork_error *error)
{
    return ork_batch_submit(device, batch, n, 0, out, error);
}

int ork_matmul_run(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                   struct ork_error *error)
{
    return ork_batch_run(device, batch, n, 0, error);
}
