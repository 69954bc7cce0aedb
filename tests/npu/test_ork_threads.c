/* One device used at once: by several threads, and by more jobs than run at a time. With
 * ThreadSanitizer this is the test of the driver's locks above the transports. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "product.h"

static struct ork_device *open_sim(const char *sim_options)
{
    const struct ork_open_options o = {
        .size = sizeof(o), .transport = "sim", .sim_options = sim_options};
    struct ork_error error = {0, ""};
    struct ork_device *d;

    if (ork_device_open(&o, &d, &error) < 0)
        fail_msg("%s", error.text);
    return d;
}

#define N_THREADS 4

static void run_threads(void *(*work)(void *), void *args, size_t bytes)
{
    pthread_t threads[N_THREADS];

    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (char *)args + i * bytes), 0);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* cmocka's assertions jump; threads only note what went wrong. */
struct worker {
    struct ork_device *device;
    struct ork_matmul call;
    int rounds;
    int error;
};

static void *multiply(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < w->rounds && !w->error; i++)
        w->error = ork_matmul_run(w->device, &w->call, 1, NULL);
    return NULL;
}

/* Each thread has its product; all share the device, two and two a weight. */
static void test_threads(void **state)
{
    static const enum ork_type types[] = {ORK_I8_I32, ORK_F16_F32};
    struct ork_device *d = open_sim("kernel=vendor");
    struct worker workers[N_THREADS];
    struct ork_weight *weights[2];
    struct product p[N_THREADS];
    struct ork_stats stats;

    (void)state;
    for (size_t i = 0; i < N_THREADS; i++) {
        product_make(&p[i], types[i % 2], 7, 70, 130, 100, i % 2);
        if (i < 2)
            weights[i] = product_weight(&p[i], d, NULL);
        workers[i] =
            (struct worker){.device = d, .call = product_call(&p[i], weights[i % 2]), .rounds = 8};
    }
    run_threads(multiply, workers, sizeof(workers[0]));
    for (size_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(workers[i].error, 0);
        product_check(&p[i]);
        product_free(&p[i]);
    }
    ork_device_stats(d, &stats);
    assert_int_equal(stats.matmuls, N_THREADS * 8);
    ork_weight_destroy(weights[0]);
    ork_weight_destroy(weights[1]);
    ork_device_close(d);
}

/* Asking and testing the device while others multiply: verdicts do not flicker. */
static void *ask(void *arg)
{
    struct worker *w = arg;
    struct ork_caps caps;

    for (int i = 0; i < w->rounds && !w->error; i++) {
        w->error = ork_device_selftest(w->device, NULL);
        ork_device_caps(w->device, &caps);
        if (caps.selftest_i8 != 1 || ork_device_health(w->device) < 0)
            w->error = -EIO;
    }
    return NULL;
}

static void test_selftest_meanwhile(void **state)
{
    struct ork_device *d = open_sim("kernel=mainline");
    struct worker w = {.device = d, .rounds = 20}, asker = {.device = d, .rounds = 3};
    struct ork_weight *weight;
    pthread_t thread;
    struct product p;

    (void)state;
    product_make(&p, ORK_I8_I32, 3, 40, 70, 127, 9);
    weight = product_weight(&p, d, NULL);
    w.call = product_call(&p, weight);
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    multiply(&w);
    pthread_join(thread, NULL);
    assert_int_equal(w.error, 0);
    assert_int_equal(asker.error, 0);
    product_check(&p);
    ork_weight_destroy(weight);
    product_free(&p);
    ork_device_close(d);
}

struct packer {
    struct ork_weight *weight;
    const int8_t *rows;
    uint32_t n0, n, k;
    int error;
};

static void *pack_range(void *arg)
{
    struct packer *r = arg;

    r->error = ork_weight_pack(r->weight, r->n0, r->n, r->rows + (size_t)r->n0 * r->k);
    return NULL;
}

/* One weight packed by four threads, as a loader with several cores does it. */
static void test_pack_by_threads(void **state)
{
    static const enum ork_type types[] = {ORK_I8_I32, ORK_I4_I16};

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        struct ork_device *d = open_sim("kernel=vendor,noncoherent=1");
        struct packer parts[N_THREADS];
        struct ork_matmul call;
        struct ork_weight *w;
        struct product p;

        product_make(&p, types[t], 5, 64 * N_THREADS - 7, 520, 7, t);
        assert_int_equal(ork_weight_create(d, types[t], p.n, p.k, NULL, &w, NULL), 0);
        for (uint32_t i = 0; i < N_THREADS; i++)
            parts[i] =
                (struct packer){w, p.b, 64 * i, i + 1 < N_THREADS ? 64 : p.n - 64 * i, p.k, -1};
        run_threads(pack_range, parts, sizeof(parts[0]));
        for (size_t i = 0; i < N_THREADS; i++)
            assert_int_equal(parts[i].error, 0);
        call = product_call(&p, w);
        assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
        product_check(&p);
        ork_weight_destroy(w);
        product_free(&p);
        ork_device_close(d);
    }
}

/* Backwards, and half of it by another thread. */
struct backwards {
    void (*part)(void *user, size_t i);
    void *user;
    size_t n;
    size_t calls;
};

static void *even_parts(void *arg)
{
    const struct backwards *b = arg;

    for (size_t i = 0; i < b->n; i += 2)
        b->part(b->user, i);
    return NULL;
}

static void run_backwards(void *context, size_t n, void (*part)(void *user, size_t i), void *user)
{
    struct backwards *b = context;
    pthread_t thread;

    b->part = part;
    b->user = user;
    b->n = n;
    b->calls++;
    if (pthread_create(&thread, NULL, even_parts, b) != 0)
        return;
    for (size_t i = n; i-- > 0;)
        if (i % 2)
            part(user, i);
    pthread_join(thread, NULL);
}

/* Many tiles in K and M, several products: whoever reads them back reads the same. */
static void test_read_by_a_runner(void **state)
{
    static const enum ork_type types[] = {ORK_I8_I32, ORK_I4_I16, ORK_F16_F32};
    struct backwards b = {.calls = 0};
    struct ork_device *d = open_sim("kernel=vendor");
    struct ork_weight *weights[3];
    struct ork_matmul batch[3];
    struct product p[3];

    (void)state;
    ork_device_set_runner(d, run_backwards, &b);
    for (int i = 0; i < 3; i++) {
        product_make(&p[i], types[i], 200, 130, 700, 7, 31);
        weights[i] = product_weight(&p[i], d, NULL);
        batch[i] = product_call(&p[i], weights[i]);
    }
    assert_int_equal(ork_matmul_run(d, batch, 3, NULL), 0);
    assert_int_equal(b.calls, 1);
    assert_true(b.n >= 3);
    for (int i = 0; i < 3; i++) {
        product_check(&p[i]);
        product_free(&p[i]);
        ork_weight_destroy(weights[i]);
    }
    ork_device_close(d);
}

static void test_many_in_flight(void **state)
{
    enum { JOBS = 400 };
    struct ork_device *d = open_sim("kernel=vendor");
    static struct ork_fence *fences[JOBS];
    static int32_t c[JOBS][4 * 96];
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;

    (void)state;
    product_make(&p, ORK_I8_I32, 4, 96, 64, 127, 5);
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    for (size_t i = 0; i < JOBS; i++) {
        call.c = c[i];
        assert_int_equal(ork_matmul_submit(d, &call, 1, &fences[i], NULL), 0);
    }
    for (size_t i = JOBS; i-- > 0;) {
        assert_int_equal(ork_fence_wait(fences[i], -1, NULL), 0);
        assert_memory_equal(c[i], p.want, sizeof(c[i]));
    }
    ork_weight_destroy(w);
    product_free(&p);
    ork_device_close(d);
}

/* More jobs than the transport holds: refused, nothing lost. */
static void test_too_many_in_flight(void **state)
{
    enum { MOST = 5000 };
    struct ork_device *d = open_sim("kernel=vendor,cores=1,threads=0");
    struct ork_fence **fences = calloc(MOST, sizeof(struct ork_fence *));
    struct ork_matmul call;
    struct ork_weight *w;
    struct product p;
    int rc = 0, n = 0;

    (void)state;
    product_make(&p, ORK_I8_I32, 1, 32, 32, 127, 5);
    w = product_weight(&p, d, NULL);
    call = product_call(&p, w);
    while (n < MOST && rc == 0) {
        rc = ork_matmul_submit(d, &call, 1, &fences[n], NULL);
        n += rc == 0;
    }
    assert_int_equal(rc, -EAGAIN);
    for (int i = 0; i < n; i++)
        assert_int_equal(ork_fence_wait(fences[i], -1, NULL), 0);
    product_check(&p);
    assert_int_equal(ork_matmul_run(d, &call, 1, NULL), 0);
    ork_weight_destroy(w);
    product_free(&p);
    free(fences);
    ork_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_selftest_meanwhile),
        cmocka_unit_test(test_pack_by_threads), cmocka_unit_test(test_read_by_a_runner),
        cmocka_unit_test(test_many_in_flight),  cmocka_unit_test(test_too_many_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
