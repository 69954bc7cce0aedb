/*
 * Layouts learned by asking: made-up ones that are of the kind or not, and ggml's own, byte for
 * byte against ggml.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka 1.1.5 wants these before it */
#include <cmocka.h>

#include "engine/session.h"
#include "stream/repack.h"
#include "stream/tile_map.h"

#include <ggml-backend.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 22 };

/* Rows of a group interleaved by 4 bytes with half of the bits turned over, the last two bytes of a
 * block cut into nibbles that change places between neighbouring rows. */
static void interleave(uint8_t *dst, const uint8_t *src, uint32_t group, uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++, dst += group * BLOCK) {
        uint8_t *out = dst;
        for (uint32_t part = 0; part < 5; part++)
            for (uint32_t r = 0; r < group; r++, out += 4)
                for (uint32_t i = 0; i < 4; i++)
                    out[i] = src[(r * blocks + b) * BLOCK + part * 4 + i] ^ 0xa5;
        for (uint32_t r = 0; r < group; r++, out += 2) {
            const uint8_t *mine = src + (r * blocks + b) * BLOCK + 20;
            const uint8_t *other = src + ((r ^ 1) * blocks + b) * BLOCK + 20;
            out[0] = (uint8_t)((mine[0] & 0x0f) | (other[1] & 0x0f) << 4);
            out[1] = (uint8_t)((mine[1] >> 4) | (mine[0] & 0xf0)) ^ 0x11;
        }
    }
}

static void by_group(void *ctx, void *dst, const void *src, uint32_t rows, uint32_t blocks)
{
    uint32_t group = *(const uint32_t *)ctx;
    for (uint32_t r = 0; r < rows; r += group)
        interleave((uint8_t *)dst + r * blocks * BLOCK, (const uint8_t *)src + r * blocks * BLOCK,
                   group, blocks);
}

static void groups_of_four_and_eight_are_learned(void **state)
{
    (void)state;
    for (uint32_t group = 4; group <= 8; group *= 2) {
        enum { ROWS = 32, BLOCKS = 7, BYTES = ROWS * BLOCKS * BLOCK };
        static uint8_t in[BYTES], want[BYTES], out[BYTES];
        struct tile_map m;
        for (int i = 0; i < BYTES; i++)
            in[i] = (uint8_t)rand();
        assert_true(tile_map_learn(&m, by_group, &group, BLOCK, BLOCKS));
        assert_int_equal(m.group_rows, group);
        assert_int_equal(m.apply.n_moves[1], 5 * group);
        by_group(&group, want, in, ROWS, BLOCKS);
        tile_map_apply(&m, out, in, ROWS);
        assert_memory_equal(out, want, BYTES);
        tile_map_undo(&m, out, want, ROWS);
        assert_memory_equal(out, in, BYTES);
        tile_map_fini(&m);
    }
}

/* A sum of neighbours, a bit that is lost, a group across blocks, a layout that depends on the
 * rows' width: each is right for some input and is no rearrangement. */
static void broken(void *ctx, void *dst, const void *src, uint32_t rows, uint32_t blocks)
{
    int how = *(const int *)ctx;
    uint8_t *out = dst;
    uint32_t bytes = rows * blocks * BLOCK, group = 8;
    by_group(&group, dst, src, rows, blocks);
    if (how == 0)
        out[5] = (uint8_t)(out[5] + out[6]);
    else if (how == 1)
        out[bytes / 2] |= 4;
    else if (how == 2) {
        uint8_t t = out[3];
        out[3] = out[bytes - 1];
        out[bytes - 1] = t;
    } else if (how == 3 && blocks > 2) {
        uint8_t t = out[0];
        out[0] = out[1];
        out[1] = t;
    }
}

static void what_is_no_rearrangement_is_refused(void **state)
{
    (void)state;
    for (int how = 0; how <= 4; how++) {
        struct tile_map m;
        assert_int_equal(tile_map_learn(&m, broken, &how, BLOCK, 7), how == 4);
        tile_map_fini(&m);
    }
    struct tile_map m;
    uint32_t group = 8;
    assert_false(tile_map_learn(&m, by_group, &group, 0, 7));
    assert_false(tile_map_learn(&m, by_group, &group, BLOCK, 0));
    assert_false(tile_map_learn(&m, by_group, &group, 1 << 20, 7));
}

static void check_type(struct repack *r, enum ggml_type type, unsigned *n_known)
{
    enum { COLUMNS = 1280, ROWS = 48 };
    struct ggml_init_params params = {.mem_size = 1 << 16, .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *w = ggml_new_tensor_2d(ctx, type, COLUMNS, ROWS);
    void *traits = repack_traits(r, w);
    if (traits) {
        struct repack_rows rows, asked;
        size_t bytes = ggml_nbytes(w);
        uint8_t *in = malloc(3 * bytes);
        for (size_t i = 0; i < bytes; i++)
            in[i] = (uint8_t)rand();
        repack_rows_init(&rows, r, w, traits);
        *n_known += rows.map != NULL;
        asked = rows;
        asked.map = NULL;
        repack_carry(&asked, 0, in + bytes, in, bytes);
        repack_carry(&rows, 0, in + 2 * bytes, in, bytes);
        assert_memory_equal(in + bytes, in + 2 * bytes, bytes);
        assert_memory_not_equal(in, in + bytes, bytes);
        if (rows.map) {
            repack_restore(&rows, in + 2 * bytes, in + bytes, bytes);
            assert_memory_equal(in, in + 2 * bytes, bytes);
        }
        free(in);
    }
    ggml_free(ctx);
}

static void every_layout_of_ggml_is_learned(void **state)
{
    struct repack r;
    struct bmoe_error err = {0};
    unsigned n_known = 0;
    (void)state;
    assert_int_equal(repack_open(&r, &err), 0);
    if (!r.buffer)
        skip(); /* this CPU has none */
    for (int type = 0; type < GGML_TYPE_COUNT; type++)
        if (ggml_is_quantized(type) && ggml_type_size(type))
            check_type(&r, type, &n_known);
    assert_true(n_known > 0);
    assert_int_equal(n_known, r.n_layouts);
    repack_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_four_and_eight_are_learned),
        cmocka_unit_test(what_is_no_rearrangement_is_refused),
        cmocka_unit_test(every_layout_of_ggml_is_learned),
    };
    char variant[64];
    if (backend_load_cpu(BMOE_BACKENDS_DIR, variant, sizeof variant, NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
