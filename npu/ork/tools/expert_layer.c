/* Batches are built as npu/ork/src/batch.c builds them: many matmuls run whole, each on the core
 * that has least to do; few are cut by columns over the cores. */
#include "expert_layer.h"

#include <string.h>

#define CORES 3

/* Shapes from the models' own configuration; bits: Q4_K_M, MXFP4, Q4_0 and its like. */
static const struct expert_layer layers[] = {
    {"Qwen3.6-35B-A3B", 40, 256, 8, 3, {{512, 2048}, {512, 2048}, {2048, 512}}, 4.85},
    {"gpt-oss-20b", 24, 32, 4, 3, {{2880, 2880}, {2880, 2880}, {2880, 2880}}, 4.25},
    {"Gemma 4 26B-A4B", 30, 128, 8, 2, {{1408, 2816}, {2816, 704}, {0, 0}}, 4.5},
};

const struct expert_layer *expert_layers(size_t *n)
{
    *n = sizeof(layers) / sizeof(layers[0]);
    return layers;
}

void expert_route(const struct expert_layer *layer, uint32_t tokens, uint32_t rows[EXPERT_MOST])
{
    uint32_t state = 1;

    memset(rows, 0, EXPERT_MOST * sizeof(*rows));
    for (uint32_t t = 0; t < tokens; t++) {
        bool taken[EXPERT_MOST] = {false};

        for (uint32_t s = 0; s < layer->n_used;) {
            uint32_t e;

            state = state * 1664525u + 1013904223u;
            e = (state >> 8) % layer->n_experts;
            if (taken[e])
                continue;
            taken[e] = true;
            rows[e]++;
            s++;
        }
    }
}

static bool is_in(uint32_t rows, uint32_t low, uint32_t high)
{
    return rows && rows >= low && rows <= high;
}

static uint32_t count_active(const struct expert_layer *layer, const uint32_t *rows, uint32_t low,
                             uint32_t high)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < layer->n_experts; e++)
        n += is_in(rows[e], low, high);
    return n;
}

struct batch {
    struct ork_work work;
    uint64_t macs[CORES];
    uint32_t programs[CORES];
    uint64_t wanted;
};

static void add_plan(struct batch *b, const struct ork_plan *p, bool whole)
{
    const struct ork_work *w = &p->work;
    uint32_t base = 0;

    for (uint32_t c = 1; whole && c < CORES; c++)
        base = b->macs[c] < b->macs[base] ? c : base;
    for (uint32_t t = 0; t < p->n_tiles; t++) {
        const struct ork_tile *tile = &p->tiles[t];

        b->macs[base + tile->core] += (uint64_t)tile->lines * tile->cols * tile->depth;
        b->programs[base + tile->core]++;
    }
    b->work.type = w->type;
    b->work.n_programs += w->n_programs;
    b->work.macs += w->macs;
    b->work.feature_bytes += w->feature_bytes;
    b->work.weight_bytes += w->weight_bytes;
    b->work.output_bytes += w->output_bytes;
    b->work.cbuf_fills += w->cbuf_fills;
    b->work.host_pack_bytes += w->host_pack_bytes;
    b->work.host_unpack_bytes += w->host_unpack_bytes;
    b->wanted += p->macs_wanted;
}

static int plan_batch(const struct expert_layer *layer, const struct expert_use *use, uint32_t i,
                      const uint32_t *rows, uint32_t low, uint32_t high, struct batch *b)
{
    const bool whole = count_active(layer, rows, low, high) >= 2 * CORES;
    const struct ork_plan_options options = {.k_slice = use->group,
                                             .n_cores = whole ? 1 : CORES,
                                             .m_multiple = use->m_multiple,
                                             .i4_absmax = 7,
                                             .i4_mode = use->i4_mode};
    struct ork_slicing slicing;
    int rc = ork_slicing_make(use->type, layer->matrices[i].k, &options, &slicing, NULL);

    for (uint32_t e = 0; rc >= 0 && e < layer->n_experts; e++) {
        struct ork_plan plan;

        if (!is_in(rows[e], low, high))
            continue;
        rc = ork_plan_make(&slicing, rows[e], layer->matrices[i].n, &plan, NULL);
        if (rc < 0)
            break;
        add_plan(b, &plan, whole);
        ork_plan_fini(&plan);
    }
    return rc;
}

/* Jobs are cut where the vendor kernel's task count ends. */
static void finish_batch(struct batch *b)
{
    const uint32_t most = 4095;

    for (uint32_t c = 0; c < CORES; c++) {
        b->work.n_cores += b->programs[c] > 0;
        b->work.n_jobs += (b->programs[c] + most - 1) / most;
        if (b->programs[c] > b->work.n_programs_core)
            b->work.n_programs_core = b->programs[c];
        if (b->macs[c] > b->work.macs_core)
            b->work.macs_core = b->macs[c];
    }
    b->work.chained = true;
}

int expert_cost_npu(const struct expert_layer *layer, const struct expert_use *use,
                    const uint32_t rows[EXPERT_MOST], uint32_t low, uint32_t high,
                    struct expert_cost *out)
{
    double wanted = 0, macs = 0;

    *out = (struct expert_cost){.active = count_active(layer, rows, low, high)};
    for (uint32_t i = 0; out->active && i < layer->n_matrices; i++) {
        struct batch b = {.wanted = 0};
        struct ork_time time;
        int rc = plan_batch(layer, use, i, rows, low, high, &b);

        if (rc < 0)
            return rc;
        finish_batch(&b);
        ork_timemodel_predict(ORK_KERNEL_VENDOR, &b.work, &time);
        out->submits++;
        out->programs += b.work.n_programs;
        out->device_us += time.total_us - time.submit_us - time.host_us;
        out->submit_us += time.submit_us;
        out->host_us += time.host_us;
        out->weight_bytes += (double)b.work.weight_bytes;
        wanted += (double)b.wanted;
        macs += (double)b.work.macs;
    }
    out->waste = macs > 0 ? 1 - wanted / macs : 0;
    return 0;
}

static double weights_of(const struct expert_layer *layer)
{
    double n = 0;

    for (uint32_t i = 0; i < layer->n_matrices; i++)
        n += (double)layer->matrices[i].n * layer->matrices[i].k;
    return n;
}

/* 9.4 GB/s [ork: what decoding reaches]; 171 multiply-adds per ns, under which the published break
 * even of 32 rows at 365 us comes out (docs/ork.md). */
double expert_cost_cpu_us(const struct expert_layer *layer, const uint32_t rows[EXPERT_MOST],
                          uint32_t low, uint32_t high)
{
    const double weights = weights_of(layer);
    double us = 0;

    for (uint32_t e = 0; e < layer->n_experts; e++) {
        const double stream = weights * layer->file_bits / 8 / 9400;
        const double macs = weights * rows[e] / 171e3;

        if (is_in(rows[e], low, high))
            us += stream > macs ? stream : macs;
    }
    return us;
}

double expert_resident_bytes(const struct expert_layer *layer, enum ork_type type)
{
    return weights_of(layer) * layer->n_experts * layer->layers * (type == ORK_I4_I16 ? 0.5 : 1.0);
}

/* K log2(block) additions at 4.6 per ns, four lanes every second clock of an A76 [assumed]. */
double expert_cost_rotation_us(const struct expert_layer *layer, uint32_t tokens, bool shared)
{
    double us = 0;

    for (uint32_t i = 0; i < layer->n_matrices; i++) {
        const uint32_t k = layer->matrices[i].k;
        const uint32_t block = k & (~k + 1);
        const bool own = i == layer->n_matrices - 1; /* down: rows of every used expert */
        const double rows = (double)tokens * (own ? layer->n_used : 1);
        uint32_t stages = 0;

        if (shared && i && !own)
            continue;
        while (block >> stages > 1)
            stages++;
        us += rows * k * stages / 4600;
    }
    return us;
}
