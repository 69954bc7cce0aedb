/* Outputs back to the host: by the same strides the program was given, K slices added up on the
 * way, integers scaled to float where asked. Columns are taken in blocks whose cells of a few
 * neighbouring rows fit the first-level cache, because in a cube they share cache lines. */
#include <string.h>

#include "pack.h"
#include "regcmd.h"

#define BLOCK 256u /* columns; a multiple of every kernel group */

struct reader {
    const struct ork_kernels *k;
    const struct ork_plan *plan;
    const struct ork_type_desc *type;
    const struct ork_tile *tiles; /* n_slices of them */
    const uint8_t *output;
    struct ork_geometry geometry; /* of the output side; equal for all slices */
    const struct ork_readback *to;
    uint64_t at_bound;
};

union sums {
    int32_t i32[BLOCK];
    float f32[BLOCK];
};

/* Adds n cells, `step` apart, to sums. */
static void add_run(struct reader *r, void *sums, const uint8_t *src, size_t step, size_t n)
{
    switch (r->plan->slicing.type) {
    case ORK_I8_I32:
        r->k->add_i32(sums, src, step, n);
        break;
    case ORK_I4_I16:
        r->at_bound += r->k->add_i16(sums, src, step, n);
        break;
    case ORK_F16_F32:
        r->k->add_f32(sums, src, step, n);
        break;
    default:
        r->k->add_f16(sums, src, step, n);
        break;
    }
}

/* Cells of columns [n0, n0 + cols) of one row, cols a multiple of the kernel group unless it is
 * the tile's end. Where groups do not follow the surface stride they are taken one by one. */
static void add_slice(struct reader *r, void *sums, uint32_t slice, uint32_t row, uint32_t n0,
                      uint32_t cols)
{
    const struct ork_geometry *g = &r->geometry;
    const uint32_t group = r->type->out_atoms;
    const size_t step = (size_t)16 * g->dst_surf_stride;
    const uint32_t first = n0 / r->type->out_c2;
    const uint32_t cells = (cols + r->type->out_c2 - 1) / r->type->out_c2;
    const uint8_t *line = r->output + r->tiles[slice].c_offset +
                          (size_t)16 * row * r->plan->rows.line_mul * (1 + g->notch);

    if (g->dst_surf_add == group * g->dst_surf_stride) {
        add_run(r, sums, line + first * step, step, cells);
        return;
    }
    for (uint32_t c = 0; c < cells; c += group)
        add_run(r, (uint8_t *)sums + (size_t)c * r->type->out_c2 * 4,
                line + (size_t)16 * ((first + c) / group) * g->dst_surf_add, step,
                cells - c < group ? cells - c : group);
}

static size_t row_of_c(const struct reader *r, uint32_t row)
{
    const size_t m = r->tiles->m0 + row;

    return (r->to->rows ? r->to->rows[m] : m) * r->to->stride;
}

/* Integer sums times scales, slice by slice or all at once. */
static void read_scaled(struct reader *r, uint32_t row, uint32_t n0, uint32_t cols)
{
    const struct ork_readback *to = r->to;
    const uint32_t m = r->tiles->m0 + row, n = r->tiles->n0 + n0;
    float *out = (float *)to->c + row_of_c(r, row) + n;
    union sums sums;

    memset(&sums, 0, sizeof(sums));
    for (uint32_t s = 0; s < r->plan->slicing.n_slices; s++) {
        add_slice(r, &sums, s, row, n0, cols);
        if (to->per_slice) {
            r->k->scale(out, sums.i32, to->b_scale + (size_t)s * r->plan->n + n,
                        to->a_scale[(size_t)s * r->plan->rows.m + m], cols, s > 0);
            memset(&sums, 0, sizeof(sums));
        }
    }
    if (!to->per_slice)
        r->k->scale(out, sums.i32, to->b_scale + n, to->a_scale[m], cols, false);
}

static void read_plain(struct reader *r, uint32_t row, uint32_t n0, uint32_t cols)
{
    const uint32_t bytes = r->type->acc_bytes;
    uint8_t *out = (uint8_t *)r->to->c + (row_of_c(r, row) + r->tiles->n0 + n0) * bytes;
    union sums sums;

    memset(&sums, 0, sizeof(sums));
    for (uint32_t s = 0; s < r->plan->slicing.n_slices; s++)
        add_slice(r, &sums, s, row, n0, cols);
    if (r->plan->slicing.type == ORK_F16_F16) {
        uint16_t halves[BLOCK];

        r->k->to_f16(halves, sums.f32, cols);
        memcpy(out, halves, cols * sizeof(halves[0]));
        return;
    }
    memcpy(out, &sums, (size_t)cols * bytes);
}

uint64_t ork_unpack_tiles(const struct ork_kernels *kernels, const struct ork_plan *plan,
                          uint32_t first, const uint8_t *output, const struct ork_readback *to)
{
    struct reader r = {
        .k = kernels,
        .plan = plan,
        .type = ork_type_find(plan->slicing.type),
        .tiles = &plan->tiles[first],
        .output = output,
        .to = to,
    };
    const uint32_t cols =
        r.tiles->cols < plan->n - r.tiles->n0 ? r.tiles->cols : plan->n - r.tiles->n0;
    const uint32_t rows =
        r.tiles->rows < plan->rows.m - r.tiles->m0 ? r.tiles->rows : plan->rows.m - r.tiles->m0;

    ork_geometry_of_tile(plan, r.tiles, &r.geometry);
    for (uint32_t n0 = 0; n0 < cols; n0 += BLOCK) {
        const uint32_t some = cols - n0 < BLOCK ? cols - n0 : BLOCK;

        for (uint32_t row = 0; row < rows; row++) {
            if (to->b_scale)
                read_scaled(&r, row, n0, some);
            else
                read_plain(&r, row, n0, some);
        }
    }
    return r.at_bound;
}
