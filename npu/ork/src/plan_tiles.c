/* The second half of a plan: programs in order, their offsets and banks, and what they cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ork_error.h"
#include "ork_plan.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* BCHAIN's own N tile: 128 KiB of weight nibbles, whole groups of 64 [ork production]. */
static uint32_t widest_tile(const struct ork_slicing *s)
{
    const uint32_t kernels = ork_type_find(s->type)->kernels;
    uint32_t cols = s->options.n_tile ? min_u32(s->options.n_tile, ORK_MAX_N) : ORK_MAX_N;

    if (s->options.i4_mode == ORK_I4_BCHAIN)
        cols = min_u32(cols, 131072 / s->depth);
    cols = cols / kernels * kernels;
    return cols ? cols : kernels;
}

/* Columns [core_n0(c), core_n0(c + 1)) belong to core c: whole groups, as even as they go. */
static uint32_t core_n0(const struct ork_plan *p, uint32_t core)
{
    const uint32_t kernels = ork_type_find(p->slicing.type)->kernels;
    const uint64_t groups = p->n_pad / kernels;

    return (uint32_t)(groups * core / p->n_cores) * kernels;
}

static uint32_t count_tiles(const struct ork_plan *p)
{
    const uint32_t widest = widest_tile(&p->slicing);
    uint64_t n_tiles = 0;

    for (uint32_t c = 0; c < p->n_cores; c++)
        n_tiles += (core_n0(p, c + 1) - core_n0(p, c) + widest - 1) / widest;
    n_tiles *= p->slicing.n_slices;
    n_tiles *= p->rows.n_tiles;
    return n_tiles > ORK_MAX_TILES ? 0 : (uint32_t)n_tiles;
}

static void account(struct ork_plan *p, const struct ork_tile *t, struct ork_work *core)
{
    const struct ork_type_desc *type = ork_type_find(p->slicing.type);
    const uint64_t row = (uint64_t)t->depth * type->in_bits / 8;
    const uint64_t weight = t->cols * row;
    const uint64_t banks = (uint64_t)t->weight_banks * ORK_BANK_BYTES;
    const uint64_t macs = (uint64_t)t->lines * t->cols * t->depth;
    struct ork_work *w = &p->work;

    w->n_programs++;
    w->macs += macs;
    w->feature_bytes += t->lines * row;
    w->weight_bytes += weight;
    w->output_bytes += (uint64_t)t->lines * t->cols * type->out_bytes;
    w->cbuf_fills += (weight + banks - 1) / banks;
    core->n_programs++;
    core->macs += macs;
}

static struct ork_tile tile_at(struct ork_plan *p, uint32_t core, uint32_t n0, uint32_t cols,
                               uint32_t m0, uint32_t slice)
{
    const struct ork_slicing *s = &p->slicing;
    const struct ork_type_desc *type = ork_type_find(s->type);
    struct ork_tile t = {.core = core, .slice = slice, .m0 = m0, .n0 = n0, .cols = cols};

    t.rows = min_u32(p->rows.m_tile, p->rows.m_pad - m0);
    t.lines = t.rows * p->rows.line_mul;
    t.depth = ork_slicing_depth(s, slice);
    t.data_banks = ork_data_banks(type, t.lines, t.depth);
    t.weight_banks = ORK_CBUF_BANKS - t.data_banks;
    t.a_offset = ork_rows_offset(s, &p->rows, slice, m0);
    t.b_offset =
        ((uint64_t)p->n_pad * slice * s->depth + (uint64_t)n0 * t.depth) * type->in_bits / 8;
    t.c_offset = p->c_bytes[core];
    p->c_bytes[core] += ((uint64_t)t.lines * cols * type->out_bytes + ORK_TILE_ALIGN - 1) /
                        ORK_TILE_ALIGN * ORK_TILE_ALIGN;
    return t;
}

static void fill_core(struct ork_plan *p, uint32_t core, struct ork_work *work)
{
    const uint32_t widest = widest_tile(&p->slicing);
    const uint32_t end = core_n0(p, core + 1);

    for (uint32_t n0 = core_n0(p, core); n0 < end; n0 += widest) {
        for (uint32_t m0 = 0; m0 < p->rows.m_pad; m0 += p->rows.m_tile) {
            for (uint32_t s = 0; s < p->slicing.n_slices; s++) {
                struct ork_tile *t = &p->tiles[p->n_tiles++];

                *t = tile_at(p, core, n0, min_u32(widest, end - n0), m0, s);
                account(p, t, work);
            }
        }
    }
}

static void fill(struct ork_plan *p)
{
    const struct ork_type_desc *type = ork_type_find(p->slicing.type);
    const uint64_t host_in = (uint64_t)p->rows.m * p->slicing.k * type->host_bytes;
    const uint64_t host_out = (uint64_t)p->rows.m * p->n * type->acc_bytes;

    for (uint32_t c = 0; c < p->n_cores; c++) {
        struct ork_work core = {0};

        p->core_first[c] = p->n_tiles;
        fill_core(p, c, &core);
        if (core.macs > p->work.macs_core)
            p->work.macs_core = core.macs;
        if (core.n_programs > p->work.n_programs_core)
            p->work.n_programs_core = core.n_programs;
    }
    for (uint32_t c = p->n_cores; c <= ORK_MAX_CORES; c++)
        p->core_first[c] = p->n_tiles;
    p->work.type = p->slicing.type;
    p->work.n_cores = p->n_cores;
    p->work.n_jobs = p->n_cores;
    p->work.host_pack_bytes = host_in + p->a_bytes;
    p->work.host_unpack_bytes = p->work.output_bytes / p->rows.line_mul + host_out;
}

int ork_plan_make(const struct ork_slicing *slicing, uint32_t m, uint32_t n, struct ork_plan *out,
                  struct ork_error *error)
{
    struct ork_plan p = {.slicing = *slicing, .n = n};
    const struct ork_type_desc *type = ork_type_find(slicing->type);
    uint32_t n_tiles;
    int rc;

    if (!n || n > ORK_MAX_DIM_N)
        return ork_fail(error, -EINVAL, "N = %u is not within 1..%u.", n, ORK_MAX_DIM_N);
    rc = ork_rows_make(slicing, m, &p.rows, error);
    if (rc < 0)
        return rc;
    p.n_pad = ork_n_pad(slicing->type, n);
    p.n_cores = min_u32(slicing->options.n_cores, p.n_pad / type->kernels);
    p.a_bytes = p.rows.bytes;
    p.b_bytes = ork_slicing_weight_bytes(slicing, n);
    p.macs_wanted = (uint64_t)m * n * slicing->k;
    n_tiles = count_tiles(&p);
    if (!n_tiles)
        return ork_fail(error, -EOPNOTSUPP, "M %u x N %u x K %u takes more than %u programs.", m, n,
                        slicing->k, ORK_MAX_TILES);
    p.tiles = calloc(n_tiles, sizeof(*p.tiles));
    if (!p.tiles)
        return ork_fail(error, -ENOMEM, "No memory for a plan of %u programs.", n_tiles);
    fill(&p);
    *out = p;
    return 0;
}

void ork_plan_fini(struct ork_plan *plan)
{
    free(plan->tiles);
    memset(plan, 0, sizeof(*plan));
}
