/* Slicing of K, tiling of M by what CBUF holds, N over cores. The rules and their evidence are
 * next to the functions that apply them; docs/npu.md has them in one place. */
#include "ork_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ork_error.h"

static uint32_t round_up(uint32_t value, uint32_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t row_bytes(const struct ork_type_desc *type, uint32_t depth)
{
    return (uint64_t)depth * type->in_bits / 8;
}

/* int4 sums are stored as saturating int16: the depth at which no sum can reach the bound, both
 * sides at their largest [three independent statements; no silicon trace]. */
static uint32_t i4_exact_depth(uint32_t absmax)
{
    return INT16_MAX / (absmax * absmax) / ORK_K_BLOCK * ORK_K_BLOCK;
}

/* Deeper slices fetch features and write partial sums less often but leave fewer rows per pass
 * over the weights: with 2048 an int8 program holds 144 rows, an fp16 program 80. */
static uint32_t default_depth(const struct ork_slicing *s)
{
    const uint32_t absmax = s->options.i4_absmax;

    if (s->type == ORK_I4_I16 && !s->options.i4_may_saturate)
        return i4_exact_depth(absmax);
    return 2048;
}

static int check_options(const struct ork_plan_options *o, enum ork_type type,
                         struct ork_error *error)
{
    if (o->i4_absmax < 1 || o->i4_absmax > 8)
        return ork_fail(error, -EINVAL, "An int4 code bound of %u is not within 1..8.",
                        o->i4_absmax);
    if (o->n_cores < 1 || o->n_cores > ORK_MAX_CORES)
        return ork_fail(error, -EINVAL, "%u cores: the RK3588 has 1 to 3.", o->n_cores);
    if (o->m_multiple != 1 && o->m_multiple != 4)
        return ork_fail(error, -EINVAL, "Rows are padded to 1 or 4, not %u.", o->m_multiple);
    if (o->layout == ORK_LAYOUT_FLAT && type == ORK_I4_I16)
        return ork_fail(error, -EOPNOTSUPP,
                        "int4 has no proven flat layout; use the cube or single rows.");
    if ((unsigned)o->i4_mode > ORK_I4_ROWS)
        return ork_fail(error, -EINVAL, "There is no int4 mode %d.", (int)o->i4_mode);
    if (type != ORK_I4_I16 && o->i4_mode != ORK_I4_DENSE)
        return ork_fail(error, -EINVAL, "An int4 mode was asked for a type that is not int4.");
    return 0;
}

/* BCHAIN keeps 4H lines in one data bank; the cap measured per K, 12288/K where nobody measured
 * [ork production table]. */
static uint32_t bchain_rows(uint32_t depth)
{
    static const struct {
        uint16_t depth, rows;
    } measured[] = {{256, 64}, {512, 32}, {768, 22}, {1024, 16}, {1536, 11}, {2048, 8}, {2560, 4},
                    {3072, 4}, {3584, 4}, {4096, 4}, {5120, 3},  {6144, 3},  {8192, 2}};

    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++)
        if (measured[i].depth == depth)
            return measured[i].rows;
    return 12288 / depth ? 12288 / depth : 1;
}

static uint32_t lines_per_row(const struct ork_plan_options *o)
{
    return o->i4_mode == ORK_I4_STRIDE2 ? 2 : o->i4_mode == ORK_I4_BCHAIN ? 4 : 1;
}

/* Weight banks needed: the group of kernels that is worked on together has to be resident while
 * the others stream. kernels * 32 * bits is the same for all types, so this is depth/1024 banks.
 * [inferred: every captured (rows, K) satisfies it, and it gives the vendor's K limit of 10240
 * for int8 with its slack bank] */
static uint32_t weight_banks_needed(const struct ork_type_desc *type, uint32_t depth, bool loose)
{
    const uint64_t group = type->kernels * row_bytes(type, depth);
    const uint32_t banks = (uint32_t)((group + ORK_BANK_BYTES - 1) / ORK_BANK_BYTES);

    return loose || banks < type->min_weight_banks ? type->min_weight_banks : banks;
}

/* A line takes whole 64-byte halves of a CBUF entry [CBUF_CON1 counts them]. */
static uint64_t line_bytes(const struct ork_type_desc *type, uint32_t depth)
{
    return (row_bytes(type, depth) + 63) / 64 * 64;
}

uint32_t ork_data_banks(const struct ork_type_desc *type, uint32_t lines, uint32_t depth)
{
    const uint64_t bytes = lines * line_bytes(type, depth);

    return (uint32_t)((bytes + ORK_BANK_BYTES - 1) / ORK_BANK_BYTES) + type->slack_banks;
}

/* Most lines one program may have; 0 when the slice is too deep for any. */
static uint32_t max_lines(const struct ork_slicing *s)
{
    const struct ork_type_desc *type = ork_type_find(s->type);
    const uint32_t weight = weight_banks_needed(type, s->depth, s->options.loose_banks);
    const uint32_t taken = weight + type->slack_banks;

    if (taken >= ORK_CBUF_BANKS)
        return 0;
    return (uint32_t)min_u32((uint32_t)((uint64_t)(ORK_CBUF_BANKS - taken) * ORK_BANK_BYTES /
                                        line_bytes(type, s->depth)),
                             ORK_MAX_ROWS);
}

/* Rows per program by the mode, before the caller's own limit; 0 = none fit. */
static uint32_t max_rows(const struct ork_slicing *s)
{
    const struct ork_plan_options *o = &s->options;
    const uint32_t rows = max_lines(s) / lines_per_row(o);

    if (o->i4_mode == ORK_I4_ROWS)
        return rows ? 1 : 0;
    if (o->i4_mode == ORK_I4_BCHAIN)
        return min_u32(rows, bchain_rows(s->depth));
    return rows / o->m_multiple * o->m_multiple;
}

static int check_depth(const struct ork_slicing *s, struct ork_error *error)
{
    const uint32_t exact = i4_exact_depth(s->options.i4_absmax);

    if (s->depth > ORK_MAX_DEPTH)
        return ork_fail(error, -EOPNOTSUPP, "A K slice of %u is deeper than %u.", s->depth,
                        ORK_MAX_DEPTH);
    if (s->type == ORK_I4_I16 && !s->options.i4_may_saturate && s->depth > exact)
        return ork_fail(error, -EOPNOTSUPP,
                        "An int4 K slice of %u can saturate its int16 sums; at most %u with codes "
                        "up to %u.",
                        s->depth, exact, s->options.i4_absmax);
    if (!max_rows(s))
        return ork_fail(error, -EOPNOTSUPP,
                        "A K slice of %u leaves no CBUF banks for %u rows; take smaller slices.",
                        s->depth, s->options.m_multiple);
    return 0;
}

int ork_slicing_make(enum ork_type type, uint32_t k, const struct ork_plan_options *options,
                     struct ork_slicing *out, struct ork_error *error)
{
    struct ork_slicing s = {.type = type, .k = k};
    uint32_t deepest;
    int rc;

    if (!ork_type_find(type))
        return ork_fail(error, -EINVAL, "There is no matmul type %d.", (int)type);
    if (!k || k > ORK_MAX_DIM_MK)
        return ork_fail(error, -EINVAL, "K = %u is not within 1..%u.", k, ORK_MAX_DIM_MK);
    if (options)
        s.options = *options;
    s.options.i4_absmax = s.options.i4_absmax ? s.options.i4_absmax : 8;
    s.options.n_cores = s.options.n_cores ? s.options.n_cores : 1;
    s.options.m_multiple = s.options.m_multiple ? s.options.m_multiple : 4;
    rc = check_options(&s.options, type, error);
    if (rc < 0)
        return rc;
    s.k_pad = round_up(k, ORK_K_BLOCK);
    deepest = s.options.k_slice ? s.options.k_slice / ORK_K_BLOCK * ORK_K_BLOCK : default_depth(&s);
    if (!deepest)
        return ork_fail(error, -EINVAL, "A K slice of %u is below the block of 32.",
                        s.options.k_slice);
    deepest = min_u32(deepest, s.k_pad);
    s.n_slices = (s.k_pad + deepest - 1) / deepest;
    s.depth = round_up((s.k_pad + s.n_slices - 1) / s.n_slices, ORK_K_BLOCK);
    s.n_slices = (s.k_pad + s.depth - 1) / s.depth;
    rc = check_depth(&s, error);
    if (rc < 0)
        return rc;
    *out = s;
    return 0;
}

uint32_t ork_slicing_depth(const struct ork_slicing *slicing, uint32_t s)
{
    return min_u32(slicing->depth, slicing->k_pad - s * slicing->depth);
}

uint32_t ork_n_pad(enum ork_type type, uint32_t n)
{
    return round_up(n, ork_type_find(type)->kernels);
}

uint64_t ork_slicing_weight_bytes(const struct ork_slicing *slicing, uint32_t n)
{
    return ork_n_pad(slicing->type, n) * row_bytes(ork_type_find(slicing->type), slicing->k_pad);
}

int ork_rows_make(const struct ork_slicing *s, uint32_t m, struct ork_rows *out,
                  struct ork_error *error)
{
    struct ork_rows r = {.m = m, .line_mul = lines_per_row(&s->options)};
    const struct ork_plan_options *o = &s->options;
    const bool padded = o->i4_mode == ORK_I4_DENSE || o->i4_mode == ORK_I4_STRIDE2;
    const uint32_t multiple = padded ? o->m_multiple : 1;

    if (!m || m > ORK_MAX_DIM_MK)
        return ork_fail(error, -EINVAL, "M = %u is not within 1..%u.", m, ORK_MAX_DIM_MK);
    r.m_pad = round_up(m, multiple);
    r.m_tile = max_rows(s);
    if (o->m_tile)
        r.m_tile = min_u32(r.m_tile, round_up(o->m_tile, multiple));
    r.m_tile = min_u32(r.m_tile, r.m_pad);
    r.n_tiles = (r.m_pad + r.m_tile - 1) / r.m_tile;
    r.bytes = ork_rows_offset(s, &r, s->n_slices, 0);
    *out = r;
    return 0;
}

/* BCHAIN has two row slots per row, and the junk lines of a tile's last group read up to 48
 * bytes past it; the other modes one slot per line. */
uint64_t ork_rows_offset(const struct ork_slicing *s, const struct ork_rows *r, uint32_t slice,
                         uint32_t m0)
{
    const struct ork_type_desc *type = ork_type_find(s->type);
    const uint32_t k0 = min_u32(slice * s->depth, s->k_pad);
    const uint32_t depth = slice < s->n_slices ? ork_slicing_depth(s, slice) : 0;
    const uint64_t pad = s->options.i4_mode == ORK_I4_BCHAIN ? ORK_TILE_ALIGN : 0;
    const uint64_t slots = s->options.i4_mode == ORK_I4_BCHAIN ? 2 : r->line_mul;

    if (s->options.layout == ORK_LAYOUT_FLAT && slice < s->n_slices)
        return m0 * row_bytes(type, s->k_pad) + row_bytes(type, k0);
    return slots * (r->m_pad * row_bytes(type, k0) + m0 * row_bytes(type, depth)) +
           pad * ((uint64_t)slice * r->n_tiles + m0 / r->m_tile);
}
