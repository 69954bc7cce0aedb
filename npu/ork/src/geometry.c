/* Tile -> strides. Cube programs walk NC1HWC2 with W = 1, H = lines; flat ones walk rows; the
 * three old int4 recipes are the same registers with other numbers. */
#include "regcmd.h"

static void cube_features(struct ork_geometry *g)
{
    g->line_stride = 4;
    g->surf_stride = (int32_t)g->lines - 4;
}

/* Outputs row-major, so many cells from one programmed line to the next. */
static void flat_outputs(struct ork_geometry *g, uint32_t line_cells)
{
    g->dst_surf_stride = 1;
    g->dst_surf_add = ork_type_find(g->type)->out_atoms;
    g->notch = line_cells - 1;
}

static void cube_outputs(struct ork_geometry *g)
{
    g->dst_surf_stride = g->lines;
    g->dst_surf_add = g->lines * ork_type_find(g->type)->out_atoms;
    g->notch = 0;
}

/* Single row: cell c of the row is cell c of memory on both sides. */
static void i4_single_row(struct ork_geometry *g)
{
    g->line_stride = 4;
    g->surf_stride = -3;
    flat_outputs(g, 1);
    g->wdma_height = false;
}

/* With WDMA_SIZE_1 = 0 several rows come out in the order they are computed: each 64 columns are a
 * block of consecutive 128-byte lines. The strides say the same, so that both readings of the
 * recipe agree [inferred from the two read-back formulas in use]. */
static void i4_block_outputs(struct ork_geometry *g)
{
    flat_outputs(g, ork_type_find(g->type)->out_atoms);
    g->dst_surf_add = g->lines * ork_type_find(g->type)->out_atoms;
    g->wdma_height = false;
}

/* Row m is cube line 2m and comes out as line 2m of every block. LINE_STRIDE is K/16 at K = 64,
 * the only depth anybody captured this at. */
static void i4_stride2(struct ork_geometry *g)
{
    cube_features(g);
    i4_block_outputs(g);
}

/* Group g of four lines starts K bytes on, which is two row slots: line 4j is row slot 2j. */
static void i4_bchain(struct ork_geometry *g)
{
    g->line_stride = (int32_t)(g->depth / 16);
    g->surf_stride = -3;
    i4_block_outputs(g);
}

void ork_geometry_of_tile(const struct ork_plan *plan, const struct ork_tile *tile,
                          struct ork_geometry *out)
{
    const struct ork_type_desc *type = ork_type_find(plan->slicing.type);
    struct ork_geometry g = {
        .type = plan->slicing.type,
        .lines = tile->lines,
        .depth = tile->depth,
        .cols = tile->cols,
        .data_banks = tile->data_banks,
        .weight_banks = tile->weight_banks,
        .wdma_height = true,
        .qd_en = type->qd_en,
        .od_bypass = type->od_bypass,
    };

    if (plan->slicing.options.layout == ORK_LAYOUT_FLAT) {
        g.flat = true;
        g.line_stride = (int32_t)(plan->slicing.k_pad / type->feature_c2);
        flat_outputs(&g, tile->cols / type->out_c2);
    } else if (plan->slicing.options.i4_mode == ORK_I4_ROWS) {
        i4_single_row(&g);
    } else if (plan->slicing.options.i4_mode == ORK_I4_STRIDE2) {
        i4_stride2(&g);
    } else if (plan->slicing.options.i4_mode == ORK_I4_BCHAIN) {
        i4_bchain(&g);
    } else {
        cube_features(&g);
        cube_outputs(&g);
    }
    *out = g;
}

void ork_geometry_template(enum ork_type type, uint32_t m, uint32_t k, uint32_t n,
                           struct ork_geometry *out)
{
    const struct ork_type_desc *desc = ork_type_find(type);
    struct ork_geometry g = {
        .type = type,
        .flat = type != ORK_I4_I16,
        .lines = m,
        .depth = k,
        .cols = n,
        .data_banks = 1,
        .weight_banks = ORK_CBUF_BANKS - 1,
        .wdma_height = true,
        .qd_en = true,
        .od_bypass = type != ORK_I8_I32,
    };

    if (type == ORK_I4_I16) {
        i4_single_row(&g);
    } else {
        g.line_stride = (int32_t)(k / desc->feature_c2);
        flat_outputs(&g, n / desc->out_c2);
    }
    *out = g;
}
