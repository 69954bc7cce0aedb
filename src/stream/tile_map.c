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

/* A tile's bits as one direction sees them: output bit o is input bit from[o], turned over where
 * flips says so. Bits are numbered on both sides through the tile, or through its rows' blocks. */
struct direction {
    struct tile_moves *to;
    const uint32_t *from;
    const uint8_t *flips;
    bool undo; /* the output is the side of the rows */
};

/* Where byte `at` of a side lies. */
static uint32_t offset_of(const struct tile_map *m, bool rows, uint32_t at)
{
    uint32_t row = at / m->block_bytes;
    return rows ? row * m->blocks * m->block_bytes + at % m->block_bytes : at;
}

/* Whether bytes follow each other on a side: through the rows only within a block. */
static bool follow(const struct tile_map *m, bool rows, uint32_t at, unsigned width)
{
    return !rows || at / m->block_bytes == (at + width - 1) / m->block_bytes;
}

/* Whether `width` bytes of the output from `out` on are as many whole bytes that follow each other.
 */
static bool is_run(const struct tile_map *m, const struct direction *d, uint32_t out,
                   unsigned width)
{
    uint32_t from = d->from[out * 8];
    if (from % 8 || !follow(m, d->undo, out, width) || !follow(m, !d->undo, from / 8, width))
        return false;
    for (uint32_t i = 1; i < width * 8; i++)
        if (d->from[out * 8 + i] != from + i)
            return false;
    return true;
}

/* The bits of a byte, a part for each byte they come from and distance they go. */
static void add_bits(const struct tile_map *m, const struct direction *d, uint32_t out)
{
    struct tile_bits *b = NULL;
    unsigned done = 0, parts = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (done >> i & 1)
            continue;
        if (parts % 2 == 0) {
            b = &d->to->bits[d->to->n_bits++];
            *b = (struct tile_bits){.out = offset_of(m, d->undo, out),
                                    .flip = parts ? 0 : d->flips[out],
                                    .more = parts != 0};
        }
        uint32_t p = d->from[out * 8 + i];
        int left = (int)i - (int)(p % 8);
        b->from[parts % 2] = offset_of(m, !d->undo, p / 8);
        b->left[parts % 2] = (uint8_t)(left + 8);
        for (unsigned k = i; k < 8; k++) {
            uint32_t q = d->from[out * 8 + k];
            if (q / 8 != p / 8 || (int)k - (int)(q % 8) != left)
                continue;
            b->mask[parts % 2] |= (uint8_t)(1 << q % 8);
            done |= 1u << k;
        }
        parts++;
    }
}

static void gather(const struct tile_map *m, const struct direction *d)
{
    uint32_t bytes = m->group_rows * m->block_bytes;
    for (uint32_t out = 0; out < bytes;) {
        unsigned w = 0;
        while (w < TILE_WIDTHS && (out + widths[w] > bytes || !is_run(m, d, out, widths[w])))
            w++;
        if (w == TILE_WIDTHS) {
            add_bits(m, d, out++);
            continue;
        }
        struct tile_move *v = &d->to->moves[w][d->to->n_moves[w]++];
        *v = (struct tile_move){.out = offset_of(m, d->undo, out),
                                .from = offset_of(m, !d->undo, d->from[out * 8] / 8)};
        memcpy(&v->flip, d->flips + out, widths[w]);
        out += widths[w];
    }
}

static bool reserve(struct tile_moves *to, size_t bytes)
{
    to->bits = malloc(bytes * 4 * sizeof *to->bits);
    bool ok = to->bits != NULL;
    for (unsigned w = 0; w < TILE_WIDTHS; w++) {
        to->moves[w] = malloc(bytes / widths[w] * sizeof *to->moves[w]);
        ok = ok && to->moves[w];
    }
    return ok;
}

/* Both directions, of the first tile. */
static bool gather_both(struct tile_map *m, const uint32_t *source, const uint8_t *flips)
{
    uint32_t bytes = m->group_rows * m->block_bytes, bits = bytes * 8;
    uint32_t *from = malloc(2 * (size_t)bits * sizeof *from);
    uint8_t *back = calloc(bytes, 1);
    bool ok = from && back && reserve(&m->apply, bytes) && reserve(&m->undo, bytes);
    for (uint32_t o = 0; ok && o < bits; o++) {
        struct place p = place_of(source[o], m->group_rows, m->block_bytes * 8);
        uint32_t i = p.row * m->block_bytes * 8 + p.at;
        from[o] = i;
        from[bits + i] = o;
        back[i / 8] |= (uint8_t)(bit_of(flips, o) << i % 8);
    }
    if (ok) {
        gather(m, &(struct direction){&m->apply, from, flips, false});
        gather(m, &(struct direction){&m->undo, from + bits, back, true});
    }
    free(from);
    free(back);
    return ok;
}

/* ---- checking ---- */

static bool same_as_asked(const struct tile_map *m, tile_repack_fn *repack, void *ctx)
{
    size_t bytes = (size_t)CHECK_ROWS * m->blocks * m->block_bytes;
    uint8_t *in = malloc(4 * bytes);
    if (!in)
        return false;
    uint32_t x = 2463534242;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525 + 1013904223;
        in[i] = (uint8_t)(x >> 24);
    }
    repack(ctx, in + bytes, in, CHECK_ROWS, m->blocks);
    tile_map_apply(m, in + 2 * bytes, in, CHECK_ROWS);
    tile_map_undo(m, in + 3 * bytes, in + bytes, CHECK_ROWS);
    bool same =
        memcmp(in + bytes, in + 2 * bytes, bytes) == 0 && memcmp(in, in + 3 * bytes, bytes) == 0;
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
    ok = ok && m->group_rows <= MAX_GROUP && gather_both(m, source, flips) &&
         same_as_asked(m, repack, ctx);
    free(in);
    free(source);
    if (!ok)
        tile_map_fini(m);
    return ok;
}

static void drop(struct tile_moves *t)
{
    for (unsigned w = 0; w < TILE_WIDTHS; w++)
        free(t->moves[w]);
    free(t->bits);
}

void tile_map_fini(struct tile_map *m)
{
    drop(&m->apply);
    drop(&m->undo);
    *m = (struct tile_map){0};
}

/* ---- using ---- */

/* `width` is a constant where this is called. */
static inline void put(uint8_t *restrict dst, const uint8_t *restrict src, size_t width,
                       uint64_t flip)
{
    uint64_t bytes = 0;
    memcpy(&bytes, src, width);
    bytes ^= flip;
    memcpy(dst, &bytes, width);
}

/* Rows of 10 000 columns fit, eight of them; what is written is asked for so far ahead. */
enum { NEAR_BYTES = 64 * 1024, AHEAD_BYTES = 4096, LINE_BYTES = 64 };

/* One tile, or four that follow each other: then a move is looked up once for all of them. */
struct tiles {
    uint8_t *restrict dst;
    const uint8_t *restrict src;
    size_t dst_step, src_step;
    bool four;
};

static inline void move(const struct tile_moves *t, unsigned w, size_t width, struct tiles at)
{
    const struct tile_move *v = t->moves[w], *end = v + t->n_moves[w];
    for (; v < end; v++) {
        uint8_t *restrict dst = at.dst + v->out;
        const uint8_t *restrict src = at.src + v->from;
        const uint64_t flip = v->flip;
        put(dst, src, width, flip);
        if (!at.four)
            continue;
        put(dst + at.dst_step, src + at.src_step, width, flip);
        put(dst + 2 * at.dst_step, src + 2 * at.src_step, width, flip);
        put(dst + 3 * at.dst_step, src + 3 * at.src_step, width, flip);
    }
}

static inline void put_bits(uint8_t *restrict dst, const uint8_t *restrict src,
                            const struct tile_bits *b)
{
    unsigned one = (unsigned)(src[b->from[0]] & b->mask[0]) << b->left[0];
    unsigned two = (unsigned)(src[b->from[1]] & b->mask[1]) << b->left[1];
    unsigned byte = (one ^ two) >> 8 ^ b->flip;
    dst[b->out] = (uint8_t)(b->more ? dst[b->out] ^ byte : byte);
}

static inline void tiles_make(const struct tile_moves *t, struct tiles at)
{
    move(t, 0, 8, at);
    move(t, 1, 4, at);
    move(t, 2, 2, at);
    move(t, 3, 1, at);
    for (const struct tile_bits *b = t->bits, *end = b + t->n_bits; b < end; b++) {
        const struct tile_bits bits = *b;
        put_bits(at.dst, at.src, &bits);
        if (!at.four)
            continue;
        put_bits(at.dst + at.dst_step, at.src + at.src_step, &bits);
        put_bits(at.dst + 2 * at.dst_step, at.src + 2 * at.src_step, &bits);
        put_bits(at.dst + 3 * at.dst_step, at.src + 3 * at.src_step, &bits);
    }
}

/* One group of rows: on one side whole rows, on the other tile by tile. */
static void group_make(const struct tile_map *m, const struct tile_moves *t, uint8_t *dst,
                       const uint8_t *src, bool undo)
{
    const size_t tile_bytes = (size_t)m->group_rows * m->block_bytes;
    struct tiles at = {.dst_step = undo ? m->block_bytes : tile_bytes,
                       .src_step = undo ? tile_bytes : m->block_bytes};
    for (uint32_t b = 0, n; b < m->blocks; b += n) {
        size_t of_rows = b * (size_t)m->block_bytes, of_tiles = b * tile_bytes;
        n = m->blocks - b >= 4 ? 4 : 1;
        at.dst = dst + (undo ? of_rows : of_tiles);
        at.src = src + (undo ? of_tiles : of_rows);
        at.four = n == 4;
        for (size_t i = 0; !undo && i < n * tile_bytes; i += LINE_BYTES)
            __builtin_prefetch(at.dst + AHEAD_BYTES + i, 1);
        tiles_make(t, at);
    }
}

/* The rows' side goes through a buffer in the cache: memory is quick when it is read or written in
 * one stream, and the tiles take it in a few bytes from each of the rows. */
static void walk(const struct tile_map *m, const struct tile_moves *t, uint8_t *dst,
                 const uint8_t *src, size_t rows, bool undo)
{
    uint8_t near[NEAR_BYTES];
    const size_t bytes = (size_t)m->group_rows * m->blocks * m->block_bytes;
    for (size_t r = 0; r < rows; r += m->group_rows, dst += bytes, src += bytes) {
        if (bytes > sizeof near) {
            group_make(m, t, dst, src, undo);
        } else if (undo) {
            group_make(m, t, near, src, undo);
            memcpy(dst, near, bytes);
        } else {
            memcpy(near, src, bytes);
            group_make(m, t, dst, near, undo);
        }
    }
}

void tile_map_apply(const struct tile_map *m, void *dst, const void *src, size_t rows)
{
    walk(m, &m->apply, dst, src, rows, false);
}

void tile_map_undo(const struct tile_map *m, void *dst, const void *src, size_t rows)
{
    walk(m, &m->undo, dst, src, rows, true);
}
