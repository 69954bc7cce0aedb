/* See product.h. */
#include "product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "half.h"

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

static int is_half(enum ork_type type)
{
    return type == ORK_F16_F32 || type == ORK_F16_F16;
}

static void fill(void *p, size_t n, enum ork_type type, int range, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        int code = (int)(next(state) % (uint32_t)(2 * range + 1)) - range;

        if (type == ORK_I8_I32 && range == 128 && code == 128)
            code = -128;
        if (type == ORK_I4_I16 && range == 8 && code == 8)
            code = -8;
        if (is_half(type))
            ((uint16_t *)p)[i] = ork_half_from_float((float)code / (float)range);
        else
            ((int8_t *)p)[i] = (int8_t)code;
    }
}

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p)
        fail_msg("no memory for %zu bytes", bytes);
    return p;
}

static void multiply_int(struct product *p)
{
    const int8_t *a = p->a, *b = p->b;

    for (size_t m = 0; m < p->m; m++) {
        for (size_t n = 0; n < p->n; n++) {
            int32_t sum = 0;

            for (size_t k = 0; k < p->k; k++)
                sum += a[m * p->k + k] * b[n * p->k + k];
            p->want[m * p->n + n] = sum;
        }
    }
}

static float *floats(const uint16_t *half, size_t n)
{
    float *f = need(n * sizeof(*f));

    for (size_t i = 0; i < n; i++)
        f[i] = ork_half_to_float(half[i]);
    return f;
}

static void multiply_half(struct product *p)
{
    float *a = floats(p->a, (size_t)p->m * p->k), *b = floats(p->b, (size_t)p->n * p->k);

    for (size_t m = 0; m < p->m; m++) {
        for (size_t n = 0; n < p->n; n++) {
            double sum = 0, magnitude = 0;

            for (size_t k = 0; k < p->k; k++) {
                const double term = (double)a[m * p->k + k] * b[n * p->k + k];

                sum += term;
                magnitude += fabs(term);
            }
            p->exact[m * p->n + n] = sum;
            p->magnitude[m * p->n + n] = magnitude;
        }
    }
    free(a);
    free(b);
}

void product_alloc(struct product *p, enum ork_type type, uint32_t m, uint32_t n, uint32_t k)
{
    const size_t size = is_half(type) ? 2 : 1, cells = (size_t)m * n;

    *p = (struct product){.type = type, .m = m, .n = n, .k = k};
    p->a = need(m * (size_t)k * size);
    p->b = need(n * (size_t)k * size);
    p->c = need(cells * 4);
    p->want = need(cells * sizeof(*p->want));
    p->exact = need(cells * sizeof(*p->exact));
    p->magnitude = need(cells * sizeof(*p->magnitude));
}

void product_multiply(struct product *p)
{
    if (is_half(p->type))
        multiply_half(p);
    else
        multiply_int(p);
}

void product_make(struct product *p, enum ork_type type, uint32_t m, uint32_t n, uint32_t k,
                  int range, uint64_t seed)
{
    product_alloc(p, type, m, n, k);
    fill(p->a, (size_t)m * k, type, range, &seed);
    fill(p->b, (size_t)n * k, type, range, &seed);
    product_multiply(p);
}

/* fp32: any order of fp32 additions stays within k * 2^-24 of the sum of magnitudes. fp16 output
 * adds its own rounding of each K slice and of the sum. */
static int half_right(const struct product *p, size_t i)
{
    const double bound = (p->k + 4) * 0x1p-24 * p->magnitude[i] + 1e-7;
    double got, slack = 0;

    if (p->type == ORK_F16_F32) {
        got = ((const float *)p->c)[i];
    } else {
        got = ork_half_to_float(((const uint16_t *)p->c)[i]);
        slack = (fabs(p->exact[i]) + p->magnitude[i] * 0.5) * 0x1p-10;
    }
    return fabs(got - p->exact[i]) <= bound + slack;
}

void product_check(const struct product *p)
{
    for (size_t i = 0; i < (size_t)p->m * p->n; i++) {
        if (is_half(p->type) ? !half_right(p, i) : ((const int32_t *)p->c)[i] != p->want[i])
            fail_msg("M %u N %u K %u type %d: cell (%zu, %zu) is wrong", p->m, p->n, p->k,
                     (int)p->type, i / p->n, i % p->n);
    }
}

void product_free(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->want);
    free(p->exact);
    free(p->magnitude);
}

struct ork_weight *product_weight(const struct product *p, struct ork_device *device,
                                  const struct ork_weight_options *options)
{
    struct ork_weight *w;
    struct ork_error error = {0, ""};

    if (ork_weight_create(device, p->type, p->n, p->k, options, &w, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(ork_weight_pack(w, 0, p->n, p->b), 0);
    return w;
}

struct ork_matmul product_call(const struct product *p, const struct ork_weight *weight)
{
    return (struct ork_matmul){
        .size = sizeof(struct ork_matmul), .weight = weight, .a = p->a, .m = p->m, .c = p->c};
}

struct ork_device *product_open_sim(const char *sim_options, bool verify)
{
    const struct ork_open_options o = {
        .size = sizeof(o), .transport = "sim", .sim_options = sim_options, .verify = verify};
    struct ork_error error = {0, ""};
    struct ork_device *d;

    if (ork_device_open(&o, &d, &error) < 0)
        fail_msg("%s", error.text);
    return d;
}
