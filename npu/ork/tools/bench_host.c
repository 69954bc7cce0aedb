/* See bench_host.h. Works on the pure part of the library: plans, packing, commands. Every figure
 * is the fastest of several rounds on one thread. */
#include "bench_host.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fused.h"
#include "pack.h"
#include "regcmd.h"
#include "tool.h"

enum { ROUNDS = 10, HOST_M = 128, HOST_N = 2048, HOST_K = 2048 };

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The tables of this processor, and how many there are. */
static size_t kernel_tables(const struct ork_kernels *tables[4])
{
    const struct ork_kernels *const all[] = {ork_kernels_scalar(), ork_kernels_avx2(),
                                             ork_kernels_avx512(), ork_kernels_neon()};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i])
            tables[n++] = all[i];
    return n;
}

/* Fastest of several rounds of 100 rows, in microseconds per row. */
static double fused_us(const struct ork_kernels *k, bool rotate, uint32_t width, float *row,
                       float *scratch, int8_t *codes)
{
    const struct ork_quantise how = {
        .size = sizeof(how), .norm = row + width, .eps = 1e-6f, .rotate = rotate};
    double best = 0;
    float scale;

    for (int round = 0; round < 2 * ROUNDS; round++) {
        const double start = now_us();
        double us;

        for (int i = 0; i < 100; i++)
            ork_fused_codes(k, &how, 127, row, width, width, scratch, codes, &scale);
        us = (now_us() - start) / 100;
        best = !round || us < best ? us : best;
    }
    return best;
}

int bench_fwht(void)
{
    const struct ork_kernels *tables[4];
    const size_t n_tables = kernel_tables(tables);
    static float row[2 * 8192], scratch[8192];
    static int8_t codes[8192];

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        row[i] = (float)((i * 7919) % 1000) / 500 - 1;
    printf("%-8s %6s %6s %18s %18s\n", "kernels", "K", "block", "quantise us/row",
           "+ rotation us/row");
    for (size_t t = 0; t < n_tables; t++)
        for (uint32_t k = 512; k <= 8192; k *= 2)
            printf("%-8s %6u %6u %18.2f %18.2f\n", tables[t]->name, k, ork_fwht_block(k),
                   fused_us(tables[t], false, k, row, scratch, codes),
                   fused_us(tables[t], true, k, row, scratch, codes));
    return 0;
}

/* One shape of one type, and memory for all of it. */
struct host_case {
    const struct ork_kernels *kernels;
    struct ork_plan plan;
    uint8_t *host;   /* B, A or C: the largest of them */
    uint8_t *weight; /* device layouts */
    uint8_t *input;
    uint8_t *output;
};

static void case_free(struct host_case *c)
{
    free(c->host);
    free(c->weight);
    free(c->input);
    free(c->output);
    ork_plan_fini(&c->plan);
}

static int case_make(struct host_case *c, enum ork_type type, uint32_t m)
{
    const struct ork_plan_options options = {.m_multiple = 1};
    struct ork_slicing slicing;

    if (ork_slicing_make(type, HOST_K, &options, &slicing, NULL) < 0 ||
        ork_plan_make(&slicing, m, HOST_N, &c->plan, NULL) < 0)
        return -1;
    c->host = calloc((size_t)HOST_N * HOST_K, 4);
    c->weight = calloc(1, c->plan.b_bytes);
    c->input = calloc(1, c->plan.a_bytes);
    c->output = calloc(1, c->plan.c_bytes[0]);
    return c->host && c->weight && c->input && c->output ? 0 : -1;
}

static void pack_weight(struct host_case *c)
{
    ork_pack_weight(c->kernels, &c->plan.slicing, HOST_N, c->weight, 0, HOST_N, c->host);
}

static void pack_input(struct host_case *c)
{
    ork_pack_rows(c->kernels, &c->plan.slicing, &c->plan.rows, c->input, c->host);
}

static void read_back(struct host_case *c)
{
    const struct ork_readback to = {.c = c->host, .stride = HOST_N};

    for (uint32_t t = 0; t < c->plan.n_tiles; t += c->plan.slicing.n_slices)
        ork_unpack_tiles(c->kernels, &c->plan, t, c->output, &to);
}

/* What a submit does before it packs: a plan made anew, every program's words. */
static void plan_and_write(struct host_case *c)
{
    const struct ork_addresses addresses = {1 << 20, 1 << 20, 1 << 20};
    const struct ork_recipe recipe = {.rdma_block = true};
    uint64_t words[ORK_PROGRAM_MAX];
    struct ork_geometry geometry;
    struct ork_plan plan;

    if (ork_plan_make(&c->plan.slicing, c->plan.rows.m, HOST_N, &plan, NULL) < 0)
        return;
    for (uint32_t t = 0; t < plan.n_tiles; t++) {
        ork_geometry_of_tile(&plan, &plan.tiles[t], &geometry);
        ork_regcmd_emit(&geometry, &addresses, &recipe, words, NULL);
    }
    ork_plan_fini(&plan);
}

static double fastest_us(struct host_case *c, void (*work)(struct host_case *c))
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const double start = now_us();
        double us;

        work(c);
        us = now_us() - start;
        best = !round || us < best ? us : best;
    }
    return best;
}

static void print_rates(struct host_case *c, enum ork_type type)
{
    const struct ork_work *w = &c->plan.work;
    const size_t width = type == ORK_F16_F32 || type == ORK_F16_F16 ? 2 : 1;
    const double weight_bytes = (double)HOST_N * HOST_K * (double)width + (double)c->plan.b_bytes;

    printf("%-8s %-5s %14.2f %14.2f %14.2f\n", c->kernels->name, tool_type_name(type, 0),
           1e-3 * weight_bytes / fastest_us(c, pack_weight),
           1e-3 * (double)w->host_pack_bytes / fastest_us(c, pack_input),
           1e-3 * (double)w->host_unpack_bytes / fastest_us(c, read_back));
}

static int bench_type(const struct ork_kernels *kernels, enum ork_type type)
{
    struct host_case c = {.kernels = kernels};
    int rc = case_make(&c, type, HOST_M);

    if (!rc)
        print_rates(&c, type);
    case_free(&c);
    return rc;
}

/* One row, as decode has it: what a cache of plans would save. */
static int bench_plan(enum ork_type type)
{
    struct host_case c = {.kernels = ork_kernels_best()};
    int rc = case_make(&c, type, 1);

    if (!rc)
        printf("%-5s %8u %12.2f\n", tool_type_name(type, 0), c.plan.n_tiles,
               fastest_us(&c, plan_and_write));
    case_free(&c);
    return rc;
}

int bench_host(void)
{
    const struct ork_kernels *tables[4];
    const size_t n_tables = kernel_tables(tables);
    int rc = 0;

    printf("M %d N %d K %d, one thread, GB/s read plus written\n", HOST_M, HOST_N, HOST_K);
    printf("%-8s %-5s %14s %14s %14s\n", "kernels", "type", "pack weight", "pack input",
           "read back");
    for (size_t t = 0; t < n_tables && !rc; t++)
        for (int type = 0; type < ORK_N_TYPES && !rc; type++)
            rc = bench_type(tables[t], (enum ork_type)type);
    printf("\nM 1 N %d K %d: planning and writing all commands\n%-5s %8s %12s\n", HOST_N, HOST_K,
           "type", "programs", "us");
    for (int type = 0; type < ORK_N_TYPES && !rc; type++)
        rc = bench_plan((enum ork_type)type);
    if (rc)
        fprintf(stderr, "ork-bench: no memory for the operands\n");
    return rc ? 1 : 0;
}
