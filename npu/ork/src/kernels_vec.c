/* One source for every vector instruction set: generic vectors of ORK_LANES floats, compiled once
 * per set with its own flags and table name (CMakeLists.txt). Only what generic vectors cannot say
 * well, the nibble shuffles and fp16 conversions, is written per set, in kernels_isa.h.
 *
 * Equal to kernels_scalar.c bit for bit: sixteen partial sums however wide a vector is, butterfly
 * stages in the same order, a + (-b) for a - b. */
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "half.h"
#include "kernels_isa.h"

#define LANES   ORK_LANES
#define BYTES   (4 * LANES)
#define CELLS   (LANES / 4)
#define VECTORS (ORK_REDUCE_LANES / LANES)

typedef float vf __attribute__((vector_size(BYTES)));
typedef int32_t vi __attribute__((vector_size(BYTES)));
typedef uint32_t vu __attribute__((vector_size(BYTES)));
typedef int8_t vb __attribute__((vector_size(LANES)));

#define LOAD(type, v, p)  memcpy(&(v), (p), sizeof(type))
#define STORE(type, p, v) memcpy((p), &(v), sizeof(type))

static vf load(const float *p)
{
    vf v;

    LOAD(vf, v, p);
    return v;
}

static void store(float *p, vf v)
{
    STORE(vf, p, v);
}

static vf splat(float x)
{
    return (vf){0} + x;
}

/* mask ? a : b, by bits. */
static vf pick(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* CELLS strided cells as one vector's bytes. */
static void load_cells(void *v, const uint8_t *src, size_t step)
{
    uint8_t bytes[BYTES];

    for (size_t c = 0; c < CELLS; c++)
        memcpy(bytes + 16 * c, src + c * step, 16);
    memcpy(v, bytes, BYTES);
}

static void cells_put(uint8_t *dst, size_t step, const uint8_t *src, size_t n)
{
    size_t i = 0;

    for (; i + CELLS <= n; i += CELLS) {
        uint8_t bytes[BYTES];

        memcpy(bytes, src + i * 16, BYTES);
        for (size_t c = 0; c < CELLS; c++)
            memcpy(dst + (i + c) * step, bytes + 16 * c, 16);
    }
    ork_kernels_scalar()->cells_put(dst + i * step, step, src + i * 16, n - i);
}

static void cells_get(uint8_t *dst, const uint8_t *src, size_t step, size_t n)
{
    size_t i = 0;

    for (; i + CELLS <= n; i += CELLS)
        load_cells(dst + i * 16, src + i * step, step);
    ork_kernels_scalar()->cells_get(dst + i * 16, src + i * step, step, n - i);
}

static void nibbles_put(uint8_t *dst, size_t step, const int8_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        isa_nibbles_put(dst + i * step, codes + i * 32);
}

static void nibbles_get(int8_t *codes, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        isa_nibbles_get(codes + i * 32, src + i * step);
}

static void add_i32(int32_t *acc, const uint8_t *src, size_t step, size_t n)
{
    size_t i = 0;

    for (; i + CELLS <= n; i += CELLS) {
        vu cells, sum;

        load_cells(&cells, src + i * step, step);
        LOAD(vu, sum, acc + i * 4);
        sum += cells;
        STORE(vu, acc + i * 4, sum);
    }
    ork_kernels_scalar()->add_i32(acc + i * 4, src + i * step, step, n - i);
}

static size_t add_i16(int32_t *acc, const uint8_t *src, size_t step, size_t n)
{
    size_t at_bound = 0;

    for (size_t i = 0; i < n; i++)
        at_bound += isa_add_i16(acc + i * 8, src + i * step);
    return at_bound;
}

static void add_f32(float *acc, const uint8_t *src, size_t step, size_t n)
{
    size_t i = 0;

    for (; i + CELLS <= n; i += CELLS) {
        vf cells;

        load_cells(&cells, src + i * step, step);
        store(acc + i * 4, load(acc + i * 4) + cells);
    }
    ork_kernels_scalar()->add_f32(acc + i * 4, src + i * step, step, n - i);
}

static void add_f16(float *acc, const uint8_t *src, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        isa_add_f16(acc + i * 8, src + i * step);
}

static void scale(float *out, const int32_t *acc, const float *b, float a, size_t n, bool add)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vi whole;
        vf value;

        LOAD(vi, whole, acc + i);
        value = __builtin_convertvector(whole, vf) * (splat(a) * load(b + i));
        store(out + i, add ? load(out + i) + value : value);
    }
    ork_kernels_scalar()->scale(out + i, acc + i, b + i, a, n - i, add);
}

/* The reference's own loop: with this set's flags the compiler makes its vectors. */
static void dots(int32_t *sums, const int8_t *w, const int8_t *x, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        int32_t sum = 0;

        for (int i = 0; i < 32; i++)
            sum += (int16_t)w[32 * j + i] * (int16_t)x[i];
        sums[j] += sum;
    }
}

static void to_f16(uint16_t *out, const float *src, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        isa_to_f16(out + i, src + i);
    ork_kernels_scalar()->to_f16(out + i, src + i, n - i);
}

static float reduce(const vf sum[VECTORS], const float *x, size_t n)
{
    float lane[ORK_REDUCE_LANES];

    memcpy(lane, sum, sizeof(lane));
    for (size_t i = 0; i < n; i++)
        lane[i] += x[i] * x[i];
    for (size_t half = ORK_REDUCE_LANES / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static float norm_mul(float *y, const float *x, const float *norm, size_t n)
{
    vf sum[VECTORS] = {{0}};
    size_t i = 0;

    for (; i + ORK_REDUCE_LANES <= n; i += ORK_REDUCE_LANES) {
        for (size_t v = 0; v < VECTORS; v++) {
            const size_t at = i + v * LANES;
            const vf value = load(x + at);

            sum[v] += value * value;
            store(y + at, norm ? value * load(norm + at) : value);
        }
    }
    for (size_t j = i; j < n; j++)
        y[j] = norm ? x[j] * norm[j] : x[j];
    return reduce(sum, x + i, n - i);
}

/* The stages inside a vector: each lane takes its partner's value, plus or minus its own. */
static vf fwht_lanes(vf v)
{
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi lane;

    LOAD(vi, lane, numbers);
    for (int h = 1; h < LANES; h *= 2) {
        const vi sign = ((lane & h) != 0) & INT32_MIN;

        v = isa_permute(v, lane ^ h) + (vf)((vi)v ^ sign);
    }
    return v;
}

/* Two stages in one pass over memory: the same additions in the same order. */
static void fwht_pair(float *v, size_t block, size_t h)
{
    for (size_t i = 0; i < block; i += 4 * h) {
        for (size_t j = i; j < i + h; j += LANES) {
            const vf a = load(v + j), b = load(v + j + h);
            const vf c = load(v + j + 2 * h), d = load(v + j + 3 * h);
            const vf ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;

            store(v + j, ab + cd);
            store(v + j + h, a_b + c_d);
            store(v + j + 2 * h, ab - cd);
            store(v + j + 3 * h, a_b - c_d);
        }
    }
}

static void fwht_one(float *v, size_t block, size_t h)
{
    for (size_t i = 0; i < block; i += 2 * h) {
        for (size_t j = i; j < i + h; j += LANES) {
            const vf a = load(v + j), b = load(v + j + h);

            store(v + j, a + b);
            store(v + j + h, a - b);
        }
    }
}

static void fwht(float *x, size_t n, size_t block)
{
    if (block < LANES) {
        ork_kernels_scalar()->fwht(x, n, block);
        return;
    }
    for (size_t start = 0; start + block <= n; start += block) {
        float *v = x + start;
        size_t h = LANES;

        for (size_t i = 0; i < block; i += LANES)
            store(v + i, fwht_lanes(load(v + i)));
        for (; 4 * h <= block; h *= 4)
            fwht_pair(v, block, h);
        if (h < block)
            fwht_one(v, block, h);
    }
}

static float absmax(const float *x, size_t n)
{
    vf max = {0};
    float one = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vf value = load(x + i);

        value = (vf)((vi)value & INT32_MAX);
        max = pick(value > max, value, max);
    }
    for (size_t j = 0; j < LANES; j++)
        one = max[j] > one ? max[j] : one;
    for (; i < n; i++)
        one = fabsf(x[i]) > one ? fabsf(x[i]) : one;
    return one;
}

static void quantise(int8_t *codes, const float *x, float inv, float limit, size_t n)
{
    const vf top = splat(limit), half = splat(0.5f);
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        vf q = load(x + i) * splat(inv), rest;
        vi whole;
        vb narrow;

        q = pick(q > top, top, pick(q < -top, -top, pick(q == q, q, (vf){0})));
        whole = __builtin_convertvector(q, vi);
        rest = q - __builtin_convertvector(whole, vf);
        whole = whole - (vi)(rest >= half) + (vi)(rest <= -half);
        narrow = __builtin_convertvector(whole, vb);
        memcpy(codes + i, &narrow, sizeof(narrow));
    }
    ork_kernels_scalar()->quantise(codes + i, x + i, inv, limit, n - i);
}

const struct ork_kernels *ORK_KERNELS_NAME(void)
{
    static const struct ork_kernels table = {
        .name = ORK_KERNELS_LABEL,
        .cells_put = cells_put,
        .cells_get = cells_get,
        .nibbles_put = nibbles_put,
        .nibbles_get = nibbles_get,
        .add_i32 = add_i32,
        .add_i16 = add_i16,
        .add_f32 = add_f32,
        .add_f16 = add_f16,
        .scale = scale,
        .dots = dots,
        .to_f16 = to_f16,
        .norm_mul = norm_mul,
        .fwht = fwht,
        .absmax = absmax,
        .quantise = quantise,
    };

    return isa_present() ? &table : NULL;
}
