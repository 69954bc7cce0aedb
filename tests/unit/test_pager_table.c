/* The pager's data structures alone: lists, the table, the order ring, the LRU policy. */
#include "pager/pager_policy.h"
#include "pager/pager_table.h"
#include "pager_rig.h"

#include <stdlib.h>

static void lists_keep_their_order(void **state)
{
    struct extent_table t = {0};
    struct list l;
    (void)state;
    assert_true(extent_table_grow(&t, 8, 3));
    list_init(&l);
    for (uint32_t e = 0; e < 4; e++)
        list_push_tail(&t, &l, e);
    list_push_head(&t, &l, 7);
    list_remove(&t, &l, 2);
    list_remove(&t, &l, 3);
    static const uint32_t want[] = {7, 0, 1};
    uint32_t at = l.head;
    for (int i = 0; i < 3; i++, at = t.at[at].next)
        assert_int_equal(at, want[i]);
    assert_int_equal(at, EXTENT_NONE);
    assert_int_equal(l.tail, 1);
    assert_int_equal(l.n, 3);
    assert_int_equal(t.at[5].matrix, 3);
    free(t.at);
}

static void the_table_grows_and_refuses(void **state)
{
    struct extent_table t = {0};
    (void)state;
    for (uint32_t m = 0; m < 100; m++)
        assert_true(extent_table_grow(&t, 100, m));
    for (uint32_t e = 0; e < t.n; e++)
        assert_int_equal(t.at[e].matrix, e / 100);
    assert_false(extent_table_grow(&t, EXTENT_NONE - 5, 0));
    assert_true(sizeof(struct extent) + 2 * sizeof(uint32_t) <= 80);
    free(t.at);
}

static void the_ring_keeps_numbers_when_it_grows(void **state)
{
    struct order_ring r = {0};
    (void)state;
    assert_true(order_ring_reserve(&r, 1));
    uint64_t before = r.cap;
    r.passed = r.next = 3 * before - 5; /* wrapped: the entries lie on both ends */
    for (uint32_t i = 0; i < before / 2; i++)
        r.at[r.next++ % r.cap] = i;
    assert_true(order_ring_reserve(&r, before * 3));
    for (uint64_t i = r.passed; i < r.next; i++)
        assert_int_equal(r.at[i % r.cap], i - r.passed);
    free(r.at);
}

static void lru_gives_the_oldest(void **state)
{
    struct extent_table t = {0};
    struct policy p;
    (void)state;
    assert_true(extent_table_grow(&t, 4, 0));
    policy_init(&p, &policy_lru, &t);
    assert_int_equal(p.ops->victim(&p), EXTENT_NONE);
    for (uint32_t e = 0; e < 4; e++) {
        p.ops->insert(&p, e);
        t.at[e].flags |= EXTENT_IN_POLICY;
    }
    p.ops->touch(&p, 0);
    assert_int_equal(p.ops->victim(&p), 1);
    p.ops->remove(&p, 1);
    t.at[1].flags = 0;
    p.ops->touch(&p, 1); /* held no more: nothing happens */
    assert_int_equal(p.ops->victim(&p), 2);
    assert_int_equal(p.n, 3);
    free(t.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(the_table_grows_and_refuses),
        cmocka_unit_test(the_ring_keeps_numbers_when_it_grows),
        cmocka_unit_test(lru_gives_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
