/*
 * Threads touch extents at random at the floor of the budget, in every way of placing, with pages
 * of 4 and 64 KiB, direct and buffered, copied and carried, and find the file's bytes every time.
 * The counters say that the mechanism was at work: evictions, re-reads, faults.
 */
#include "pager_rig.h"

#include <stdio.h>

struct setting {
    enum bmoe_place place;
    size_t page;
    bool buffered, carry;
    unsigned threads;
};

static void touch_at_floor(const struct setting *s, unsigned touches)
{
    struct rig r;
    print_message("place %d, page %zu, %s, %s, %u threads\n", s->place, s->page,
                  s->buffered ? "buffered" : "direct", s->carry ? "carried" : "copied", s->threads);
    rig_init(&r, 5 << 20);
    r.config.place = s->place;
    r.config.page_bytes = s->page;
    r.config.buffered = s->buffered;
    r.config.n_touchers = s->threads;
    rig_create(&r);
    rig_odd_matrices(&r, s->carry ? rig_xor : NULL);
    rig_start_at_floor(&r);
    assert_int_equal(rig_touch(&r, s->threads, touches), 0);
    struct pager_counters c = rig_counters(&r);
    assert_true(c.evictions >= 10 * c.resident_extents || false);
    assert_true(c.rereads > 0);
    assert_true(s->place == BMOE_PLACE_NONE ? c.faults == 0 : c.faults > 0);
    assert_int_equal(c.lost_pages, 0);
    assert_int_equal(c.failed_reads, 0);
    assert_true(c.peak_budget_bytes <= r.config.budget_bytes);
    assert_int_equal(pager_file_direct(r.pager, r.file), !s->buffered);
    rig_fini(&r);
}

static void every_setting_at_the_floor(void **state)
{
    static const unsigned threads[] = {1, 2, 4, 16};
    (void)state;
    for (int i = 0; i < 3 * 2 * 2 * 2; i++) {
        struct setting s = {.place = BMOE_PLACE_MOVE + i % 3,
                            .page = i / 3 % 2 ? 65536 : 0,
                            .buffered = i / 6 % 2,
                            .carry = i / 12 % 2,
                            .threads = threads[(i + i / 3) % 4]};
        touch_at_floor(&s, 1000 / s.threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_setting_at_the_floor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
