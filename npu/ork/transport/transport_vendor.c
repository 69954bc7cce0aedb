/* The vendor kernel driver "rknpu" as a transport.
 *
 * A job is one blocking submit ioctl on a thread of its core: the non-blocking path of that
 * kernel compares microseconds with milliseconds and may reset the chip, and its fences are often
 * compiled out [vendor kernel]. Programs are chained by their tails; the kernel is told of the
 * first and the last only, but gets a whole task array, one per core, in memory that it maps.
 * Commands live in cached memory like all else, the combination that is proven, and are cleaned
 * here before each job. After a timeout the kernel has reset the core; the next job runs. Three
 * in a row and the device counts as gone. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/job_queue.h"
#include "transport/kernel_open.h"
#include "transport/rknpu_uapi.h"

enum {
    PAGE_BYTES = 4096,
    MAX_TIMEOUTS = 3,
    INTERRUPT_DPU = 0x300, /* both shadow groups [mainline, mtx] */
    INTERRUPT_ALL = 0x1ffff,
    ENABLE_MASK = 0xd /* of the task descriptor; the kernel does not use it */
};

/* Device addresses one IOMMU domain is filled to: beyond, mappings were seen to break [fork]. */
static const uint64_t domain_bytes = UINT64_C(3000) << 20;

struct vendor {
    struct ork_transport base; /* first */
    const struct ork_os *os;   /* borrowed */
    struct drm_node node;
    uint32_t hw_version, drv_version, n_domains;
    struct ork_bo tasks[ORK_MAX_CORES];
    atomic_uint timeouts; /* in a row */
    struct job_queue queue;
    bool has_queue;
};

static struct vendor *vendor_of(struct ork_transport *t)
{
    return (struct vendor *)t;
}

static int call(const struct vendor *v, unsigned long request, void *argument)
{
    return drm_ioctl(v->os, v->node.fd, request, argument);
}

static void vendor_info(const struct ork_transport *t, struct ork_transport_info *out)
{
    const struct vendor *v = (const struct vendor *)t;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "vendor");
    snprintf(out->device, sizeof out->device, "%s", v->node.path);
    out->hw_version = v->hw_version;
    out->drv_version = v->drv_version;
    out->n_cores = ORK_MAX_CORES;
    out->n_domains = v->n_domains;
    out->iova_bytes = domain_bytes;
    out->max_programs = RKNPU_MAX_TASKS;
    out->max_jobs = JOB_QUEUE_SLOTS;
    out->chain = ORK_CHAIN_REQUIRED;
    out->kernel = ORK_KERNEL_VENDOR;
}

static void destroy_object(const struct vendor *v, uint32_t handle, uint64_t obj)
{
    struct rknpu_mem_destroy destroy = {.handle = handle, .obj_addr = obj};
    call(v, RKNPU_REQUEST_MEM_DESTROY, &destroy);
}

/* Creates and maps; kernel_flags as in rknpu_uapi.h. */
static int create_bo(struct vendor *v, uint64_t bytes, uint32_t kernel_flags, uint32_t domain,
                     struct ork_bo *out)
{
    const uint64_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct rknpu_mem_create create = {
        .flags = kernel_flags, .size = whole, .iommu_domain_id = (int32_t)domain};
    struct rknpu_mem_map map = {0};
    struct ork_bo bo = {.bytes = whole, .domain = domain};
    int err;
    if (!bytes || domain >= v->n_domains)
        return -EINVAL;
    if (bytes > UINT32_MAX)
        return -ENOMEM;
    err = call(v, RKNPU_REQUEST_MEM_CREATE, &create);
    if (err < 0)
        return err;
    bo.handle = create.handle;
    bo.obj = create.obj_addr;
    bo.iova = (uint32_t)create.dma_addr;
    map.handle = create.handle;
    if (create.size < whole || create.dma_addr + whole > UINT64_C(1) << 32)
        err = -ENOMEM;
    else
        err = call(v, RKNPU_REQUEST_MEM_MAP, &map);
    if (err >= 0)
        err = v->os->map(v->os->context, v->node.fd, map.offset, whole, &bo.map);
    if (err < 0) {
        destroy_object(v, bo.handle, bo.obj);
        return err;
    }
    memset(bo.map, 0, whole);
    *out = bo;
    return 0;
}

static int sync_object(const struct vendor *v, const struct ork_bo *bo, uint64_t offset,
                       uint64_t bytes, uint32_t flags)
{
    struct rknpu_mem_sync sync = {
        .flags = flags, .obj_addr = bo->obj, .offset = offset, .size = bytes};
    int err = call(v, RKNPU_REQUEST_MEM_SYNC, &sync);
    return err < 0 ? err : 0;
}

/* The zeroes written through the cache are cleaned at once: a dirty line that is evicted later
 * would land on top of what the device wrote. */
static int vendor_bo_create(struct ork_transport *t, uint64_t bytes, uint32_t flags,
                            uint32_t domain, struct ork_bo *out)
{
    struct vendor *v = vendor_of(t);
    struct ork_bo bo;
    int err = create_bo(v, bytes, RKNPU_MEM_DATA, domain, &bo);
    if (err)
        return err;
    bo.flags = flags;
    err = sync_object(v, &bo, 0, bo.bytes, RKNPU_SYNC_TO_DEVICE | RKNPU_SYNC_FROM_DEVICE);
    if (err)
        t->ops->bo_destroy(t, &bo);
    else
        *out = bo;
    return err;
}

static void vendor_bo_destroy(struct ork_transport *t, struct ork_bo *bo)
{
    const struct vendor *v = vendor_of(t);
    if (!bo->map)
        return;
    v->os->unmap(v->os->context, bo->map, bo->bytes);
    destroy_object(v, bo->handle, bo->obj);
    memset(bo, 0, sizeof *bo);
}

static int vendor_bo_sync(struct ork_transport *t, const struct ork_bo *bo, uint64_t offset,
                          uint64_t bytes, unsigned dir)
{
    static_assert(RKNPU_SYNC_TO_DEVICE == (int)ORK_SYNC_TO_DEVICE &&
                      RKNPU_SYNC_FROM_DEVICE == (int)ORK_SYNC_FROM_DEVICE,
                  "directions are passed through");
    if (!dir || offset > bo->bytes || bytes > bo->bytes - offset)
        return -EINVAL;
    return sync_object(vendor_of(t), bo, offset, bytes, dir);
}

/* Cleans the part of every command buffer that the job's programs lie in. */
static int clean_commands(const struct vendor *v, const struct ork_job *job)
{
    int err = 0;
    for (uint32_t i = 0; i < job->n_reads && !err; i++) {
        const struct ork_bo *bo = job->reads[i];
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t p = 0; bo->flags & ORK_BO_WRITE_COMBINE && p < job->n_programs; p++) {
            const struct ork_program_ref *ref = &job->programs[p];
            uint64_t first = (uint64_t)ref->iova - bo->iova, end = first + 8 * ref->n_entries;
            if (ref->iova < bo->iova || end > bo->bytes)
                continue;
            low = first < low ? first : low;
            high = end > high ? end : high;
        }
        if (high)
            err = sync_object(v, bo, low, high - low, RKNPU_SYNC_TO_DEVICE);
    }
    return err;
}

static int write_tasks(const struct vendor *v, const struct job_ticket *ticket)
{
    const struct ork_bo *bo = &v->tasks[ticket->core];
    struct rknpu_task *tasks = bo->map;
    for (uint32_t i = 0; i < ticket->n_programs; i++)
        tasks[i] = (struct rknpu_task){.op_idx = 0,
                                       .enable_mask = ENABLE_MASK,
                                       .int_mask = INTERRUPT_DPU,
                                       .int_clear = INTERRUPT_ALL,
                                       .regcfg_amount = ticket->programs[i].n_entries - 4,
                                       .regcmd_addr = ticket->programs[i].iova};
    return sync_object(v, bo, 0, ticket->n_programs * sizeof *tasks, RKNPU_SYNC_TO_DEVICE);
}

static struct rknpu_submit submit_of(const struct vendor *v, const struct job_ticket *ticket)
{
    struct rknpu_submit submit = {.flags = RKNPU_JOB_PC | RKNPU_JOB_PINGPONG,
                                  .timeout = ticket->timeout_ms ? ticket->timeout_ms : 3000,
                                  .task_number = ticket->n_programs,
                                  .task_obj_addr = v->tasks[ticket->core].obj,
                                  .iommu_domain_id = ticket->domain,
                                  .core_mask = UINT32_C(1) << ticket->core,
                                  .fence_fd = -1};
    /* All three: old kernels dereference nothing where a used core's entry is zero. */
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        submit.subcore_task[i].task_number = ticket->n_programs;
    return submit;
}

static void explain(struct ork_job_result *result, int err, uint32_t n_programs)
{
    result->error = err;
    if (err == -ETIMEDOUT)
        snprintf(result->text, sizeof result->text,
                 "the kernel gave up after program %u of %u and reset the core",
                 result->programs_done, n_programs);
    else if (err == -EBUSY)
        snprintf(result->text, sizeof result->text,
                 "the kernel could not switch to the job's address space: another user of the NPU "
                 "holds it");
    else
        snprintf(result->text, sizeof result->text, "the kernel refused the job: %s",
                 strerror(-err));
}

/* On the core's thread. An interrupted submit is made again, from fresh arguments since the kernel
 * writes them back: the job computes the same. */
static void run_job(void *context, struct job_ticket *ticket)
{
    struct vendor *v = context;
    struct rknpu_submit submit = {0};
    int err = write_tasks(v, ticket);
    while (!err) {
        submit = submit_of(v, ticket);
        err = v->os->ioctl(v->os->context, v->node.fd, RKNPU_REQUEST_SUBMIT, &submit);
        if (err != -EINTR)
            break;
        err = 0;
    }
    ticket->result.programs_done = submit.task_counter;
    if (err < 0) {
        explain(&ticket->result, err, ticket->n_programs);
        if (err == -ETIMEDOUT)
            atomic_fetch_add(&v->timeouts, 1);
        return;
    }
    atomic_store(&v->timeouts, 0);
    ticket->result.programs_done = ticket->n_programs;
    ticket->result.status = INTERRUPT_DPU;
    if (submit.hw_elapse_time > 0)
        ticket->result.device_us = (double)submit.hw_elapse_time / 1000;
}

static int vendor_submit(struct ork_transport *t, const struct ork_job *job, uint64_t *ticket)
{
    struct vendor *v = vendor_of(t);
    struct ork_transport_info info;
    unsigned domain;
    int err;
    vendor_info(t, &info);
    err = job_check(job, &info);
    if (!err)
        err = job_domain(job, &domain);
    if (!err && atomic_load(&v->timeouts) >= MAX_TIMEOUTS)
        err = -ENODEV;
    if (!err)
        err = clean_commands(v, job);
    return err ? err : job_queue_submit(&v->queue, job, domain, ticket);
}

static int vendor_wait(struct ork_transport *t, uint64_t ticket, int64_t timeout_us,
                       struct ork_job_result *out)
{
    return job_queue_wait(&vendor_of(t)->queue, ticket, timeout_us, out);
}

static void vendor_close(struct ork_transport *t)
{
    struct vendor *v = vendor_of(t);
    if (!t)
        return;
    if (v->has_queue)
        job_queue_fini(&v->queue);
    for (unsigned i = 0; i < ORK_MAX_CORES; i++)
        vendor_bo_destroy(t, &v->tasks[i]);
    v->os->close(v->os->context, v->node.fd);
    free(v);
}

static const struct ork_transport_ops vendor_ops = {
    .info = vendor_info,
    .bo_create = vendor_bo_create,
    .bo_destroy = vendor_bo_destroy,
    .bo_sync = vendor_bo_sync,
    .submit = vendor_submit,
    .wait = vendor_wait,
    .close = vendor_close,
};

/* The value of an action, or 0 where this kernel has no such action. */
static uint32_t ask(const struct vendor *v, uint32_t action, bool *known)
{
    struct rknpu_action argument = {.action = action};
    *known = call(v, RKNPU_REQUEST_ACTION, &argument) >= 0;
    return *known ? argument.value : 0;
}

static int start(struct vendor *v, struct ork_error *error)
{
    const struct job_hooks hooks = {v, run_job, NULL};
    bool known;
    int err = 0;
    v->hw_version = ask(v, RKNPU_ACTION_HW_VERSION, &known);
    v->drv_version = ask(v, RKNPU_ACTION_DRV_VERSION, &known);
    ask(v, RKNPU_ACTION_GET_DOMAIN, &known);
    v->n_domains = known ? RKNPU_MAX_DOMAINS : 1;
    for (unsigned i = 0; i < ORK_MAX_CORES && !err; i++)
        err = create_bo(v, RKNPU_MAX_TASKS * sizeof(struct rknpu_task), RKNPU_MEM_TASKS, 0,
                        &v->tasks[i]);
    if (err)
        return drm_explain_memory(v->os, v->node.path, err, error);
    err = job_queue_init(&v->queue, &hooks, ORK_MAX_CORES, true);
    if (err)
        return drm_fail(error, err, "%s: no threads for the cores: %s.", v->node.path,
                        strerror(-err));
    v->has_queue = true;
    return 0;
}

int vendor_open(const struct ork_os *os, struct ork_transport **out, struct ork_error *error)
{
    struct drm_node node;
    struct vendor *v;
    int err = drm_find(os, "/dev/dri/card", "rknpu", &node, error);
    if (err)
        return err;
    /* Two processes on this kernel's driver can hang the board [ork]; mainline's keeps them apart.
     */
    if (os->lock(os->context, node.fd) == -EBUSY) {
        os->close(os->context, node.fd);
        return drm_fail(error, -EBUSY,
                        "%s is in use by another process that drives the NPU: end it first, the "
                        "vendor kernel cannot serve two.",
                        node.path);
    }
    v = calloc(1, sizeof *v);
    if (!v) {
        os->close(os->context, node.fd);
        return drm_fail(error, -ENOMEM, "No memory to open %s.", node.path);
    }
    v->base.ops = &vendor_ops;
    v->os = os;
    v->node = node;
    err = start(v, error);
    if (err)
        vendor_close(&v->base);
    else
        *out = &v->base;
    return err;
}

int ork_vendor_open(struct ork_transport **out, struct ork_error *error)
{
    return vendor_open(&ork_os_host, out, error);
}
