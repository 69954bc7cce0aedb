/* The simulator as a transport: options, address spaces up to the 4 GiB edge, caches, tickets,
 * failures on demand. Programs are the captured ones, moved to where the buffers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ork.h"
#include "sim_hand.h"
#include "transport/transport.h"

enum { PAGE = 4096 };

static struct ork_transport *open_sim(const char *options)
{
    struct ork_error error = {0, ""};
    struct ork_transport *t;
    if (ork_sim_open(options, &t, &error))
        fail_msg("%s", error.text);
    return t;
}

static void test_options(void **state)
{
    static const char *const refused[] = {"cores=0",
                                          "cores=4",
                                          "cores=1x",
                                          "cores=",
                                          "cores",
                                          "kernel=other",
                                          "chain=maybe",
                                          "quirks=clamp+",
                                          "quirks=no",
                                          "iova_base=100",
                                          "threads=2",
                                          "domains=17",
                                          "fail_job=-1",
                                          "what=1",
                                          "iova_base=0x100000000",
                                          "kernel=vendor,cores=9"};
    struct ork_transport_info info;
    struct ork_transport *t;
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct ork_error error = {0, ""};
        t = NULL;
        assert_int_equal(ork_sim_open(refused[i], &t, &error), -EINVAL);
        assert_null(t);
        assert_non_null(strstr(error.text, "expected"));
    }
    t = open_sim("kernel=mainline,cores=2");
    t->ops->info(t, &info);
    assert_int_equal(info.n_cores, 2);
    assert_int_equal(info.n_domains, 1);
    assert_int_equal(info.chain, ORK_CHAIN_NONE);
    assert_int_equal(info.kernel, ORK_KERNEL_MAINLINE);
    assert_true(info.simulated);
    t->ops->close(t);
    t = open_sim(NULL);
    t->ops->info(t, &info);
    assert_int_equal(info.chain, ORK_CHAIN_REQUIRED);
    assert_int_equal(info.n_domains, 16);
    t->ops->close(t);
    t = open_sim("chain=either,iova_base=0xfff00000");
    t->ops->info(t, &info);
    assert_int_equal(info.chain, ORK_CHAIN_EITHER);
    assert_int_equal(info.iova_bytes, 0x100000);
    t->ops->close(t);
}

/* One captured int8 product in buffers of a transport. */
struct rig {
    struct ork_transport *t;
    struct ork_bo program, features, weights, output;
    const struct ork_bo *reads[3], *writes[1];
    struct ork_program_ref ref;
    struct ork_job job;
};

static void rig_place(struct rig *r)
{
    struct hand_program p;
    hand_build(&p, HAND_I8_CUBE, true);
    hand_set(&p, 0x1070, r->features.iova);
    hand_set(&p, 0x1110, r->weights.iova);
    hand_set(&p, 0x4020, r->output.iova);
    memcpy(r->program.map, p.entries, 8 * p.n);
    r->ref = (struct ork_program_ref){r->program.iova, (uint32_t)p.n};
}

static void rig_open(struct rig *r, const char *options, uint32_t domain)
{
    struct ork_bo *const bos[] = {&r->program, &r->features, &r->weights, &r->output};
    r->t = open_sim(options);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(r->t->ops->bo_create(r->t, PAGE, i ? ORK_BO_CACHED : ORK_BO_WRITE_COMBINE,
                                              domain, bos[i]),
                         0);
    rig_place(r);
    for (size_t i = 0; i < PAGE; i++) {
        ((int8_t *)r->features.map)[i] = (int8_t)(i * 37);
        ((int8_t *)r->weights.map)[i] = (int8_t)(i * 101 + 7);
    }
    r->reads[0] = &r->program;
    r->reads[1] = &r->features;
    r->reads[2] = &r->weights;
    r->writes[0] = &r->output;
    r->job = (struct ork_job){.size = sizeof r->job,
                              .programs = &r->ref,
                              .n_programs = 1,
                              .reads = r->reads,
                              .n_reads = 3,
                              .writes = r->writes,
                              .n_writes = 1};
}

static void rig_sync(struct rig *r, unsigned dir)
{
    assert_int_equal(r->t->ops->bo_sync(r->t, &r->features, 0, PAGE, dir), 0);
    assert_int_equal(r->t->ops->bo_sync(r->t, &r->weights, 0, PAGE, dir), 0);
    assert_int_equal(r->t->ops->bo_sync(r->t, &r->output, 0, PAGE, dir), 0);
}

static struct ork_job_result rig_run(struct rig *r)
{
    struct ork_job_result result;
    uint64_t ticket;
    assert_int_equal(r->t->ops->submit(r->t, &r->job, &ticket), 0);
    assert_int_equal(r->t->ops->wait(r->t, ticket, -1, &result), 0);
    assert_int_equal(r->t->ops->wait(r->t, ticket, 0, &result), -ENOENT);
    return result;
}

/* Whether the output holds the product: cubes with 4 rows, K = N = 64. */
static bool rig_right(const struct rig *r)
{
    const int8_t *a = r->features.map, *b = r->weights.map;
    for (size_t m = 0; m < 4; m++)
        for (size_t n = 0; n < 64; n++) {
            int32_t sum = 0, got;
            for (size_t k = 0; k < 64; k++)
                sum += a[k / 16 * 64 + m * 16 + k % 16] *
                       b[(n / 32 * 2 + k / 32) * 1024 + n % 32 * 32 + k % 32];
            memcpy(&got, (const char *)r->output.map + 4 * (n / 4 * 16 + m * 4 + n % 4), 4);
            if (got != sum)
                return false;
        }
    return true;
}

static void rig_close(struct rig *r)
{
    struct ork_bo *const bos[] = {&r->program, &r->features, &r->weights, &r->output};
    for (size_t i = 0; i < 4; i++)
        r->t->ops->bo_destroy(r->t, bos[i]);
    r->t->ops->close(r->t);
}

static void test_job(void **state)
{
    static const char *const options[] = {"", "threads=0", "kernel=mainline,cores=1"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct ork_job_result result;
        struct rig r;
        rig_open(&r, options[i], 0);
        result = rig_run(&r);
        assert_int_equal(result.error, 0);
        assert_int_equal(result.programs_done, 1);
        assert_int_equal(result.status, 0x155);
        assert_true(result.device_us > 10);
        assert_true(rig_right(&r));
        rig_close(&r);
    }
}

/* The last bytes below 4 GiB are usable; nothing lies beyond. */
static void test_edge_of_addresses(void **state)
{
    struct ork_bo more;
    struct rig r;
    (void)state;
    rig_open(&r, "iova_base=0xffffc000", 0); /* room for exactly the rig's four pages */
    assert_int_equal((uint64_t)r.output.iova + r.output.bytes, UINT64_C(1) << 32);
    assert_int_equal(rig_run(&r).error, 0);
    assert_true(rig_right(&r));
    assert_int_equal(r.t->ops->bo_create(r.t, 1, 0, 0, &more), -ENOMEM);
    r.ref.iova = 0xfffffff0; /* a program that would run on beyond 4 GiB */
    assert_int_equal(rig_run(&r).error, -EFAULT);
    rig_close(&r);
}

static void test_buffers(void **state)
{
    struct ork_transport *t = open_sim("domains=2");
    struct ork_bo a, b, c;
    (void)state;
    assert_int_equal(t->ops->bo_create(t, 0, 0, 0, &a), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, 1, 0, 2, &a), -EINVAL);
    assert_int_equal(t->ops->bo_create(t, (UINT64_C(1) << 32) + 1, 0, 0, &a), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 1, 0, 0, &a), 0);
    assert_int_equal(t->ops->bo_create(t, 1, 0, 1, &b), 0);
    assert_int_equal(a.iova, b.iova); /* each domain has addresses of its own */
    assert_int_equal(t->ops->bo_create(t, 2 * PAGE, 0, 0, &c), 0);
    assert_int_equal(c.iova, a.iova + PAGE);
    assert_int_equal(t->ops->bo_sync(t, &c, 0, 2 * PAGE, ORK_SYNC_TO_DEVICE), 0);
    assert_int_equal(t->ops->bo_sync(t, &c, 1, 2 * PAGE, ORK_SYNC_TO_DEVICE), -EINVAL);
    assert_int_equal(t->ops->bo_sync(t, &c, 0, 1, 0), -EINVAL);
    t->ops->bo_destroy(t, &a);
    assert_int_equal(t->ops->bo_create(t, 3 * PAGE, 0, 0, &a), 0);
    assert_int_equal(a.iova, c.iova + 2 * PAGE); /* the first gap is too small */
    t->ops->bo_destroy(t, &a);
    t->ops->bo_destroy(t, &a);
    t->ops->bo_destroy(t, &b);
    t->ops->bo_destroy(t, &c);
    t->ops->close(t);
}

/* Four 1 GiB buffers fill a domain; memory that is not touched costs nothing. */
static void test_full_domain(void **state)
{
    struct ork_transport *t = open_sim("domains=2");
    struct ork_bo bos[4], more;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(t->ops->bo_create(t, UINT64_C(1) << 30, 0, 0, &bos[i]), 0);
    assert_int_equal((uint64_t)bos[3].iova + bos[3].bytes, UINT64_C(1) << 32);
    assert_int_equal(t->ops->bo_create(t, 1, 0, 0, &more), -ENOMEM);
    assert_int_equal(t->ops->bo_create(t, 1, 0, 1, &more), 0);
    t->ops->bo_destroy(t, &more);
    for (size_t i = 0; i < 4; i++)
        t->ops->bo_destroy(t, &bos[i]);
    t->ops->close(t);
}

/* A cached buffer that was not synced is stale, both ways. */
static void test_noncoherent(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, "noncoherent=1", 3);
    assert_int_equal(rig_run(&r).error, 0);
    assert_false(rig_right(&r));
    rig_sync(&r, ORK_SYNC_TO_DEVICE);
    assert_int_equal(rig_run(&r).error, 0);
    assert_false(rig_right(&r));
    assert_int_equal(r.t->ops->bo_sync(r.t, &r.output, 0, PAGE, ORK_SYNC_FROM_DEVICE), 0);
    assert_true(rig_right(&r));
    rig_close(&r);
}

/* "done" before the last kernel group has landed: it is there at the second look. */
static void test_lag(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, "quirks=lag", 0);
    assert_int_equal(rig_run(&r).error, 0);
    assert_int_equal(r.t->ops->bo_sync(r.t, &r.output, 0, PAGE, ORK_SYNC_FROM_DEVICE), 0);
    assert_false(rig_right(&r));
    assert_int_equal(r.t->ops->bo_sync(r.t, &r.output, 0, PAGE, ORK_SYNC_FROM_DEVICE), 0);
    assert_true(rig_right(&r));
    rig_close(&r);
}

static void test_failures(void **state)
{
    struct ork_job_result result;
    uint64_t ticket;
    struct rig r;
    (void)state;
    rig_open(&r, "fail_job=2,dead_after=4", 0);
    assert_int_equal(rig_run(&r).error, 0);
    result = rig_run(&r);
    assert_int_equal(result.error, -ETIMEDOUT);
    assert_true(result.text[0] != 0);
    r.ref.n_entries -= 4; /* cut before the enable entry */
    result = rig_run(&r);
    assert_int_equal(result.error, -EINVAL);
    assert_int_equal(result.bad_iova, r.program.iova);
    assert_non_null(strstr(result.text, "enable"));
    r.ref.n_entries += 4;
    assert_int_equal(rig_run(&r).error, 0);
    assert_true(rig_right(&r));
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -ENODEV);
    rig_close(&r);
}

static void test_job_limits(void **state)
{
    struct ork_program_ref two[2];
    struct ork_bo elsewhere;
    uint64_t ticket;
    struct rig r;
    (void)state;
    rig_open(&r, "cores=2", 0);
    r.job.core = 2;
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -EINVAL);
    r.job.core = 1;
    r.job.size--;
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -EINVAL);
    r.job.size++;
    r.job.n_programs = 0;
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -EINVAL);
    two[0] = two[1] = r.ref;
    r.job.programs = two;
    r.job.n_programs = 2; /* not chained: this kernel would run the first alone */
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -EINVAL);
    r.job.n_programs = 1;
    assert_int_equal(r.t->ops->bo_create(r.t, 1, 0, 1, &elsewhere), 0);
    r.reads[1] = &elsewhere;
    assert_int_equal(r.t->ops->submit(r.t, &r.job, &ticket), -EINVAL);
    r.reads[1] = &r.features;
    assert_int_equal(rig_run(&r).error, 0);
    r.t->ops->bo_destroy(r.t, &elsewhere);
    rig_close(&r);
}

/* Modelled time: three cores at once are slower each than one alone, faster together. */
static void test_modelled_time_shares_memory(void **state)
{
    struct ork_job_result result;
    double alone, together = 0;
    uint64_t tickets[3];
    struct rig r;
    (void)state;
    rig_open(&r, "threads=0", 0); /* the three write one output: not at the same time here */
    alone = rig_run(&r).device_us;
    for (uint32_t core = 0; core < 3; core++) {
        r.job.core = core;
        assert_int_equal(r.t->ops->submit(r.t, &r.job, &tickets[core]), 0);
    }
    for (uint32_t core = 0; core < 3; core++) {
        assert_int_equal(r.t->ops->wait(r.t, tickets[core], -1, &result), 0);
        together = result.device_us > together ? result.device_us : together;
    }
    assert_true(together > alone && together < 3 * alone);
    rig_close(&r);
}

/* Buffers come and go while jobs run; with ThreadSanitizer this is the test of the locks. */
static void *churn(void *argument)
{
    struct rig *r = argument;
    for (int i = 0; i < 200; i++) {
        struct ork_bo bo;
        if (r->t->ops->bo_create(r->t, PAGE * (1 + i % 3), 0, 0, &bo))
            return argument;
        r->t->ops->bo_destroy(r->t, &bo);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t churner;
    uint64_t tickets[300];
    void *failed;
    struct rig r;
    (void)state;
    rig_open(&r, NULL, 0);
    assert_int_equal(pthread_create(&churner, NULL, churn, &r), 0);
    r.job.core = 0; /* one core: jobs that write the same output must not overlap */
    for (int i = 0; i < 300; i++)
        assert_int_equal(r.t->ops->submit(r.t, &r.job, &tickets[i]), 0);
    for (int i = 299; i >= 0; i--) {
        struct ork_job_result result;
        assert_int_equal(r.t->ops->wait(r.t, tickets[i], -1, &result), 0);
        assert_int_equal(result.error, 0);
    }
    pthread_join(churner, &failed);
    assert_null(failed);
    assert_true(rig_right(&r));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_edge_of_addresses),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_full_domain),
        cmocka_unit_test(test_noncoherent),
        cmocka_unit_test(test_lag),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_job_limits),
        cmocka_unit_test(test_modelled_time_shares_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
