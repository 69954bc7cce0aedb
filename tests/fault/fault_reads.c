/*
 * A model whose file fails under a running session: fault_reads MODEL. In every mode of placing,
 * what cannot be read costs one request with one sentence; what can be read in the end gives the
 * right rows; and the request after a failed one gives them too.
 */
#include "fault_io.h"
#include "gate_live.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *model;
static struct gate_live right;

static void make_case(struct gate_case *c, int place)
{
    gate_case_init(c);
    c->model = model;
    c->repack = true;
    c->budget = GATE_BUDGET_FLOOR;
    c->n_ubatch = 64;
    c->place = (enum bmoe_place)place;
}

static struct gate_live ask(void)
{
    return (struct gate_live){.prompt_bytes = 100, .n_predict = 10};
}

static int set_up(void **state)
{
    (void)state;
    struct gate_case c;
    make_case(&c, BMOE_PLACE_AUTO);
    right = ask();
    gate_live_reference(&c, &right);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gate_live_fini(&right);
    return 0;
}

static void goes_right(struct bmoe_session *s)
{
    struct gate_live live = ask();
    gate_live_succeed(s, &live);
    gate_live_same(&right, &live);
    gate_live_fini(&live);
}

static void break_disk(struct gate_live *live, uint32_t n)
{
    struct fault_io *f = live->user;
    if (n >= 5) /* rows, or prompt tokens */
        atomic_store(&f->kind, FAULT_EIO);
}

static void fails_and_goes_on(struct bmoe_session *s, struct fault_io *f, bool prefill)
{
    struct gate_live live = ask();
    live.user = f;
    live.on_prefill = prefill ? break_disk : NULL;
    live.on_row = prefill ? NULL : break_disk;
    gate_live_fail(s, &live, BMOE_E_IO);
    assert_non_null(strstr(live.err.text, model));
    assert_int_equal(live.rows.n_rows, prefill ? 0 : 5);
    gate_live_fini(&live);
    atomic_store(&f->kind, FAULT_NONE);
    goes_right(s);
}

static void a_failed_read_costs_one_request(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct gate_case c;
        struct fault_io f;
        fault_io_init(&f);
        make_case(&c, place);
        struct session_hooks hooks = {.io = &f.io};
        struct bmoe_session *s = gate_live_open(&c, true, &hooks);
        for (int round = 0; round < 2; round++) {
            fails_and_goes_on(s, &f, false);
            fails_and_goes_on(s, &f, true);
        }
        assert_true(atomic_load(&f.n_faults) >= 8);
        bmoe_session_close(s);
    }
}

/* What the disk does in the end gives the right rows, only later. */
static void survives(enum fault_kind kind, bool no_direct, struct bmoe_stats *stats)
{
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct gate_case c;
        struct fault_io f;
        fault_io_init(&f);
        f.no_direct = no_direct;
        atomic_store(&f.kind, kind);
        make_case(&c, place);
        struct session_hooks hooks = {.io = &f.io};
        struct bmoe_session *s = gate_live_open(&c, true, &hooks);
        goes_right(s);
        assert_true(atomic_load(&f.n_faults) > 0);
        stats->size = sizeof *stats;
        bmoe_session_stats(s, stats);
        bmoe_session_close(s);
    }
}

static void a_read_that_fails_once_is_read_again(void **state)
{
    (void)state;
    struct bmoe_stats stats;
    survives(FAULT_EIO_ONCE, false, &stats);
    assert_true(stats.retries > 0);
}

static void short_reads_are_continued(void **state)
{
    (void)state;
    struct bmoe_stats stats;
    survives(FAULT_SHORT, false, &stats);
}

static void interrupted_reads_are_repeated(void **state)
{
    (void)state;
    struct bmoe_stats stats;
    survives(FAULT_INTERRUPTED, false, &stats);
}

static void a_slow_disk_is_only_slow(void **state)
{
    (void)state;
    struct gate_case c;
    struct fault_io f;
    fault_io_init(&f);
    atomic_store(&f.kind, FAULT_SLOW);
    make_case(&c, BMOE_PLACE_AUTO);
    c.budget = GATE_BUDGET_HALF;
    struct session_hooks hooks = {.io = &f.io};
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    goes_right(s);
    bmoe_session_close(s);
}

static void a_file_system_without_direct_reads(void **state)
{
    (void)state;
    struct bmoe_stats stats;
    survives(FAULT_NONE, true, &stats);
}

/* Dense weights are read at open: then there is no session. */
static void a_failed_read_at_open_is_told(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct gate_case c;
        struct fault_io f;
        struct bmoe_options o;
        struct bmoe_error err = {0};
        struct bmoe_session *s = NULL;
        fault_io_init(&f);
        atomic_store(&f.kind, FAULT_EIO);
        make_case(&c, place);
        gate_case_options(&c, true, &o);
        struct session_hooks hooks = {.io = &f.io};
        assert_int_equal(session_open_hooked(&s, &o, &hooks, &err), BMOE_E_IO);
        assert_null(s);
        assert_int_equal(err.scope, BMOE_SCOPE_SESSION);
        assert_non_null(strstr(err.text, model));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_read_costs_one_request),
        cmocka_unit_test(a_read_that_fails_once_is_read_again),
        cmocka_unit_test(short_reads_are_continued),
        cmocka_unit_test(interrupted_reads_are_repeated),
        cmocka_unit_test(a_slow_disk_is_only_slow),
        cmocka_unit_test(a_file_system_without_direct_reads),
        cmocka_unit_test(a_failed_read_at_open_is_told),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
