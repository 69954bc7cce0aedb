/* The mainline accel driver "rocket" as a transport.
 *
 * A submit returns at once and the kernel chooses the core; waiting is PREP_BO on the buffers the
 * job writes, with an absolute deadline. The kernel does not tell whether a job failed: one that
 * took its watchdog's time is reported as timed out, the rest is verify mode's to find.
 * Each descriptor is an address space of its own: domain d is descriptor d, opened when first
 * used. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/job_queue.h"
#include "transport/kernel_open.h"
#include "transport/rocket_uapi.h"

enum { PAGE_BYTES = 4096, SLOTS = JOB_QUEUE_SLOTS, MAX_WAIT_S = 3600 };

/* A submitted job: what it writes has to be waited for. id % SLOTS is its slot; n_handles 0 means
 * that the slot is free. */
struct flight {
    uint64_t id;
    uint32_t *handles; /* owned */
    uint32_t n_handles, n_programs;
    unsigned domain;
    unsigned ahead; /* jobs in flight when it was submitted: they may run before it */
    int64_t submitted_ns;
};

struct mainline {
    struct ork_transport base;   /* first */
    const struct ork_os *os;     /* borrowed */
    struct drm_node node;        /* its descriptor is fds[0] */
    pthread_mutex_t lock;        /* guards all below */
    int fds[ROCKET_MAX_DOMAINS]; /* -1 = not opened yet; never closed before the end */
    struct flight *flights;      /* SLOTS of them */
    uint64_t next_id;
    unsigned n_flights;
};

static struct mainline *mainline_of(struct ork_transport *t)
{
    return (struct mainline *)t;
}

static void mainline_info(const struct ork_transport *t, struct ork_transport_info *out)
{
    const struct mainline *m = (const struct mainline *)t;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "mainline");
    snprintf(out->device, sizeof out->device, "%s", m->node.path);
    out->drv_version = m->node.version;
    out->n_cores = ORK_MAX_CORES;
    out->n_domains = ROCKET_MAX_DOMAINS;
    out->iova_bytes = UINT64_C(3900) << 20; /* least measured ceiling [lrn] */
    out->max_programs = ROCKET_MAX_TASKS;
    out->max_jobs = SLOTS;
    out->chain = ORK_CHAIN_NONE;
    out->kernel = ORK_KERNEL_MAINLINE;
}

static int call(const struct mainline *m, int fd, unsigned long request, void *argument)
{
    int err = drm_ioctl(m->os, fd, request, argument);
    return err < 0 ? err : 0;
}

/* Descriptor of a domain: non-negative, or a negative errno. */
static int domain_fd(struct mainline *m, uint32_t domain)
{
    int fd;
    if (domain >= ROCKET_MAX_DOMAINS)
        return -EINVAL;
    pthread_mutex_lock(&m->lock);
    if (m->fds[domain] < 0)
        m->fds[domain] = m->os->open(m->os->context, m->node.path);
    fd = m->fds[domain];
    pthread_mutex_unlock(&m->lock);
    return fd;
}

static void close_object(const struct mainline *m, int fd, uint32_t handle)
{
    struct drm_gem_close_arg close = {.handle = handle};
    call(m, fd, DRM_REQUEST_GEM_CLOSE, &close);
}

/* Hands the buffer's cache lines to the device. */
static int to_device(const struct mainline *m, int fd, uint32_t handle)
{
    struct rocket_fini_bo fini = {.handle = handle};
    return call(m, fd, ROCKET_REQUEST_FINI_BO, &fini);
}

/* Waits for jobs that write the buffer, takes its cache lines back. -ETIMEDOUT at the deadline. */
static int from_device(const struct mainline *m, int fd, uint32_t handle, int64_t deadline_ns)
{
    struct rocket_prep_bo prep = {.handle = handle, .timeout_ns = deadline_ns};
    int err = call(m, fd, ROCKET_REQUEST_PREP_BO, &prep);
    return err == -EBUSY ? -ETIMEDOUT : err;
}

static int mainline_bo_create(struct ork_transport *t, uint64_t bytes, uint32_t flags,
                              uint32_t domain, struct ork_bo *out)
{
    struct mainline *m = mainline_of(t);
    const uint64_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct rocket_create_bo create = {.size = (uint32_t)whole};
    struct ork_bo bo = {.bytes = whole, .flags = flags, .domain = domain};
    int err, fd = domain_fd(m, domain);
    if (!bytes || fd < 0)
        return bytes ? fd : -EINVAL;
    if (whole > UINT32_MAX)
        return -ENOMEM;
    err = call(m, fd, ROCKET_REQUEST_CREATE_BO, &create);
    if (err)
        return err;
    bo.handle = create.handle;
    bo.iova = (uint32_t)create.dma_address;
    if (create.size < whole || create.dma_address + whole > UINT64_C(1) << 32)
        err = -ENOMEM;
    else
        err = m->os->map(m->os->context, fd, create.offset, whole, &bo.map);
    if (err) {
        close_object(m, fd, create.handle);
        return err;
    }
    *out = bo;
    return 0;
}

static void mainline_bo_destroy(struct ork_transport *t, struct ork_bo *bo)
{
    struct mainline *m = mainline_of(t);
    if (!bo->map)
        return;
    m->os->unmap(m->os->context, bo->map, bo->bytes);
    close_object(m, domain_fd(m, bo->domain), bo->handle);
    memset(bo, 0, sizeof *bo);
}

/* The deadline of a wait without limit: far, and still representable. */
static int64_t deadline_ns(int64_t now_ns, int64_t timeout_us)
{
    const int64_t longest_us = INT64_C(1000000) * MAX_WAIT_S;
    if (timeout_us < 0 || timeout_us > longest_us)
        timeout_us = longest_us;
    return now_ns + timeout_us * 1000;
}

/* The kernel maintains whole buffers; the range is only checked. */
static int mainline_bo_sync(struct ork_transport *t, const struct ork_bo *bo, uint64_t offset,
                            uint64_t bytes, unsigned dir)
{
    struct mainline *m = mainline_of(t);
    const int fd = domain_fd(m, bo->domain);
    int err = 0;
    if (!dir || offset > bo->bytes || bytes > bo->bytes - offset)
        return -EINVAL;
    if (dir & ORK_SYNC_FROM_DEVICE)
        err = from_device(m, fd, bo->handle, deadline_ns(m->os->now_ns(m->os->context), -1));
    if (!err && dir & ORK_SYNC_TO_DEVICE)
        err = to_device(m, fd, bo->handle);
    return err;
}

static uint32_t *copy_handles(const struct ork_bo *const *bos, uint32_t n)
{
    uint32_t *handles = malloc((n ? n : 1) * sizeof *handles);
    for (uint32_t i = 0; handles && i < n; i++)
        handles[i] = bos[i]->handle;
    return handles;
}

/* Commands are written through a cached mapping: handed over before each job. */
static int clean_commands(const struct mainline *m, int fd, const struct ork_job *job)
{
    int err = 0;
    for (uint32_t i = 0; i < job->n_reads && !err; i++)
        if (job->reads[i]->flags & ORK_BO_WRITE_COMBINE)
            err = to_device(m, fd, job->reads[i]->handle);
    return err;
}

static int submit_ioctl(const struct mainline *m, int fd, const struct ork_job *job,
                        const uint32_t *reads, const uint32_t *writes)
{
    struct rocket_task *tasks = malloc(job->n_programs * sizeof *tasks);
    struct rocket_job one = {.tasks = (uintptr_t)tasks,
                             .in_bo_handles = (uintptr_t)reads,
                             .out_bo_handles = (uintptr_t)writes,
                             .task_count = job->n_programs,
                             .task_struct_size = sizeof *tasks,
                             .in_bo_handle_count = job->n_reads,
                             .out_bo_handle_count = job->n_writes};
    struct rocket_submit submit = {
        .jobs = (uintptr_t)&one, .job_count = 1, .job_struct_size = sizeof one};
    int err;
    if (!tasks)
        return -ENOMEM;
    for (uint32_t i = 0; i < job->n_programs; i++)
        tasks[i] = (struct rocket_task){job->programs[i].iova, job->programs[i].n_entries};
    err = clean_commands(m, fd, job);
    if (!err)
        err = call(m, fd, ROCKET_REQUEST_SUBMIT, &submit);
    free(tasks);
    return err;
}

/* Reserves a slot; NULL: all are in flight. The lock is held. */
static struct flight *take_slot(struct mainline *m)
{
    if (m->n_flights == SLOTS)
        return NULL;
    while (m->flights[m->next_id % SLOTS].n_handles)
        m->next_id++;
    m->n_flights++;
    m->flights[m->next_id % SLOTS].id = m->next_id;
    return &m->flights[m->next_id++ % SLOTS];
}

static int launch(struct mainline *m, const struct ork_job *job, unsigned domain,
                  const uint32_t *reads, uint32_t *writes, uint64_t *ticket)
{
    const int fd = domain_fd(m, domain);
    struct flight *flight;
    int err;
    if (fd < 0)
        return fd;
    pthread_mutex_lock(&m->lock);
    flight = take_slot(m);
    if (flight) {
        const uint64_t id = flight->id;
        *flight = (struct flight){.id = id,
                                  .handles = writes,
                                  .n_handles = job->n_writes,
                                  .n_programs = job->n_programs,
                                  .domain = domain,
                                  .ahead = m->n_flights - 1,
                                  .submitted_ns = m->os->now_ns(m->os->context)};
    }
    pthread_mutex_unlock(&m->lock);
    if (!flight)
        return -EAGAIN;
    err = submit_ioctl(m, fd, job, reads, writes);
    if (!err) {
        *ticket = flight->id;
        return 0;
    }
    pthread_mutex_lock(&m->lock);
    flight->n_handles = 0;
    flight->handles = NULL;
    m->n_flights--;
    pthread_mutex_unlock(&m->lock);
    return err;
}

static int mainline_submit(struct ork_transport *t, const struct ork_job *job, uint64_t *ticket)
{
    struct mainline *m = mainline_of(t);
    struct ork_transport_info info;
    uint32_t *reads, *writes;
    unsigned domain;
    int err;
    mainline_info(t, &info);
    err = job_check(job, &info);
    if (!err)
        err = job->n_writes ? job_domain(job, &domain) : -EINVAL;
    if (err)
        return err;
    reads = copy_handles(job->reads, job->n_reads);
    writes = copy_handles(job->writes, job->n_writes);
    err = reads && writes ? launch(m, job, domain, reads, writes, ticket) : -ENOMEM;
    free(reads);
    if (err)
        free(writes);
    return err;
}

/* Whether the job can only have ended by the kernel's watchdog: the wait had to block (else the
 * job may have been done long ago), and lasted longer than it and all before it were allowed. */
static bool watchdog_fired(const struct flight *flight, int64_t wait_began_ns, int64_t now_ns)
{
    const int64_t blocked_ns = 1000000;
    const int64_t allowed_ns = (flight->ahead + 1) * ROCKET_WATCHDOG_MS * INT64_C(1000000);
    return now_ns - wait_began_ns >= blocked_ns && now_ns - flight->submitted_ns >= allowed_ns;
}

static void explain(struct ork_job_result *result, const struct flight *flight, int err)
{
    memset(result, 0, sizeof *result);
    result->error = err;
    result->programs_done = err ? 0 : flight->n_programs;
    if (err == -ETIMEDOUT)
        snprintf(result->text, sizeof result->text,
                 "the job took longer than the kernel's watchdog allows: the core was reset");
    else if (err)
        snprintf(result->text, sizeof result->text, "waiting for the job's buffers failed: %s",
                 strerror(-err));
}

/* Takes the flight out of the table. */
static void land(struct mainline *m, struct flight *flight)
{
    pthread_mutex_lock(&m->lock);
    free(flight->handles);
    flight->handles = NULL;
    flight->n_handles = 0;
    m->n_flights--;
    pthread_mutex_unlock(&m->lock);
}

static int mainline_wait(struct ork_transport *t, uint64_t ticket, int64_t timeout_us,
                         struct ork_job_result *out)
{
    struct mainline *m = mainline_of(t);
    struct flight *flight = &m->flights[ticket % SLOTS];
    const int64_t began_ns = m->os->now_ns(m->os->context);
    const int64_t deadline = deadline_ns(began_ns, timeout_us);
    bool there;
    int err = 0, fd;
    pthread_mutex_lock(&m->lock);
    there = flight->id == ticket && flight->n_handles;
    fd = m->fds[there ? flight->domain : 0];
    pthread_mutex_unlock(&m->lock);
    if (!there)
        return -ENOENT;
    for (uint32_t i = 0; i < flight->n_handles && !err; i++)
        err = from_device(m, fd, flight->handles[i], deadline);
    if (err == -ETIMEDOUT)
        return err;
    if (!err && watchdog_fired(flight, began_ns, m->os->now_ns(m->os->context)))
        err = -ETIMEDOUT;
    explain(out, flight, err);
    land(m, flight);
    return 0;
}

static void mainline_close(struct ork_transport *t)
{
    struct mainline *m = mainline_of(t);
    if (!t)
        return;
    for (size_t i = 0; m->flights && i < SLOTS; i++) {
        struct ork_job_result result;
        if (m->flights[i].n_handles)
            mainline_wait(t, m->flights[i].id, -1, &result);
        free(m->flights[i].handles);
    }
    for (unsigned i = 0; i < ROCKET_MAX_DOMAINS; i++)
        if (m->fds[i] >= 0)
            m->os->close(m->os->context, m->fds[i]);
    pthread_mutex_destroy(&m->lock);
    free(m->flights);
    free(m);
}

static const struct ork_transport_ops mainline_ops = {
    .info = mainline_info,
    .bo_create = mainline_bo_create,
    .bo_destroy = mainline_bo_destroy,
    .bo_sync = mainline_bo_sync,
    .submit = mainline_submit,
    .wait = mainline_wait,
    .close = mainline_close,
};

/* A first small buffer shows whether this user may allocate. */
static int probe(struct mainline *m, struct ork_error *error)
{
    struct ork_bo bo;
    int err = mainline_bo_create(&m->base, PAGE_BYTES, 0, 0, &bo);
    if (err)
        return drm_explain_memory(m->os, m->node.path, err, error);
    mainline_bo_destroy(&m->base, &bo);
    return 0;
}

int mainline_open(const struct ork_os *os, struct ork_transport **out, struct ork_error *error)
{
    struct drm_node node;
    struct mainline *m;
    int err = drm_find(os, "/dev/accel/accel", "rocket", &node, error);
    if (err)
        return err;
    m = calloc(1, sizeof *m);
    if (m)
        m->flights = calloc(SLOTS, sizeof *m->flights);
    if (!m || !m->flights) {
        free(m);
        os->close(os->context, node.fd);
        return drm_fail(error, -ENOMEM, "No memory to open %s.", node.path);
    }
    m->base.ops = &mainline_ops;
    m->os = os;
    m->node = node;
    m->next_id = SLOTS;
    pthread_mutex_init(&m->lock, NULL);
    for (unsigned i = 0; i < ROCKET_MAX_DOMAINS; i++)
        m->fds[i] = i ? -1 : node.fd;
    err = probe(m, error);
    if (err)
        mainline_close(&m->base);
    else
        *out = &m->base;
    return err;
}

int ork_mainline_open(struct ork_transport **out, struct ork_error *error)
{
    return mainline_open(&ork_os_host, out, error);
}
