/*
 * Reads that are slow, short, interrupted or refused; files that are missing, truncated or
 * replaced. Bytes are right or the error names the file.
 */
#include "pager_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 5 << 20 };

static uint64_t check_every_extent(struct rig *r)
{
    uint64_t wrong = 0;
    for (uint32_t e = 0; e < r->n_extents; e++) {
        assert_int_equal(pager_pin(r->pager, &e, 1, NULL), 0);
        wrong += rig_check_all(r, e);
        pager_unpin(r->pager, &e, 1);
    }
    return wrong;
}

static void run_with(void (*prepare)(struct rig *), bool direct, int log_lines)
{
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        rig_init(&r, FILE_BYTES);
        r.config.place = place;
        prepare(&r);
        rig_create(&r);
        rig_odd_matrices(&r, place == BMOE_PLACE_COPY ? rig_xor : NULL);
        rig_start(&r);
        assert_int_equal(check_every_extent(&r), 0);
        assert_int_equal(pager_file_direct(r.pager, r.file), direct);
        assert_int_equal(r.log_lines, log_lines);
        if (log_lines)
            assert_non_null(strstr(r.log, r.path));
        assert_int_equal(rig_counters(&r).failed_reads, 0);
        rig_fini(&r);
    }
}

static void plain(struct rig *r)
{
    (void)r;
}

static void refuse_open(struct rig *r)
{
    r->shim.open_fails_direct = 1;
}

static void refuse_first_read(struct rig *r)
{
    r->shim.einval_direct = 1;
}

static void interrupt(struct rig *r)
{
    r->shim.eintr = 2;
}

static void shorten_direct(struct rig *r)
{
    r->shim.shorten = 4096;
}

static void shorten_buffered(struct rig *r)
{
    r->config.buffered = true;
    r->shim.shorten = 999;
}

static void one_eio(struct rig *r)
{
    r->shim.eio = 1;
    r->shim.eio_skip = 7;
}

static void reads_as_they_should_be(void **state)
{
    (void)state;
    run_with(plain, true, 0);
}

static void refused_at_open(void **state)
{
    (void)state;
    run_with(refuse_open, false, 1);
}

static void refused_at_the_first_read(void **state)
{
    (void)state;
    run_with(refuse_first_read, false, 1);
}

static void refused_later(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, FILE_BYTES);
    rig_create(&r);
    rig_odd_matrices(&r, NULL);
    rig_start(&r);
    assert_true(pager_file_direct(r.pager, r.file));
    r.shim.einval_direct = 2;
    assert_int_equal(check_every_extent(&r), 0);
    assert_false(pager_file_direct(r.pager, r.file));
    assert_int_equal(r.log_lines, 1);
    rig_fini(&r);
}

static void interrupted(void **state)
{
    (void)state;
    run_with(interrupt, true, 0);
}

static void short_reads(void **state)
{
    (void)state;
    run_with(shorten_direct, true, 0);
    run_with(shorten_buffered, false, 0);
}

/* A direct read that stops between blocks makes no progress: the file is then read buffered. */
static void odd_short_reads(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, FILE_BYTES);
    rig_create(&r);
    rig_odd_matrices(&r, NULL);
    rig_start(&r);
    r.shim.shorten = 100;
    uint32_t e = r.n_extents - 1;
    assert_int_equal(pager_pin(r.pager, &e, 1, NULL), 0);
    assert_int_equal(rig_check_all(&r, e), 0);
    assert_false(pager_file_direct(r.pager, r.file));
    pager_unpin(r.pager, &e, 1);
    rig_fini(&r);
}

static void retried_once(void **state)
{
    (void)state;
    run_with(one_eio, true, 0);
}

static void the_last_bytes_of_a_file(void **state)
{
    (void)state;
    for (int buffered = 0; buffered < 2; buffered++) {
        struct rig r;
        rig_init(&r, 1234567);
        r.config.buffered = buffered;
        rig_create(&r);
        rig_matrix(&r, 1234567 - 3 * 65824, 65824, 3, NULL);
        rig_start(&r);
        assert_int_equal(check_every_extent(&r), 0);
        rig_fini(&r);
    }
}

static void missing_and_other_things(void **state)
{
    struct rig r;
    struct bmoe_error err = {0};
    (void)state;
    rig_init(&r, 4096);
    rig_create(&r);
    assert_int_equal(pager_file_add(r.pager, "no/such/file", &err), BMOE_E_IO);
    assert_non_null(strstr(err.text, "no/such/file"));
    assert_int_equal(pager_file_add(r.pager, ".", &err), BMOE_E_IO);
    struct pager_matrix m = {.file = r.file, .slice_bytes = 4096, .n_slices = 2};
    struct pager_range range;
    assert_int_equal(pager_matrix_add(r.pager, &m, &range, &err), BMOE_E_MODEL);
    m.slice_bytes = UINT64_MAX / 2;
    assert_int_equal(pager_matrix_add(r.pager, &m, &range, &err), BMOE_E_MODEL);
    m.slice_bytes = 0;
    assert_int_equal(pager_matrix_add(r.pager, &m, &range, &err), BMOE_E_MISUSE);
    m.slice_bytes = 1;
    m.file = 7;
    assert_int_equal(pager_matrix_add(r.pager, &m, &range, &err), BMOE_E_MISUSE);
    m = (struct pager_matrix){.slice_bytes = 100, .n_slices = 2, .contiguous = true};
    assert_int_equal(pager_matrix_add(r.pager, &m, &range, &err), BMOE_E_MISUSE);
    rig_fini(&r);
}

/* A file that is changed underneath gives a sentence, and the pager lives. */
static void truncated_underneath(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        rig_init(&r, FILE_BYTES);
        r.config.place = place;
        rig_create(&r);
        rig_odd_matrices(&r, NULL);
        rig_start(&r);
        assert_int_equal(truncate(r.path, 70000), 0);
        uint32_t first = 0, last = r.n_extents - 1;
        assert_int_equal(pager_pin(r.pager, &last, 1, &err), BMOE_E_IO);
        assert_non_null(strstr(err.text, r.path));
        assert_non_null(strstr(err.text, "70000"));
        assert_true(pager_failed(r.pager));
        assert_int_equal(pager_recover(r.pager, &err), BMOE_E_IO);
        assert_false(pager_failed(r.pager));
        assert_false(pager_extent_resident(r.pager, last));
        assert_int_equal(pager_pin(r.pager, &first, 1, &err), BMOE_E_IO); /* 4711 + 65824 > 70000 */
        pager_recover(r.pager, NULL);
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_as_they_should_be),
        cmocka_unit_test(refused_at_open),
        cmocka_unit_test(refused_at_the_first_read),
        cmocka_unit_test(refused_later),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(short_reads),
        cmocka_unit_test(odd_short_reads),
        cmocka_unit_test(retried_once),
        cmocka_unit_test(the_last_bytes_of_a_file),
        cmocka_unit_test(missing_and_other_things),
        cmocka_unit_test(truncated_underneath),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
