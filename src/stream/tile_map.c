/*
 * Learning: with input bit i carrying bit k of the number i in the k-th question, the answers spell
 * for each output bit the number of the input bit it is. Constants that are mixed in show when all
 * input is zero. That the numbers make a permutation, the same in every tile, is checked; then the
 * bits are gathered into moves of whole bytes, the widest that fit, and what is left stays single
 * bits.
 */
#include "stream/tile_map.h"

#include <stdlib.h>
#include <string.h>

enum { PROBE_ROWS = 16, PROBE_BLOCKS = 2, CHECK_ROWS = 24, MAX_GROUP = 8, MAX_BLOCK_BYTES = 1024 };

static const unsigned widths[TILE_WIDTHS] = {8, 4, 2, 1};

/* ---- asking ---- */

static bool bit_of(const uint8_t *bytes, uint32_t i)
{
    return bytes[i / 8] >> (i % 8) & 1;
}

/* Fills source[o] with the input bit that output bit o is, and flips with the bits that are turned
 * over. False unless each input bit is one output bit. */
static bool ask(tile_repack_fn *repack, void *ctx, uint32_t bytes, uint8_t *in, uint8_t *out,
                uint32_t *source, uint8_t *flips)
{
    uint32_t n = bytes * 8;
    memset(in, 0, bytes);
    repack(ctx, flips, in, PROBE_ROWS, PROBE_BLOCKS);
    memset(source, 0, n * sizeof *source);
    for (unsigned k = 0; (n - 1) >> k; k++) {
        memset(in, 0, bytes);
        for (uint32_t i = 0; i < n; i++)
            in[i / 8] |= (uint8_t)((i >> k & 1) << (i % 8));
        repack(ctx, out, in, PROBE_ROWS, PROBE_BLOCKS);
        for (uint32_t o = 0; o < n; o++)
            source[o] |= (uint32_t)(bit_of(out, o) ^ bit_of(flips, o)) << k;
    }
    memset(in, 0, bytes);
    for (uint32_t o = 0; o < n; o++) {
        if (source[o] >= n || bit_of(in, source[o]))
            return false;
        in[source[o] / 8] |= (uint8_t)(1 << source[o] % 8);
    }
    return true;
}

/* Where an input bit of the probe lies in its tile of `group` rows. */
struct place {
    uint32_t tile, row, at; /* at: bit of the row's block */
};

static struct place place_of(uint32_t bit, uint32_t group, uint32_t block_bits)
{
    uint32_t row = bit / (block_bits * PROBE_BLOCKS), in_row = bit % (block_bits * PROBE_BLOCKS);
    return (struct place){row / group * PROBE_BLOCKS + in_row / block_bits, row % group,
                          in_row % block_bits};
}

/* Whether every tile of `group` rows is made of its own rows' blocks, and all in the same way. */
static bool tiles_alike(const uint32_t *source, const uint8_t *flips, uint32_t group,
                        uint32_t block_bits)
{
    uint32_t tile_bits = group * block_bits, n = PROBE_ROWS * PROBE_BLOCKS * block_bits;
    for (uint32_t o = 0; o < n; o++) {
        struct place p = place_of(source[o], group, block_bits);
        struct place q = place_of(source[o % tile_bits], group, block_bits);
        if (p.tile != o / tile_bits || p.row != q.row || p.at != q.at ||
            bit_of(flips, o) != bit_of(flips, o % tile_bits))
            return false;
    }
    return true;
}

/* ---- gathering ---- */

/* Whether `width` bytes of the tile from `out` on are as many whole bytes that follow each other.
 */
static bool is_run(const uint32_t *source, uint32_t out, unsigned width)
{
    uint32_t from = source[out * 8];
    if (from % 8)
        return false;
    for (uint32_t i = 1; i < width * 8; i++)
        if (source[out * 8 + i] != from + i)
            return false;
    return true;
}

static uint32_t offset_of(const struct tile_map *m, struct place p)
{
    return p.row * m->blocks * m->block_bytes + p.at / 8;
}

/* The bits of a byte, a part for each byte they come from and distance they go. */
static void add_bits(struct tile_map *m, const uint32_t *source, const uint8_t *flips, uint32_t out)
{
    struct tile_bits *b = NULL;
    unsigned done = 0, parts = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (done >> i & 1)
            continue;
        if (parts % 2 == 0) {
            b = &m->bits[m->n_bits++];
            *b = (struct tile_bits){.out = out, .flip = parts ? 0 : flips[out], .more = parts != 0};
        }
        struct place p = place_of(source[out * 8 + i], m->group_rows, m->block_bytes * 8);
        int left = (int)i - (int)(p.at % 8);
        b->from[parts % 2] = offset_of(m, p);
        b->left[parts % 2] = (uint8_t)(left + 8);
        for (unsigned k = i; k < 8; k++) {
            struct place q = place_of(source[out * 8 + k], m->group_rows, m->block_bytes * 8);
            if (q.row != p.row || q.at / 8 != p.at / 8 || (int)k - (int)(q.at % 8) != left)
                continue;
            b->mask[parts % 2] |= (uint8_t)(1 << q.at % 8);
            done |= 1u << k;
        }
        parts++;
    }
}

static void gather(struct tile_map *m, const uint32_t *source, const uint8_t *flips)
{
    uint32_t bytes = m->group_rows * m->block_bytes;
    for (uint32_t out = 0; out < bytes;) {
        unsigned w = 0;
        while (w < TILE_WIDTHS && (out + widths[w] > bytes || !is_run(source, out, widths[w])))
            w++;
        if (w == TILE_WIDTHS) {
            add_bits(m, source, flips, out++);
            continue;
        }
        struct place p = place_of(source[out * 8], m->group_rows, m->block_bytes * 8);
        struct tile_move *v = &m->moves[w][m->n_moves[w]++];
        *v = (struct tile_move){.out = out, .from = offset_of(m, p)};
        memcpy(&v->flip, flips + out, widths[w]);
        out += widths[w];
    }
}

static bool reserve(struct tile_map *m)
{
    size_t bytes = (size_t)m->group_rows * m->block_bytes;
    m->bits = malloc(bytes * 4 * sizeof *m->bits);
    bool ok = m->bits != NULL;
    for (unsigned w = 0; w < TILE_WIDTHS; w++) {
        m->moves[w] = malloc(bytes / widths[w] * sizeof *m->moves[w]);
        ok = ok && m->moves[w];
    }
    return ok;
}

/* ---- checking ---- */

static bool same_as_asked(const struct tile_map *m, tile_repack_fn *repack, void *ctx)
{
    size_t bytes = (size_t)CHECK_ROWS * m->blocks * m->block_bytes;
    uint8_t *in = malloc(3 * bytes);
    if (!in)
        return false;
    uint32_t x = 2463534242;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        in[i] = (uint8_t)(x >> 24);
    }
    repack(ctx, in + bytes, in, CHECK_ROWS, m->blocks);
    tile_map_apply(m, in + 2 * bytes, in, CHECK_ROWS);
    bool same = memcmp(in + bytes, in + 2 * bytes, bytes) == 0;
    free(in);
    return same;
}

bool tile_map_learn(struct tile_map *m, tile_repack_fn *repack, void *ctx, uint32_t block_bytes,
                    uint32_t blocks)
{
    *m = (struct tile_map){.block_bytes = block_bytes, .blocks = blocks};
    if (blocks == 0 || block_bytes == 0 || block_bytes > MAX_BLOCK_BYTES)
        return false;
    uint32_t bytes = PROBE_ROWS * PROBE_BLOCKS * block_bytes;
    uint8_t *in = malloc(3 * (size_t)bytes), *flips = in ? in + 2 * bytes : NULL;
    uint32_t *source = malloc((size_t)bytes * 8 * sizeof *source);
    bool ok = in && source && ask(repack, ctx, bytes, in, in + bytes, source, flips);
    for (m->group_rows = 4; ok && m->group_rows <= MAX_GROUP; m->group_rows *= 2)
        if (tiles_alike(source, flips, m->group_rows, block_bytes * 8))
            break;
    ok = ok && m->group_rows <= MAX_GROUP && reserve(m);
    if (ok) {
        gather(m, source, flips);
        ok = same_as_asked(m, repack, ctx);
    }
    free(in);
    free(source);
    if (!ok)
        tile_map_fini(m);
    return ok;
}

void tile_map_fini(struct tile_map *m)
{
    for (unsigned w = 0; w < TILE_WIDTHS; w++)
        free(m->moves[w]);
    free(m->bits);
    *m = (struct tile_map){0};
}

/* ---- using ---- */

/* `width` is a constant where this is called. */
static inline void move(const struct tile_map *m, unsigned w, size_t width, uint8_t *restrict dst,
                        const uint8_t *restrict src)
{
    const struct tile_move *v = m->moves[w], *end = v + m->n_moves[w];
    for (; v < end; v++) {
        uint64_t bytes = 0;
        memcpy(&bytes, src + v->from, width);
        bytes ^= v->flip;
        memcpy(dst + v->out, &bytes, width);
    }
}

static inline void tile(const struct tile_map *m, uint8_t *restrict dst,
                        const uint8_t *restrict src)
{
    move(m, 0, 8, dst, src);
    move(m, 1, 4, dst, src);
    move(m, 2, 2, dst, src);
    move(m, 3, 1, dst, src);
    for (const struct tile_bits *b = m->bits, *end = b + m->n_bits; b < end; b++) {
        unsigned one = (unsigned)(src[b->from[0]] & b->mask[0]) << b->left[0];
        unsigned two = (unsigned)(src[b->from[1]] & b->mask[1]) << b->left[1];
        unsigned byte = (one ^ two) >> 8 ^ b->flip;
        dst[b->out] = (uint8_t)(b->more ? dst[b->out] ^ byte : byte);
    }
}

void tile_map_apply(const struct tile_map *m, void *dst, const void *src, size_t rows)
{
    uint8_t *to = dst;
    size_t row_bytes = (size_t)m->blocks * m->block_bytes;
    for (size_t r = 0; r < rows; r += m->group_rows) {
        const uint8_t *from = (const uint8_t *)src + r * row_bytes;
        for (uint32_t b = 0; b < m->blocks; b++, from += m->block_bytes) {
            tile(m, to, from);
            to += (size_t)m->group_rows * m->block_bytes;
        }
    }
}
