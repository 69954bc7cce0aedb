/* The vendor kernel transport against a scripted kernel: every ioctl field by field, and what it
 * makes of EINTR, EBUSY, ETIMEDOUT, EFAULT, short or far buffers and maps that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorded_jobs.h"
#include "transport/kernel_open.h"
#include "transport/rknpu_uapi.h"

enum { FD = 7, TASKS_BYTES = 163840, DATA_IOVA = 0x10000000 };

#define EXPECT(rec, request, want, reply, result)                                                  \
    recording_ioctl(rec, FD, request, &(want), reply, sizeof(want), result)

static void expect_action(struct recording *rec, uint32_t action, uint32_t value, int result)
{
    struct rknpu_action want = {.action = action}, reply = {action, value};
    EXPECT(rec, RKNPU_REQUEST_ACTION, want, &reply, result);
}

/* MEM_CREATE and, if that works, MEM_MAP and mmap. */
static void expect_create(struct recording *rec, uint64_t bytes, uint32_t flags, int32_t domain,
                          uint32_t handle, uint64_t dma)
{
    struct rknpu_mem_create want = {.flags = flags, .size = bytes, .iommu_domain_id = domain};
    struct rknpu_mem_create reply = want;
    struct rknpu_mem_map map = {.handle = handle}, mapped = {.handle = handle};
    reply.handle = handle;
    reply.obj_addr = 0xffff000000000000 + handle;
    reply.dma_addr = dma;
    mapped.offset = (uint64_t)handle << 20;
    EXPECT(rec, RKNPU_REQUEST_MEM_CREATE, want, &reply, 0);
    EXPECT(rec, RKNPU_REQUEST_MEM_MAP, map, &mapped, 0);
    recording_map(rec, FD, mapped.offset, bytes, 0);
}

static void expect_sync(struct recording *rec, uint32_t handle, uint64_t offset, uint64_t bytes,
                        uint32_t flags)
{
    struct rknpu_mem_sync want = {
        .flags = flags, .obj_addr = 0xffff000000000000 + handle, .offset = offset, .size = bytes};
    EXPECT(rec, RKNPU_REQUEST_MEM_SYNC, want, NULL, 0);
}

static void expect_destroy(struct recording *rec, uint32_t handle)
{
    struct rknpu_mem_destroy want = {.handle = handle, .obj_addr = 0xffff000000000000 + handle};
    EXPECT(rec, RKNPU_REQUEST_MEM_DESTROY, want, NULL, 0);
}

/* card0 is a display, card1 the NPU. */
static void expect_find(struct recording *rec)
{
    recording_open(rec, "/dev/dri/card0", FD - 1);
    recording_version(rec, FD - 1, "rockchip");
    recording_close(rec, FD - 1);
    recording_open(rec, "/dev/dri/card1", FD);
    recording_version(rec, FD, "rknpu");
}

static void expect_open(struct recording *rec)
{
    expect_find(rec);
    expect_action(rec, RKNPU_ACTION_HW_VERSION, 0, -EINTR);
    expect_action(rec, RKNPU_ACTION_HW_VERSION, 0x46495245, 0);
    expect_action(rec, RKNPU_ACTION_DRV_VERSION, 906, 0);
    expect_action(rec, RKNPU_ACTION_GET_DOMAIN, 0, 0);
    for (uint32_t core = 0; core < 3; core++)
        expect_create(rec, TASKS_BYTES, 0x40b, 0, 1 + core, 0x1000000 * (1 + core));
}

static void expect_close(struct recording *rec)
{
    for (uint32_t core = 0; core < 3; core++) {
        recording_unmap(rec, TASKS_BYTES);
        expect_destroy(rec, 1 + core);
    }
    recording_close(rec, FD);
}

static void expect_bo(struct recording *rec, uint32_t handle, int32_t domain, uint64_t dma)
{
    expect_create(rec, 8192, 0x403, domain, handle, dma);
    expect_sync(rec, handle, 0, 8192, 3);
}

static void expect_bo_gone(struct recording *rec, uint32_t handle)
{
    recording_unmap(rec, 8192);
    expect_destroy(rec, handle);
}

static void test_open_and_info(void **state)
{
    struct recording rec;
    struct ork_transport *t;
    struct ork_transport_info info;
    (void)state;
    recording_init(&rec);
    expect_open(&rec);
    expect_close(&rec);
    assert_int_equal(vendor_open(&rec.os, &t, NULL), 0);
    t->ops->info(t, &info);
    assert_string_equal(info.name, "vendor");
    assert_string_equal(info.device, "/dev/dri/card1");
    assert_int_equal(info.hw_version, 0x46495245);
    assert_int_equal(info.drv_version, 906);
    assert_int_equal(info.n_domains, 16);
    assert_int_equal(info.max_programs, 4095);
    assert_int_equal(info.chain, ORK_CHAIN_REQUIRED);
    recording_close_transport(&rec, t);
}

/* Buffers: rounded to pages, zeroed, cleaned, synced by range, destroyed by handle and object. */
static void test_buffers(void **state)
{
    struct recording rec;
    struct ork_transport *t;
    struct ork_bo bo;
    (void)state;
    recording_init(&rec);
    expect_open(&rec);
    expect_bo(&rec, 9, 2, DATA_IOVA);
    expect_sync(&rec, 9, 64, 128, 1);
    expect_sync(&rec, 9, 0, 8192, 2);
    expect_bo_gone(&rec, 9);
    expect_close(&rec);
    assert_int_equal(vendor_open(&rec.os, &t, NULL), 0);
    assert_int_equal(t->ops->bo_create(t, 4097, ORK_BO_CACHED, 2, &bo), 0);
    assert_int_equal(bo.bytes, 8192);
    assert_int_equal(bo.iova, DATA_IOVA);
    assert_int_equal(((unsigned char *)bo.map)[8191], 0);
    assert_int_equal(t->ops->bo_sync(t, &bo, 64, 128, ORK_SYNC_TO_DEVICE), 0);
    assert_int_equal(t->ops->bo_sync(t, &bo, 0, 8192, ORK_SYNC_FROM_DEVICE), 0);
    assert_int_equal(t->ops->bo_sync(t, &bo, 1, 8192, ORK_SYNC_FROM_DEVICE), -EINVAL);
    t->ops->bo_destroy(t, &bo);
    assert_null(bo.map);
    t->ops->bo_destroy(t, &bo);
    assert_int_equal(t->ops->bo_create(t, 4096, 0, 16, &bo), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, 0, 0, 0, &bo), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, UINT64_C(1) << 32, 0, 0, &bo), -ENOMEM);
    recording_close_transport(&rec, t);
}

/* Buffers the kernel gave and we cannot use: each is given back. */
static void test_bad_buffers(void **state)
{
    struct rknpu_mem_create want = {.flags = 0x403, .size = 8192}, reply = want;
    struct rknpu_mem_map map = {.handle = 9}, mapped = {.handle = 9, .offset = 0x900000};
    struct recording rec;
    struct ork_transport *t;
    struct ork_bo bo;
    (void)state;
    recording_init(&rec);
    expect_open(&rec);
    reply.handle = 9;
    reply.obj_addr = 0xffff000000000009;
    reply.dma_addr = DATA_IOVA;
    EXPECT(&rec, RKNPU_REQUEST_MEM_CREATE, want, NULL, -ENOMEM);
    reply.size = 4096; /* shorter than asked for */
    EXPECT(&rec, RKNPU_REQUEST_MEM_CREATE, want, &reply, 0);
    expect_destroy(&rec, 9);
    reply.size = 8192;
    reply.dma_addr = 0xffffffff; /* ends beyond 4 GiB */
    EXPECT(&rec, RKNPU_REQUEST_MEM_CREATE, want, &reply, 0);
    expect_destroy(&rec, 9);
    reply.dma_addr = DATA_IOVA;
    EXPECT(&rec, RKNPU_REQUEST_MEM_CREATE, want, &reply, 0); /* cannot be mapped: two ways */
    EXPECT(&rec, RKNPU_REQUEST_MEM_MAP, map, NULL, -EINVAL);
    expect_destroy(&rec, 9);
    EXPECT(&rec, RKNPU_REQUEST_MEM_CREATE, want, &reply, 0);
    EXPECT(&rec, RKNPU_REQUEST_MEM_MAP, map, &mapped, 0);
    recording_map(&rec, FD, mapped.offset, 8192, -EAGAIN);
    expect_destroy(&rec, 9);
    expect_close(&rec);
    assert_int_equal(vendor_open(&rec.os, &t, NULL), 0);
    assert_int_equal(t->ops->bo_create(t, 8192, 0, 0, &bo), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 8192, 0, 0, &bo), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 8192, 0, 0, &bo), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 8192, 0, 0, &bo), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, 8192, 0, 0, &bo), -EAGAIN);
    recording_close_transport(&rec, t);
}

static struct rknpu_submit submit_want(unsigned core, uint32_t n, uint32_t domain)
{
    return (struct rknpu_submit){.flags = 0x5,
                                 .timeout = 250,
                                 .task_number = n,
                                 .task_obj_addr = 0xffff000000000001 + core,
                                 .iommu_domain_id = domain,
                                 .core_mask = UINT32_C(1) << core,
                                 .fence_fd = -1,
                                 .subcore_task = {{0, n}, {0, n}, {0, n}}};
}

static void jobs_script(struct jobs *j)
{
    recording_init(&j->rec);
    expect_open(&j->rec);
    expect_bo(&j->rec, 9, 1, DATA_IOVA);
    expect_bo(&j->rec, 10, 1, DATA_IOVA + 0x10000);
}

static void jobs_expect(struct jobs *j, int err, uint32_t counter)
{
    struct rknpu_submit want = submit_want(1, 2, 1), reply = want;
    reply.task_counter = counter;
    reply.hw_elapse_time = 1234000;
    expect_sync(&j->rec, 9, 1024, 1024 + 896, 1);
    expect_sync(&j->rec, 2, 0, 80, 1);
    EXPECT(&j->rec, RKNPU_REQUEST_SUBMIT, want, &reply, err);
}

static void jobs_open(struct jobs *j)
{
    expect_bo_gone(&j->rec, 9);
    expect_bo_gone(&j->rec, 10);
    expect_close(&j->rec);
    assert_int_equal(vendor_open(&j->rec.os, &j->t, NULL), 0);
    assert_int_equal(j->t->ops->bo_create(j->t, 8192, ORK_BO_WRITE_COMBINE, 1, &j->commands), 0);
    assert_int_equal(j->t->ops->bo_create(j->t, 8192, ORK_BO_CACHED, 1, &j->output), 0);
    jobs_fill(j, 1, DATA_IOVA + 1024, 1024);
    j->job.chained = true;
    j->job.timeout_ms = 250;
}

static void jobs_run(struct jobs *j, struct ork_job_result *result)
{
    uint64_t ticket;
    assert_int_equal(j->t->ops->submit(j->t, &j->job, &ticket), 0);
    assert_int_equal(j->t->ops->wait(j->t, ticket, -1, result), 0);
    assert_int_equal(j->t->ops->wait(j->t, ticket, -1, result), -ENOENT);
}

static void test_job(void **state)
{
    struct jobs j;
    struct ork_job_result result;
    struct rknpu_task tasks[2];
    (void)state;
    jobs_script(&j);
    jobs_expect(&j, 0, 2);
    jobs_open(&j);
    jobs_run(&j, &result);
    assert_int_equal(result.error, 0);
    assert_int_equal(result.programs_done, 2);
    assert_true(result.device_us > 1233.9 && result.device_us < 1234.1);
    memcpy(tasks, j.rec.maps[1], sizeof tasks); /* core 1's array is the second map */
    for (int i = 0; i < 2; i++) {
        const struct rknpu_task want = {.enable_mask = 0xd,
                                        .int_mask = 0x300,
                                        .int_clear = 0x1ffff,
                                        .regcfg_amount = 108,
                                        .regcmd_addr = j.programs[i].iova};
        assert_memory_equal(&tasks[i], &want, sizeof want);
    }
    jobs_close(&j);
}

static void test_job_limits(void **state)
{
    struct jobs j;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    jobs_open(&j);
    j.job.chained = false;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.chained = true;
    j.job.core = 3;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.core = 1;
    j.job.n_programs = 0;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.n_programs = 4096;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.job.n_programs = 2;
    j.output.domain = 0; /* not where the commands are */
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    j.output.domain = 1;
    j.programs[1].n_entries = 4;
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -EINVAL);
    jobs_close(&j);
}

/* Errors of the submit: each has its sentence, the buffers stay, the next job runs. */
static void test_job_errors(void **state)
{
    static const struct {
        int err;
        const char *says;
    } cases[] = {{-EBUSY, "address space"}, {-EFAULT, "refused"}, {-ETIMEDOUT, "program 1 of 2"}};
    struct rknpu_submit want, reply;
    struct jobs j;
    struct ork_job_result result;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jobs_script(&j);
        jobs_expect(&j, -EINTR, 0);
        want = submit_want(1, 2, 1);
        reply = want;
        reply.task_counter = 1;
        EXPECT(&j.rec, RKNPU_REQUEST_SUBMIT, want, &reply, cases[i].err);
        jobs_expect(&j, 0, 2);
        jobs_open(&j);
        jobs_run(&j, &result);
        assert_int_equal(result.error, cases[i].err);
        if (!strstr(result.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", result.text, cases[i].says);
        jobs_run(&j, &result);
        assert_int_equal(result.error, 0);
        jobs_close(&j);
    }
}

/* Three timeouts in a row: the device counts as gone; one good job between them resets that. */
static void test_dead_after_timeouts(void **state)
{
    static const int outcomes[] = {-ETIMEDOUT, -ETIMEDOUT, 0, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT};
    struct jobs j;
    struct ork_job_result result;
    uint64_t ticket;
    (void)state;
    jobs_script(&j);
    for (size_t i = 0; i < 6; i++)
        jobs_expect(&j, outcomes[i], 2);
    jobs_open(&j);
    for (size_t i = 0; i < 6; i++) {
        jobs_run(&j, &result);
        assert_int_equal(result.error, outcomes[i]);
    }
    assert_int_equal(j.t->ops->submit(j.t, &j.job, &ticket), -ENODEV);
    jobs_close(&j);
}

/* Up to the first buffer, which is refused. */
static void expect_no_buffer(struct recording *rec, int err)
{
    struct rknpu_mem_create want = {.flags = 0x40b, .size = TASKS_BYTES};
    expect_find(rec);
    expect_action(rec, RKNPU_ACTION_HW_VERSION, 0, -EINVAL);
    expect_action(rec, RKNPU_ACTION_DRV_VERSION, 0, -EINVAL);
    expect_action(rec, RKNPU_ACTION_GET_DOMAIN, 0, -EINVAL);
    EXPECT(rec, RKNPU_REQUEST_MEM_CREATE, want, NULL, err);
    recording_close(rec, FD);
}

/* Opening: the sentence tells what is wrong and the way out. */
static void test_open_refusals(void **state)
{
    static const char other_chip[] = "rockchip,rk3576-rknpu";
    struct recording rec;
    (void)state;
    recording_init(&rec);
    recording_refuse(&rec, vendor_open, -ENODEV, "rknpu");

    recording_init(&rec);
    recording_open(&rec, "/dev/dri/card1", -EACCES);
    recording_refuse(&rec, vendor_open, -EACCES, "/dev/dri/card1");

    recording_init(&rec);
    rec.compatible = other_chip;
    rec.compatible_bytes = sizeof other_chip;
    expect_find(&rec);
    recording_close(&rec, FD);
    recording_refuse(&rec, vendor_open, -EOPNOTSUPP, "rk3576");

    recording_init(&rec);
    rec.lock_result = -EBUSY;
    expect_find(&rec);
    recording_close(&rec, FD);
    recording_refuse(&rec, vendor_open, -EBUSY, "in use by another process");

    recording_init(&rec);
    rec.memlock = 65536;
    expect_no_buffer(&rec, -ENOMEM);
    recording_refuse(&rec, vendor_open, -ENOMEM, "RLIMIT_MEMLOCK is 64 KiB");

    recording_init(&rec);
    expect_no_buffer(&rec, -EACCES);
    recording_refuse(&rec, vendor_open, -EACCES, "may not allocate");
}

/* The lock is of the open file: a second open of the same node does not get it until the first is
 * closed. */
static void test_lock(void **state)
{
    char path[] = "/tmp/ork-lock-XXXXXX";
    const int made = mkstemp(path);
    const int first = ork_os_host.open(NULL, path), second = ork_os_host.open(NULL, path);

    (void)state;
    assert_true(made >= 0 && first >= 0 && second >= 0);
    assert_int_equal(ork_os_host.lock(NULL, first), 0);
    assert_int_equal(ork_os_host.lock(NULL, second), -EBUSY);
    ork_os_host.close(NULL, first);
    assert_int_equal(ork_os_host.lock(NULL, second), 0);
    ork_os_host.close(NULL, second);
    ork_os_host.close(NULL, made);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_info),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_bad_buffers),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_job_limits),
        cmocka_unit_test(test_job_errors),
        cmocka_unit_test(test_dead_after_timeouts),
        cmocka_unit_test(test_open_refusals),
        cmocka_unit_test(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
