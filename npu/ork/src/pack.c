/* Operands to device layouts. Everything moves in runs: a weight run is the 32 K elements of one
 * kernel, a feature cell is 16 bytes; only where a run lies differs between layouts. */
#include "pack.h"

#include <string.h>

/* One source row cut into runs of whole K blocks; the padded last block is copied aside. */
struct run {
    const struct ork_type_desc *type;
    const uint8_t *row;
    uint32_t k;
};

#define MAX_BLOCK_BYTES 64 /* 32 host elements of the widest type */

/* The 32 host elements at k0, padded with zeros in `scratch` when they cross the row's end. */
static const uint8_t *block_at(const struct run *r, uint32_t k0, uint8_t scratch[MAX_BLOCK_BYTES])
{
    const size_t size = r->type->host_bytes;

    if (k0 + ORK_K_BLOCK <= r->k)
        return r->row + k0 * size;
    memset(scratch, 0, MAX_BLOCK_BYTES);
    if (k0 < r->k)
        memcpy(scratch, r->row + k0 * size, (r->k - k0) * size);
    return scratch;
}

/* n 16-byte cells' worth of elements starting at k0, all inside the row. */
static void put_whole(const struct ork_kernels *k, const struct run *r, uint32_t k0, uint8_t *dst,
                      size_t step, size_t n)
{
    const uint8_t *src = r->row + (size_t)k0 * r->type->host_bytes;

    if (r->type->in_bits == 4)
        k->nibbles_put(dst, step, (const int8_t *)src, n);
    else
        k->cells_put(dst, step, src, n);
}

/* Elements k0 .. k0 + depth - 1 (a multiple of 32) to strided cells. */
static void put_cells(const struct ork_kernels *k, const struct run *r, uint32_t k0, uint32_t depth,
                      uint8_t *dst, size_t step)
{
    const uint32_t c2 = r->type->feature_c2;
    const uint32_t inside = k0 + depth <= r->k ? depth : k0 < r->k ? (r->k - k0) / 32 * 32 : 0;
    uint8_t scratch[MAX_BLOCK_BYTES];

    put_whole(k, r, k0, dst, step, inside / c2);
    for (uint32_t at = inside; at < depth; at += ORK_K_BLOCK) {
        const struct run tail = {r->type, block_at(r, k0 + at, scratch), ORK_K_BLOCK};

        put_whole(k, &tail, 0, dst + at / c2 * step, step, ORK_K_BLOCK / c2);
    }
}

/* Kernel n's run of K block b lies at: group n/kernels, block b, kernel n%kernels. */
struct weight_run {
    size_t offset; /* of block 0 */
    size_t step;   /* to the next block */
};

static struct weight_run weight_run(const struct ork_slicing *s, uint32_t n_pad, uint32_t slice,
                                    uint32_t n)
{
    const struct ork_type_desc *type = ork_type_find(s->type);
    const size_t run_bytes = ORK_K_BLOCK * type->in_bits / 8;
    const uint32_t depth = ork_slicing_depth(s, slice);
    const uint64_t slice_start = (uint64_t)n_pad * slice * s->depth * type->in_bits / 8;
    const uint64_t group =
        (uint64_t)(n / type->kernels) * type->kernels * depth * type->in_bits / 8;

    return (struct weight_run){slice_start + group + n % type->kernels * run_bytes,
                               type->kernels * run_bytes};
}

static void pack_kernel(const struct ork_kernels *k, const struct ork_slicing *s, uint32_t n_pad,
                        uint8_t *weight, uint32_t n, const struct run *r)
{
    const uint32_t cells = ORK_K_BLOCK / r->type->feature_c2;

    for (uint32_t slice = 0; slice < s->n_slices; slice++) {
        const struct weight_run to = weight_run(s, n_pad, slice, n);
        const uint32_t depth = ork_slicing_depth(s, slice);
        uint8_t scratch[MAX_BLOCK_BYTES];

        for (uint32_t b = 0; b < depth / ORK_K_BLOCK; b++) {
            const uint32_t k0 = slice * s->depth + b * ORK_K_BLOCK;
            const struct run block = {r->type, block_at(r, k0, scratch), ORK_K_BLOCK};

            put_whole(k, &block, 0, weight + to.offset + b * to.step, 16, cells);
        }
    }
}

void ork_pack_weight(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                     uint32_t n, uint8_t *weight, uint32_t n0, uint32_t n_rows, const void *rows)
{
    const struct ork_type_desc *type = ork_type_find(slicing->type);
    const size_t row_bytes = (size_t)slicing->k * type->host_bytes;

    for (uint32_t i = 0; i < n_rows; i++) {
        const struct run r = {type, (const uint8_t *)rows + i * row_bytes, slicing->k};

        pack_kernel(kernels, slicing, ork_n_pad(slicing->type, n), weight, n0 + i, &r);
    }
}

/* One 32-element run back to host elements; `valid` of them. */
static void unpack_run(const struct ork_kernels *k, const struct ork_type_desc *type,
                       const uint8_t *src, uint8_t *row, uint32_t valid)
{
    uint8_t block[MAX_BLOCK_BYTES];

    if (type->in_bits == 4)
        k->nibbles_get((int8_t *)block, src, 16, 1);
    else
        memcpy(block, src, ORK_K_BLOCK * type->host_bytes);
    memcpy(row, block, (size_t)valid * type->host_bytes);
}

void ork_unpack_weight(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                       uint32_t n, const uint8_t *weight, uint32_t n0, uint32_t n_rows, void *rows)
{
    const struct ork_type_desc *type = ork_type_find(slicing->type);
    const uint32_t n_pad = ork_n_pad(slicing->type, n);

    for (uint32_t i = 0; i < n_rows; i++) {
        uint8_t *row = (uint8_t *)rows + (size_t)i * slicing->k * type->host_bytes;

        for (uint32_t k0 = 0; k0 < slicing->k; k0 += ORK_K_BLOCK) {
            const uint32_t slice = k0 / slicing->depth;
            const uint32_t block = k0 % slicing->depth / ORK_K_BLOCK;
            const struct weight_run from = weight_run(slicing, n_pad, slice, n0 + i);
            const uint32_t left = slicing->k - k0;

            unpack_run(kernels, type, weight + from.offset + block * from.step,
                       row + (size_t)k0 * type->host_bytes,
                       left < ORK_K_BLOCK ? left : ORK_K_BLOCK);
        }
    }
}

/* Where row `local` of a tile starts and how far apart its cells are. */
struct feature_run {
    size_t offset;
    size_t step;
};

static struct feature_run feature_run(const struct ork_slicing *s, const struct ork_rows *r,
                                      uint32_t m, uint32_t slice)
{
    const struct ork_type_desc *type = ork_type_find(s->type);
    const uint32_t m0 = m / r->m_tile * r->m_tile;
    const uint32_t tile = r->m_tile < r->m_pad - m0 ? r->m_tile : r->m_pad - m0;
    const uint64_t start = ork_rows_offset(s, r, slice, m0);
    const uint64_t depth_bytes = (uint64_t)ork_slicing_depth(s, slice) * type->in_bits / 8;
    const uint64_t pitch = (uint64_t)s->k_pad * type->in_bits / 8;
    const uint32_t local = m - m0;

    if (s->options.layout == ORK_LAYOUT_FLAT)
        return (struct feature_run){start + local * pitch, 16};
    if (s->options.i4_mode == ORK_I4_BCHAIN)
        return (struct feature_run){start + 2 * local * depth_bytes, 16};
    return (struct feature_run){start + 16 * (uint64_t)local * r->line_mul,
                                (size_t)16 * tile * r->line_mul};
}

void ork_pack_row(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                  const struct ork_rows *rows, uint8_t *input, uint32_t m, const void *row)
{
    const struct run r = {ork_type_find(slicing->type), row, slicing->k};

    for (uint32_t slice = 0; slice < slicing->n_slices; slice++) {
        const struct feature_run to = feature_run(slicing, rows, m, slice);

        put_cells(kernels, &r, slice * slicing->depth, ork_slicing_depth(slicing, slice),
                  input + to.offset, to.step);
    }
}

void ork_unpack_row(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                    const struct ork_rows *rows, const uint8_t *input, uint32_t m, int8_t *row)
{
    const struct ork_type_desc *type = ork_type_find(slicing->type);

    for (uint32_t slice = 0; slice < slicing->n_slices; slice++) {
        const struct feature_run from = feature_run(slicing, rows, m, slice);
        const size_t cells = ork_slicing_depth(slicing, slice) / type->feature_c2;
        int8_t *to = row + (size_t)slice * slicing->depth;

        if (type->in_bits == 4)
            kernels->nibbles_get(to, input + from.offset, from.step, cells);
        else
            kernels->cells_get((uint8_t *)to, input + from.offset, from.step, cells);
    }
}

#define PACK_BLOCK 256u /* K elements; whole blocks of 32 */

/* Row after row would write cells a power of two apart all over the first-level cache (2 KiB in a
 * cube of 128 rows); so every row gives one block of K before any gives the next. */
static void pack_slice(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                       const struct ork_rows *rows, uint8_t *input, const uint8_t *all,
                       uint32_t slice)
{
    const struct ork_type_desc *type = ork_type_find(slicing->type);
    const size_t row_bytes = (size_t)slicing->k * type->host_bytes;
    const uint32_t depth = ork_slicing_depth(slicing, slice);

    for (uint32_t k0 = 0; k0 < depth; k0 += PACK_BLOCK) {
        const uint32_t some = depth - k0 < PACK_BLOCK ? depth - k0 : PACK_BLOCK;

        for (uint32_t m = 0; m < rows->m; m++) {
            const struct run r = {type, all + m * row_bytes, slicing->k};
            const struct feature_run to = feature_run(slicing, rows, m, slice);

            put_cells(kernels, &r, slice * slicing->depth + k0, some,
                      input + to.offset + k0 / type->feature_c2 * to.step, to.step);
        }
    }
}

void ork_pack_rows(const struct ork_kernels *kernels, const struct ork_slicing *slicing,
                   const struct ork_rows *rows, uint8_t *input, const void *all)
{
    for (uint32_t slice = 0; slice < slicing->n_slices; slice++)
        pack_slice(kernels, slicing, rows, input, all, slice);
}
