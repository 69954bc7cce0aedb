/*
 * Hints, protection, pins and the budget: what is read, in which order, and what goes for it. A
 * carry that notes which slice it was given shows the order of reads.
 */
#include "pager_rig.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SLICE = 128 * 1024, N = 64 };

static struct {
    _Atomic unsigned n;
    _Atomic uint32_t slice[4096];
} seen;

static void note_carry(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes)
{
    unsigned at = atomic_fetch_add(&seen.n, 1);
    if (at < 4096)
        seen.slice[at] = slice;
    rig_xor(ctx, slice, dst, src, bytes);
}

/* One reader, one toucher, N slices of 128 KiB, room for `room` of them beside the staging. */
static void setup(struct rig *r, enum bmoe_place place, unsigned room)
{
    seen.n = 0;
    rig_init(r, (uint64_t)SLICE * N + 4096);
    r->config.place = place;
    r->config.n_readers = 1;
    r->config.n_touchers = 1;
    rig_create(r);
    rig_matrix(r, 0, SLICE, N, note_carry);
    struct bmoe_error err = {0};
    uint64_t floor = pager_floor_bytes(r->pager, place, 0); /* two of them and staging */
    if (pager_budget_set(r->pager, floor + (room - 2) * (uint64_t)SLICE, &err) != 0)
        fail_msg("%s", err.text);
    rig_start(r);
}

static void wait_for_reads(const struct rig *r, unsigned n)
{
    for (int i = 0; i < 5000 && rig_counters(r).bytes_useful < (uint64_t)n * SLICE; i++)
        usleep(1000);
    assert_int_equal(rig_counters(r).bytes_useful, (uint64_t)n * SLICE);
}

static void settle(void)
{
    usleep(50000);
}

static void hints_are_read_in_their_order(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        static const uint32_t want[] = {9, 3, 50, 4, 20};
        setup(&r, place, 10);
        pager_hint(r.pager, PAGER_ROUTED, want, 5, false);
        wait_for_reads(&r, 5);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(seen.slice[i], want[i]);
            assert_true(pager_extent_resident(r.pager, want[i]));
        }
        pager_hint(r.pager, PAGER_ROUTED, want, 5, false);
        settle();
        assert_int_equal(rig_counters(&r).hits, 5);
        assert_int_equal(rig_counters(&r).misses, 5);
        wait_for_reads(&r, 5);
        rig_fini(&r);
    }
}

static void routed_comes_before_ahead(void **state)
{
    struct rig r;
    static const uint32_t ahead[] = {1, 3, 5, 7}, routed[] = {5, 40};
    (void)state;
    setup(&r, BMOE_PLACE_AUTO, 20);
    r.shim.delay_us = 20000;
    pager_hint(r.pager, PAGER_AHEAD, ahead, 4, false);
    pager_hint(r.pager, PAGER_ROUTED, routed, 2, false);
    wait_for_reads(&r, 5);
    /* The first may have been taken before the second hint came. */
    unsigned at = seen.slice[0] == 1;
    assert_int_equal(seen.slice[at], 5);
    assert_int_equal(seen.slice[at + 1], 40);
    rig_fini(&r);
}

static void ahead_can_be_cancelled(void **state)
{
    struct rig r;
    static const uint32_t ahead[] = {1, 3, 5, 7}, routed[] = {5};
    (void)state;
    setup(&r, BMOE_PLACE_AUTO, 20);
    r.shim.delay_us = 20000;
    pager_hint(r.pager, PAGER_AHEAD, ahead, 4, false);
    pager_hint(r.pager, PAGER_ROUTED, routed, 1, true);
    usleep(150000);
    assert_true(pager_extent_resident(r.pager, 5));
    assert_false(pager_extent_resident(r.pager, 7));
    assert_true(rig_counters(&r).reads <= 2);
    rig_fini(&r);
}

static void a_fault_comes_first(void **state)
{
    struct rig r;
    uint32_t routed[20];
    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        routed[i] = i;
    setup(&r, BMOE_PLACE_AUTO, 40);
    r.shim.delay_us = 10000;
    pager_hint(r.pager, PAGER_ROUTED, routed, 20, false);
    assert_int_equal(rig_check_all(&r, 60), 0); /* not hinted at all */
    assert_int_equal(rig_check_all(&r, 19), 0);
    assert_true(seen.slice[0] == 60 || seen.slice[1] == 60 || seen.slice[2] == 60);
    assert_false(pager_extent_resident(r.pager, 18));
    rig_fini(&r);
}

/* A ROUTED hint larger than the budget: readers fill it, then sleep until the graph moves on. */
static void what_is_announced_stays(void **state)
{
    struct rig r;
    uint32_t routed[30];
    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        routed[i] = i;
    setup(&r, BMOE_PLACE_AUTO, 10);
    pager_hint(r.pager, PAGER_ROUTED, routed, 30, false);
    wait_for_reads(&r, 10);
    settle();
    assert_int_equal(rig_counters(&r).evictions, 0);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(pager_extent_resident(r.pager, i));
    static const uint32_t other[] = {50, 51};
    pager_hint(r.pager, PAGER_AHEAD, other, 2, false);
    settle();
    assert_int_equal(rig_counters(&r).evictions, 0);
    pager_used(r.pager, routed, 4);
    /* Three go: the toucher's most recent is left in its hand. */
    for (int i = 0; i < 2000 && !pager_extent_resident(r.pager, 12); i++)
        usleep(1000);
    assert_true(pager_extent_resident(r.pager, 12));
    settle();
    assert_int_equal(rig_counters(&r).evictions, 3);
    assert_true(pager_extent_resident(r.pager, 3));
    assert_true(pager_extent_resident(r.pager, 4));
    rig_fini(&r);
}

/* The graph runs through a hint larger than the budget without ever saying pager_used: its faults
 * say enough. Nothing is read twice. */
static void faults_tell_progress(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct rig r;
        uint32_t routed[N];
        for (uint32_t i = 0; i < N; i++)
            routed[i] = i;
        setup(&r, place, 8);
        pager_hint(r.pager, PAGER_ROUTED, routed, N, false);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(rig_check_all(&r, i), 0);
        wait_for_reads(&r, N);
        assert_int_equal(rig_counters(&r).rereads, 0);
        rig_fini(&r);
    }
}

/* A fault outside the order takes what is needed last, which is read again in time. */
static void a_demand_takes_the_last_to_be_needed(void **state)
{
    struct rig r;
    uint32_t routed[10];
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        routed[i] = i;
    setup(&r, BMOE_PLACE_AUTO, 10);
    pager_hint(r.pager, PAGER_ROUTED, routed, 10, false);
    wait_for_reads(&r, 10);
    assert_int_equal(rig_check_all(&r, 63), 0);
    assert_false(pager_extent_resident(r.pager, 9));
    assert_true(pager_extent_resident(r.pager, 8));
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(rig_check_all(&r, i), 0);
    assert_int_equal(rig_counters(&r).rereads, 1);
    rig_fini(&r);
}

static void ahead_does_not_chase_its_own_tail(void **state)
{
    struct rig r;
    uint32_t ahead[30];
    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        ahead[i] = i;
    setup(&r, BMOE_PLACE_AUTO, 10);
    pager_hint(r.pager, PAGER_AHEAD, ahead, 30, false);
    wait_for_reads(&r, 10);
    settle();
    assert_int_equal(rig_counters(&r).evictions, 0);
    assert_true(pager_extent_resident(r.pager, 0));
    rig_fini(&r);
}

/* A thread that slept for an extent may take its time to wake. */
static void guesses_go_before_what_was_demanded(void **state)
{
    static const uint32_t ahead[] = {40, 41, 42}, routed[] = {20, 21, 22, 23};
    struct rig r;
    (void)state;
    setup(&r, BMOE_PLACE_AUTO, 3);
    pager_hint(r.pager, PAGER_AHEAD, ahead, 3, false);
    wait_for_reads(&r, 3);
    assert_int_equal(rig_check_all(&r, 5), 0);
    pager_hint(r.pager, PAGER_ROUTED, routed, 4, false);
    wait_for_reads(&r, 6);
    settle();
    assert_true(pager_extent_resident(r.pager, 5));
    assert_false(pager_extent_resident(r.pager, 42));
    rig_fini(&r);
}

static void pins_hold_and_are_limited(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        uint32_t few[] = {1, 2, 3}, many[N];
        for (uint32_t i = 0; i < N; i++)
            many[i] = i;
        setup(&r, place, 10);
        assert_int_equal(pager_pin(r.pager, few, 3, &err), 0);
        for (int i = 0; i < 3; i++)
            assert_true(pager_extent_resident(r.pager, few[i]));
        assert_int_equal(pager_pin(r.pager, many, N, &err), BMOE_E_MEMORY);
        uint32_t bad = N;
        assert_int_equal(pager_pin(r.pager, &bad, 1, &err), BMOE_E_MISUSE);
        for (uint32_t i = 4; i < N; i++) { /* everything else passes through */
            assert_int_equal(pager_pin(r.pager, &i, 1, &err), 0);
            assert_int_equal(rig_check_all(&r, i), 0);
            pager_unpin(r.pager, &i, 1);
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(rig_check_all(&r, few[i]), 0);
        assert_int_equal(rig_counters(&r).rereads, 0);
        pager_drop_all(r.pager);
        assert_int_equal(rig_counters(&r).resident_extents, 3);
        pager_unpin(r.pager, few, 3);
        pager_drop_all(r.pager);
        assert_int_equal(rig_counters(&r).resident_extents, 0);
        rig_fini(&r);
    }
}

static void the_budget_can_change(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        uint32_t all[N];
        for (uint32_t i = 0; i < N; i++)
            all[i] = i;
        rig_init(&r, (uint64_t)SLICE * N);
        r.config.place = place;
        r.config.n_readers = 4;
        rig_create(&r);
        rig_matrix(&r, 0, SLICE, N, NULL);
        r.config.budget_bytes = 40 << 20;
        assert_int_equal(pager_budget_set(r.pager, 40 << 20, &err), 0);
        rig_start(&r);
        pager_hint(r.pager, PAGER_AHEAD, all, N, false);
        wait_for_reads(&r, N);
        uint64_t floor = pager_floor_bytes(r.pager, place, 0);
        assert_int_equal(pager_budget_set(r.pager, floor, &err), 0);
        struct pager_counters c = rig_counters(&r);
        assert_true(c.resident_bytes + c.staging_bytes <= floor);
        assert_true(c.evictions > N / 2);
        r.config.n_touchers = 1;
        assert_int_equal(rig_touch(&r, 1, 200), 0);
        assert_int_equal(pager_budget_set(r.pager, floor - 1, &err), BMOE_E_MEMORY);
        assert_int_equal(pager_budget_set(r.pager, 40 << 20, &err), 0);
        pager_hint(r.pager, PAGER_AHEAD, all, N, false);
        for (int i = 0; i < 5000 && rig_counters(&r).resident_extents < N; i++)
            usleep(1000);
        assert_int_equal(rig_counters(&r).resident_extents, N);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(rig_check_all(&r, i), 0);
        rig_fini(&r);
    }
}

static void pin_at_random(struct rig *r, unsigned n, uint64_t *random)
{
    struct bmoe_error err = {0};
    for (unsigned i = 0; i < n; i++) {
        uint32_t e = (uint32_t)(rig_random(random) % N) + i % 2 * N;
        assert_int_equal(pager_pin(r->pager, &e, 1, &err), 0);
        assert_int_equal(rig_check_some(r, e, 16, random), 0);
        pager_unpin(r->pager, &e, 1);
    }
}

/* A frame that is emptied is filled again: no page of it comes a second time. */
static void frames_of_two_sizes_keep_their_memory(void **state)
{
    enum { SMALL = 80 * 1024 };
    struct rig r;
    struct rusage before, after;
    uint64_t random = 11;
    (void)state;
    rig_init(&r, (uint64_t)(SLICE + SMALL) * N);
    r.config.place = BMOE_PLACE_NONE;
    r.config.budget_bytes = (uint64_t)(SLICE + SMALL) * N / 3;
    rig_create(&r);
    rig_matrix(&r, 0, SLICE, N, NULL);
    rig_matrix(&r, (uint64_t)SLICE * N, SMALL, N, NULL);
    rig_start(&r);
    pin_at_random(&r, 200, &random);
    uint64_t evictions = rig_counters(&r).evictions;
    getrusage(RUSAGE_SELF, &before);
    pin_at_random(&r, 1000, &random);
    getrusage(RUSAGE_SELF, &after);
    evictions = rig_counters(&r).evictions - evictions;
    assert_true(evictions > 400);
    /* an extent is 20 or 32 pages of 4 KiB */
    assert_true((uint64_t)(after.ru_minflt - before.ru_minflt) < evictions * 2);
    rig_fini(&r);
}

/* Hints and touches from several threads at once while the budget breathes. */
static void all_at_once(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        uint64_t random = 7;
        rig_init(&r, 5 << 20);
        r.config.place = place;
        rig_create(&r);
        rig_odd_matrices(&r, rig_xor);
        rig_start(&r);
        uint64_t floor = pager_floor_bytes(r.pager, place, 0);
        for (int round = 0; round < 10; round++) {
            uint32_t some[24];
            for (int i = 0; i < 24; i++)
                some[i] = (uint32_t)(rig_random(&random) % r.n_extents);
            pager_hint(r.pager, PAGER_ROUTED, some, 12, round % 2);
            pager_hint(r.pager, PAGER_AHEAD, some + 12, 12, false);
            assert_int_equal(rig_touch(&r, 4, 40), 0);
            assert_int_equal(pager_budget_set(r.pager, round % 2 ? floor : 16 << 20, &err), 0);
            pager_used(r.pager, some, round % 3 ? 12 : 0);
        }
        assert_int_equal(rig_counters(&r).lost_pages, 0);
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_are_read_in_their_order),
        cmocka_unit_test(routed_comes_before_ahead),
        cmocka_unit_test(ahead_can_be_cancelled),
        cmocka_unit_test(a_fault_comes_first),
        cmocka_unit_test(what_is_announced_stays),
        cmocka_unit_test(faults_tell_progress),
        cmocka_unit_test(a_demand_takes_the_last_to_be_needed),
        cmocka_unit_test(ahead_does_not_chase_its_own_tail),
        cmocka_unit_test(guesses_go_before_what_was_demanded),
        cmocka_unit_test(pins_hold_and_are_limited),
        cmocka_unit_test(the_budget_can_change),
        cmocka_unit_test(frames_of_two_sizes_keep_their_memory),
        cmocka_unit_test(all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
