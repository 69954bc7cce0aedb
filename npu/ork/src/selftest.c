/* What this very device does, tried once at open: the verdicts decide how it is used. Sums are
 * compared with a plain product; rows of every small height prove the signed surface stride. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "half.h"
#include "ork_error.h"

#define MAX_M       13
#define N           192
#define K           160
#define CHAINED     6
#define SUBMIT_RUNS 8

struct probe {
    enum ork_type type;
    uint32_t m, n, k;
    uint32_t m_multiple;
    size_t n_batch; /* matmuls of the batch, all alike */
    unsigned flags;
};

/* Host operands and results of one probe; integers are the codes themselves, fp16 holds them. */
struct buffers {
    int8_t a[MAX_M * K];
    int8_t b[N * K];
    uint16_t a16[MAX_M * K];
    uint16_t b16[N * K];
    int32_t c[CHAINED][MAX_M * N]; /* or float, or fp16 bits */
};

static void fill(const struct probe *p, struct buffers *x)
{
    uint32_t state = 12345;
    int8_t *const side[2] = {x->a, x->b};
    uint16_t *const half[2] = {x->a16, x->b16};
    const uint32_t count[2] = {p->m * p->k, p->n * p->k};

    for (int s = 0; s < 2; s++) {
        for (uint32_t i = 0; i < count[s]; i++) {
            const int range = p->type == ORK_I8_I32 ? 256 : 16;

            state = state * 1664525 + 1013904223;
            side[s][i] = (int8_t)((int)(state >> 16) % range - range / 2);
            half[s][i] = ork_half_from_float((float)side[s][i]);
        }
    }
    memset(x->c, 0x77, sizeof(x->c));
}

/* Integers have to be exact; small whole numbers in fp16 are too, up to 2^24 in fp32 and 2^11 in
 * fp16, where the sum is rounded to nearest. */
static bool cell_right(const struct probe *p, const struct buffers *x, size_t item, uint32_t i,
                       int32_t want)
{
    float f;

    if (p->type == ORK_F16_F16)
        return ((const uint16_t *)(const void *)x->c[item])[i] == ork_half_from_float((float)want);
    if (p->type == ORK_F16_F32) {
        memcpy(&f, &x->c[item][i], sizeof(f));
        return f == (float)want;
    }
    return x->c[item][i] == want;
}

static bool all_right(const struct probe *p, const struct buffers *x)
{
    for (uint32_t m = 0; m < p->m; m++) {
        for (uint32_t n = 0; n < p->n; n++) {
            int32_t want = 0;

            for (uint32_t k = 0; k < p->k; k++)
                want += x->a[m * p->k + k] * x->b[n * p->k + k];
            for (size_t item = 0; item < p->n_batch; item++)
                if (!cell_right(p, x, item, m * p->n + n, want))
                    return false;
        }
    }
    return true;
}

/* 1 right, 0 wrong or failed on the device, < 0 could not be tried. */
static int run(struct ork_device *d, const struct probe *p, struct buffers *x)
{
    const struct ork_plan_options options = {.n_cores = d->n_cores, .m_multiple = p->m_multiple};
    const bool half = p->type == ORK_F16_F32 || p->type == ORK_F16_F16;
    struct ork_matmul batch[CHAINED];
    struct ork_weight *w;
    int rc;

    rc = ork_weight_create_planned(d, p->type, p->n, p->k, &options, 0, &w, NULL);
    if (rc < 0)
        return rc;
    fill(p, x);
    rc = ork_weight_pack(w, 0, p->n, half ? (const void *)x->b16 : x->b);
    for (size_t i = 0; i < p->n_batch; i++)
        batch[i] = (struct ork_matmul){.size = sizeof(batch[i]),
                                       .weight = w,
                                       .a = half ? (const void *)x->a16 : x->a,
                                       .m = p->m,
                                       .c = x->c[i]};
    if (rc >= 0)
        rc = ork_batch_run(d, batch, p->n_batch, p->flags | ORK_BATCH_PROBE, NULL);
    ork_weight_destroy(w);
    if (rc == -EIO)
        return 0;
    return rc < 0 ? rc : all_right(p, x);
}

/* Heights that need a negative stride, and ones that are no multiple of the line group. */
static int run_small_heights(struct ork_device *d, struct buffers *x)
{
    static const uint32_t heights[] = {1, 2, 3, 5, 7};
    int verdict = 1;

    for (size_t i = 0; i < sizeof(heights) / sizeof(heights[0]) && verdict == 1; i++) {
        const struct probe p = {ORK_I8_I32, heights[i], 64, 96, 1, 1, ORK_BATCH_KICK};

        verdict = run(d, &p, x);
    }
    return verdict;
}

/* By the simulator's model where there is one: what a simulation takes says nothing of the chip and
 * differs from run to run. */
static double measure_submit(struct ork_device *d, struct buffers *x)
{
    const struct probe p = {ORK_I8_I32, 4, 32, 32, 4, 1, ORK_BATCH_KICK};
    double best = 0;

    for (int i = 0; i < SUBMIT_RUNS; i++) {
        struct ork_stats before, after;
        double us;

        ork_device_stats(d, &before);
        if (run(d, &p, x) != 1)
            return 0;
        ork_device_stats(d, &after);
        us =
            d->info.simulated ? after.device_us - before.device_us : after.wall_us - before.wall_us;
        if (!i || us < best)
            best = us;
    }
    return best;
}

static int test_all(struct ork_device *d, struct buffers *x, struct ork_caps *caps)
{
    const struct probe i8 = {ORK_I8_I32, 12, N, K, 4, 1, ORK_BATCH_KICK};
    const struct probe i4 = {ORK_I4_I16, 12, N, K, 4, 1, ORK_BATCH_KICK};
    const struct probe f32 = {ORK_F16_F32, 12, N, K, 4, 1, ORK_BATCH_KICK};
    const struct probe f16 = {ORK_F16_F16, 12, N, K, 4, 1, ORK_BATCH_KICK};
    const struct probe chain = {ORK_I8_I32, 12, N, K, 4, CHAINED, ORK_BATCH_CHAIN};
    int rc = run(d, &i8, x);

    if (rc < 0)
        return rc;
    caps->selftest_i8 = (int8_t)rc;
    if (!rc) /* nothing else can be told apart from this */
        return 0;
    rc = run_small_heights(d, x);
    caps->selftest_m1 = (int8_t)(rc < 0 ? -1 : rc);
    rc = run(d, &i4, x);
    caps->selftest_i4 = (int8_t)(rc < 0 ? -1 : rc);
    rc = run(d, &f32, x);
    rc = rc == 1 ? run(d, &f16, x) : rc;
    caps->selftest_f16 = (int8_t)(rc < 0 ? -1 : rc);
    if (d->info.chain != ORK_CHAIN_NONE) {
        rc = run(d, &chain, x);
        caps->selftest_chain = (int8_t)(rc < 0 ? -1 : rc);
    }
    caps->submit_us = measure_submit(d, x);
    return 0;
}

int ork_device_selftest(struct ork_device *device, struct ork_error *error)
{
    struct buffers *x = malloc(sizeof(*x));
    struct ork_caps caps;
    int rc;

    if (!x)
        return ork_fail(error, -ENOMEM, "No memory for the self test.");
    ork_device_caps(device, &caps);
    rc = test_all(device, x, &caps);
    free(x);
    if (rc < 0)
        return ork_fail(error, rc, "The self test could not run: %s.", strerror(-rc));
    caps.m_multiple = caps.selftest_m1 == 1 ? 1 : 4;
    pthread_mutex_lock(&device->lock);
    device->caps = caps;
    pthread_mutex_unlock(&device->lock);
    return 0;
}

int ork_selftest_verdict(const struct ork_device *device, enum ork_type type)
{
    struct ork_caps caps;

    ork_device_caps(device, &caps);
    if (type == ORK_I8_I32)
        return caps.selftest_i8;
    return type == ORK_I4_I16 ? caps.selftest_i4 : caps.selftest_f16;
}

int ork_selftest_alive(struct ork_device *device)
{
    const struct probe p = {ORK_I8_I32, 4, 64, 96, 4, 1, ORK_BATCH_KICK};
    struct buffers *x = malloc(sizeof(*x));
    int rc = x ? run(device, &p, x) : -ENOMEM;

    free(x);
    return rc < 0 ? rc : rc ? 0 : -EIO;
}
