/*
 * What carrying costs: GB/s of one core repacking experts of 2048 x 768 of each type ggml has a
 * repacked layout for, by ggml's own code and by what was learned of it (src/stream/tile_map.c),
 * within the caches and from memory to memory, beside a memcpy.
 *
 *     carries
 */
#include "base/clock.h"
#include "engine/session.h"
#include "stream/repack.h"

#include <ggml-backend.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { COLUMNS = 2048, ROWS = 768, PLACES = 64, ROUNDS = 3 };

typedef void carry_fn(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes);

static void copy(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes)
{
    (void)ctx;
    (void)slice;
    memcpy(dst, src, bytes);
}

static char *from, *to;

/* Huge pages where there are any, as the readers' buffers and the frames have. */
static char *memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static void say_nothing(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

/* The best of some rounds over all places, or over one as large as a first cache. */
static double rate(carry_fn *carry, void *ctx, size_t bytes, size_t row_bytes, bool cached)
{
    size_t part = cached ? 16384 / (8 * row_bytes) * 8 * row_bytes : bytes;
    int64_t best = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = clock_now_us();
        for (size_t i = 0; i < PLACES; i++)
            for (size_t at = 0; at + part <= bytes; at += part)
                carry(ctx, 0, to + (cached ? 0 : i * bytes), from + (cached ? 0 : i * bytes), part);
        int64_t us = clock_now_us() - start;
        best = us < best ? us : best;
    }
    size_t carried = bytes / part * part * PLACES;
    return (double)carried / 1e3 / (double)best;
}

static void row(const char *name, carry_fn *carry, void *ctx, size_t bytes, size_t row_bytes)
{
    printf("| %s | %.1f | %.1f |\n", name, rate(carry, ctx, bytes, row_bytes, true),
           rate(carry, ctx, bytes, row_bytes, false));
}

static void type_rows(struct repack *r, enum ggml_type type)
{
    struct ggml_init_params params = {.mem_size = 1 << 16, .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *w = ctx ? ggml_new_tensor_2d(ctx, type, COLUMNS, ROWS) : NULL;
    void *traits = w ? repack_traits(r, w) : NULL;
    if (traits) {
        struct repack_rows ours, ggmls;
        char name[64];
        repack_rows_init(&ours, r, w, traits);
        ggmls = ours;
        ggmls.map = NULL;
        size_t bytes = ggml_nbytes(w);
        snprintf(name, sizeof name, "%s, ggml", ggml_type_name(type));
        row(name, repack_carry, &ggmls, bytes, ours.row_bytes);
        snprintf(name, sizeof name, "%s, %s", ggml_type_name(type),
                 ours.map ? "learned" : "not learned");
        row(name, repack_carry, &ours, bytes, ours.row_bytes);
    }
    ggml_free(ctx);
}

int main(void)
{
    char variant[64];
    struct bmoe_error err;
    struct repack r;
    ggml_log_set(say_nothing, NULL);
    size_t most = (size_t)COLUMNS * ROWS * 9 / 8 * PLACES;
    if (backend_load_cpu(BMOE_BACKENDS_DIR, variant, sizeof variant, &err) < 0 ||
        repack_open(&r, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    from = memory(most);
    to = memory(most);
    if (!from || !to)
        return 1;
    memset(from, 1, most);
    memset(to, 1, most);
    printf("| GB/s | cached | memory |\n|---|---:|---:|\n");
    row("memcpy", copy, NULL, (size_t)COLUMNS * ROWS * 18 / 32, COLUMNS / 32 * 18);
    for (int t = 0; t < GGML_TYPE_COUNT; t++)
        if (ggml_is_quantized((enum ggml_type)t) && ggml_type_size((enum ggml_type)t))
            type_rows(&r, (enum ggml_type)t);
    repack_close(&r);
    return 0;
}
