/* The mainline kernel transport against a scripted kernel: every ioctl field by field, deadlines,
 * address spaces, and what it makes of EINTR, timeouts and buffers it cannot use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "recorded_jobs.h"
#include "transport/kernel_open.h"
#include "transport/rocket_uapi.h"

enum { FD = 7, SECOND_FD = 8, PAGE = 4096, IOVA = 0x20000 };

#define EXPECT(rec, fd, request, want, reply, result)                                              \
    recording_ioctl(rec, fd, request, &(want), reply, sizeof(want), result)

static void expect_create(struct recording *rec, int fd, uint32_t bytes, uint32_t handle,
                          uint64_t dma)
{
    struct rocket_create_bo want = {.size = bytes};
    struct rocket_create_bo reply = {bytes, handle, dma, (uint64_t)handle << 16};
    EXPECT(rec, fd, ROCKET_REQUEST_CREATE_BO, want, &reply, 0);
    recording_map(rec, fd, reply.offset, bytes, 0);
}

static void expect_gem_close(struct recording *rec, int fd, uint32_t handle)
{
    struct drm_gem_close_arg want = {.handle = handle};
    EXPECT(rec, fd, DRM_REQUEST_GEM_CLOSE, want, NULL, 0);
}

static void expect_gone(struct recording *rec, int fd, uint32_t bytes, uint32_t handle)
{
    recording_unmap(rec, bytes);
    expect_gem_close(rec, fd, handle);
}

static void expect_fini(struct recording *rec, int fd, uint32_t handle)
{
    struct rocket_fini_bo want = {.handle = handle};
    EXPECT(rec, fd, ROCKET_REQUEST_FINI_BO, want, NULL, 0);
}

static void expect_prep(struct recording *rec, int fd, uint32_t handle, int64_t deadline,
                        int result)
{
    struct rocket_prep_bo want = {.handle = handle, .timeout_ns = deadline};
    EXPECT(rec, fd, ROCKET_REQUEST_PREP_BO, want, NULL, result);
}

static void expect_open(struct recording *rec)
{
    recording_open(rec, "/dev/accel/accel0", FD - 1);
    recording_version(rec, FD - 1, "ivpu");
    recording_close(rec, FD - 1);
    recording_open(rec, "/dev/accel/accel1", FD);
    recording_version(rec, FD, "rocket");
    expect_create(rec, FD, PAGE, 1, 0);
    expect_gone(rec, FD, PAGE, 1);
}

static void test_buffers(void **state)
{
    struct rocket_create_bo want = {.size = PAGE}, reply = {PAGE, 5, 0xfffff000, 0x50000};
    struct recording rec;
    struct ork_transport_info info;
    struct ork_transport *t;
    struct ork_bo bo, far;
    (void)state;
    recording_init(&rec);
    expect_open(&rec);
    EXPECT(&rec, FD, ROCKET_REQUEST_CREATE_BO, want, NULL, -EINTR);
    expect_create(&rec, FD, PAGE, 3, IOVA);
    expect_fini(&rec, FD, 3);
    expect_prep(&rec, FD, 3, 1000 + INT64_C(3600000000000), -EINTR); /* the same deadline again */
    expect_prep(&rec, FD, 3, 1000 + INT64_C(3600000000000), 0);
    recording_open(&rec, "/dev/accel/accel1", SECOND_FD); /* another domain, another descriptor */
    expect_create(&rec, SECOND_FD, PAGE, 4, IOVA);
    expect_gone(&rec, SECOND_FD, PAGE, 4);
    EXPECT(&rec, FD, ROCKET_REQUEST_CREATE_BO, want, &reply, 0); /* the last page of 4 GiB */
    recording_map(&rec, FD, reply.offset, PAGE, 0);
    expect_gone(&rec, FD, PAGE, 5);
    reply.dma_address = UINT64_C(1) << 32; /* one further */
    EXPECT(&rec, FD, ROCKET_REQUEST_CREATE_BO, want, &reply, 0);
    expect_gem_close(&rec, FD, 5);
    reply.dma_address = IOVA;
    EXPECT(&rec, FD, ROCKET_REQUEST_CREATE_BO, want, &reply, 0);
    recording_map(&rec, FD, reply.offset, PAGE, -ENOMEM);
    expect_gem_close(&rec, FD, 5);
    expect_gone(&rec, FD, PAGE, 3);
    recording_close(&rec, FD);
    recording_close(&rec, SECOND_FD);

    rec.now = 1000;
    assert_int_equal(mainline_open(&rec.os, &t, NULL), 0);
    t->ops->info(t, &info);
    assert_string_equal(info.device, "/dev/accel/accel1");
    assert_int_equal(info.chain, ORK_CHAIN_NONE);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 0, &bo), 0);
    assert_int_equal(bo.iova, IOVA);
    assert_int_equal(t->ops->bo_sync(t, &bo, 0, 100, ORK_SYNC_TO_DEVICE), 0);
    assert_int_equal(t->ops->bo_sync(t, &bo, 0, 100, ORK_SYNC_FROM_DEVICE), 0);
    assert_int_equal(t->ops->bo_sync(t, &bo, PAGE, 1, ORK_SYNC_FROM_DEVICE), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 1, &far), 0);
    t->ops->bo_destroy(t, &far);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 0, &far), 0);
    assert_int_equal(far.iova, 0xfffff000);
    t->ops->bo_destroy(t, &far);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 0, &far), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 0, &far), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 100, ORK_BO_CACHED, 8, &far), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, UINT64_C(1) << 32, ORK_BO_CACHED, 0, &far), -ENOMEM);
    t->ops->bo_destroy(t, &bo);
    recording_close_transport(&rec, t);
}

/* The submit of two programs with one read and one written buffer, pointers followed. */
static bool is_the_job(const void *argument)
{
    const struct rocket_submit *submit = argument;
    const struct rocket_job *job = (const struct rocket_job *)(uintptr_t)submit->jobs;
    const struct rocket_task *tasks = (const struct rocket_task *)(uintptr_t)job->tasks;
    const uint32_t *in = (const uint32_t *)(uintptr_t)job->in_bo_handles;
    const uint32_t *out = (const uint32_t *)(uintptr_t)job->out_bo_handles;
    return submit->job_count == 1 && submit->job_struct_size == 40 && !submit->reserved &&
           job->task_count == 2 && job->task_struct_size == 8 && job->in_bo_handle_count == 1 &&
           job->out_bo_handle_count == 1 && in[0] == 3 && out[0] == 4 && tasks[0].regcmd == IOVA &&
           tasks[0].regcmd_count == 112 && tasks[1].regcmd == IOVA + 1024 &&
           tasks[1].regcmd_count == 130;
}

static void jobs_script(struct jobs *j)
{
    recording_init(&j->rec);
    expect_open(&j->rec);
    expect_create(&j->rec, FD, PAGE, 3, IOVA);
    expect_create(&j->rec, FD, PAGE, 4, IOVA + PAGE);
}

static void jobs_open(struct jobs *j)
{
    expect_gone(&j->rec, FD, PAGE, 3);
    expect_gone(&j->rec, FD, PAGE, 4);
    recording_close(&j->rec, FD);
    assert_int_equal(mainline_open(&j->rec.os, &j->t, NULL), 0);
    assert_int_equal(j->t->ops->bo_create(j->t, PAGE, ORK_BO_WRITE_COMBINE, 0, &j->commands), 0);
    assert_int_equal(j->t->ops->bo_create(j->t, PAGE, ORK_BO_CACHED, 0, &j->output), 0);
    jobs_fill(j, 0, IOVA, 1024);
    j->programs[1].n_entries = 130;
}

static void expect_submit(struct jobs *j, int result)
{
    expect_fini(&j->rec, FD, 3); /* the commands are handed over first */
    recording_ioctl_check(&j->rec, FD, ROCKET_REQUEST_SUBMIT, is_the_job, result);
}

static void test_job(void **state)
{
    struct jobs j;
    struct ork_job_result result;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    expect_submit(&j, -EINTR);
    recording_ioctl_check(&j.rec, FD, ROCKET_REQUEST_SUBMIT, is_the_job, 0);
    expect_prep(&j.rec, FD, 4, 500000, -ETIMEDOUT);
    expect_prep(&j.rec, FD, 4, INT64_C(3600000000000), 0);
    jobs_open(&j);
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), 0);
    assert_int_equal(j.t->ops->wait(j.t, ticket, 500, &result), -ETIMEDOUT);
    assert_int_equal(j.t->ops->wait(j.t, ticket, -1, &result), 0);
    assert_int_equal(result.error, 0);
    assert_int_equal(result.programs_done, 2);
    assert_int_equal(j.t->ops->wait(j.t, ticket, -1, &result), -ENOENT);
    jobs_close(&j);
}

static void test_job_limits(void **state)
{
    struct jobs j;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    expect_submit(&j, -EFAULT);
    jobs_open(&j);
    j.job.chained = true; /* would stall */
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.chained = false;
    j.job.n_writes = 0; /* nothing to wait for */
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.n_writes = 1;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EFAULT);
    jobs_close(&j);
}

/* A wait that blocked past the watchdog tells a reset; the next job is a new chance. */
static void test_watchdog(void **state)
{
    struct jobs j;
    struct ork_job_result result;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    j.rec.tick = 300000000; /* 0.3 s between looks at the clock */
    expect_submit(&j, 0);
    expect_prep(&j.rec, FD, 4, INT64_C(3600600000000), 0);
    expect_submit(&j, 0);
    expect_prep(&j.rec, FD, 4, INT64_C(3601800000000), 0);
    jobs_open(&j);
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), 0);
    assert_int_equal(j.t->ops->wait(j.t, ticket, -1, &result), 0);
    assert_int_equal(result.error, -ETIMEDOUT);
    assert_non_null(strstr(result.text, "watchdog"));
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), 0);
    j.rec.tick = 0; /* done long before the wait began: no verdict from its age */
    j.rec.now += 600000000;
    assert_int_equal(j.t->ops->wait(j.t, ticket, -1, &result), 0);
    assert_int_equal(result.error, 0);
    jobs_close(&j);
}

/* What was never waited for is waited for at close. */
static void test_close_waits(void **state)
{
    struct jobs j;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    expect_submit(&j, 0);
    jobs_open(&j);
    j.rec.n_steps--; /* the wait comes before the descriptor is closed */
    expect_prep(&j.rec, FD, 4, INT64_C(3600000000000), 0);
    recording_close(&j.rec, FD);
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), 0);
    jobs_close(&j);
}

/* Opening: the sentence tells what is wrong and the way out. */
static void test_open_refusals(void **state)
{
    static const char other_chip[] = "vendor,board\0rockchip,rk3576";
    struct rocket_create_bo want = {.size = PAGE};
    struct recording rec;
    (void)state;
    recording_init(&rec);
    recording_refuse(&rec, mainline_open, -ENODEV, "rocket");

    recording_init(&rec);
    recording_open(&rec, "/dev/accel/accel0", -EPERM);
    recording_refuse(&rec, mainline_open, -EPERM, "group");

    recording_init(&rec);
    rec.compatible = other_chip;
    rec.compatible_bytes = sizeof other_chip;
    recording_open(&rec, "/dev/accel/accel0", FD);
    recording_version(&rec, FD, "rocket");
    recording_close(&rec, FD);
    recording_refuse(&rec, mainline_open, -EOPNOTSUPP, "another chip");

    recording_init(&rec);
    rec.memlock = 8 << 20;
    recording_open(&rec, "/dev/accel/accel0", FD);
    recording_version(&rec, FD, "rocket");
    EXPECT(&rec, FD, ROCKET_REQUEST_CREATE_BO, want, NULL, -ENOMEM);
    recording_close(&rec, FD);
    recording_refuse(&rec, mainline_open, -ENOMEM, "RLIMIT_MEMLOCK is 8192 KiB");
}

/* This machine has neither device: the real calls say so. */
static void test_absent_here(void **state)
{
    struct ork_error error = {0};
    struct ork_transport *t = NULL;
    int vendor = ork_vendor_open(&t, &error), mainline;
    (void)state;
    if (!vendor)
        t->ops->close(t);
    mainline = ork_mainline_open(&t, &error);
    if (!mainline)
        t->ops->close(t);
    assert_true(vendor <= 0 && mainline <= 0);
    if (vendor && mainline)
        assert_true(error.text[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers),     cmocka_unit_test(test_job),
        cmocka_unit_test(test_job_limits),  cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_close_waits), cmocka_unit_test(test_open_refusals),
        cmocka_unit_test(test_absent_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
