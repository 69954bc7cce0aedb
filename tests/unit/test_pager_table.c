/* The pager's data structures alone: lists, the table, the order ring, the policies. */
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

/* Three matrices a layer, as most models have; the pools' lists of frames are 4 bytes an extent. */
static void an_expert_costs_less_than_256_bytes(void **state)
{
    enum { LAYERS = 48, EXPERTS = 512, MATRICES = 3 };
    struct extent_table t = {0};
    struct order_ring r = {0};
    struct policy p;
    (void)state;
    policy_init(&p, &policy_popular, &t, 0);
    for (uint32_t m = 0; m < LAYERS * MATRICES; m++) {
        assert_true(extent_table_grow(&t, EXPERTS, m));
        assert_true(order_ring_reserve(&r, 2ull * t.n));
        assert_true(policy_reserve(&p));
    }
    uint64_t bytes = t.cap * sizeof *t.at + (r.cap + p.heap_cap + t.n) * sizeof(uint32_t);
    assert_true(bytes / (LAYERS * EXPERTS) < 256);
    policy_fini(&p);
    free(r.at);
    free(t.at);
}

static void lru_gives_the_oldest(void **state)
{
    struct extent_table t = {0};
    struct policy p;
    (void)state;
    assert_true(extent_table_grow(&t, 4, 0));
    policy_init(&p, &policy_lru, &t, 0);
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

static void hold(struct policy *p, uint32_t e)
{
    p->ops->insert(p, e);
    p->table->at[e].flags |= EXTENT_IN_POLICY;
}

static void let_go(struct policy *p, uint32_t e)
{
    p->ops->remove(p, e);
    p->table->at[e].flags &= (uint8_t)~EXTENT_IN_POLICY;
}

/* The rarest goes first, equals by age, guesses after the scored ones, kept arrivals last. */
static void popular_gives_the_rarest(void **state)
{
    struct extent_table t = {0};
    struct policy p;
    (void)state;
    assert_true(extent_table_grow(&t, 8, 0));
    policy_init(&p, &policy_popular, &t, 2);
    assert_true(policy_reserve(&p));
    assert_int_equal(p.ops->victim(&p), EXTENT_NONE);
    for (uint32_t e = 0; e < 6; e++)
        for (uint32_t k = 0; k < (e == 1 ? 3 : e == 0 ? 2 : 1); k++)
            p.ops->touch(&p, e);
    t.at[2].flags |= EXTENT_GUESSED;
    for (uint32_t e = 0; e < 6; e++)
        hold(&p, e);
    static const uint32_t want[] = {3, 0, 1, 2, 4, 5}; /* 4 and 5 are the two latest */
    for (int i = 0; i < 6; i++) {
        assert_int_equal(p.ops->victim(&p), want[i]);
        let_go(&p, want[i]);
    }
    assert_int_equal(p.ops->victim(&p), EXTENT_NONE);
    assert_int_equal(p.n, 0);
    policy_fini(&p);
    free(t.at);
}

/* What was asked for often long ago yields to what is asked for now, also past the rescaling. */
static void popular_forgets_slowly(void **state)
{
    struct extent_table t = {0};
    struct policy p;
    (void)state;
    assert_true(extent_table_grow(&t, 3, 0));
    policy_init(&p, &policy_popular, &t, 0);
    assert_true(policy_reserve(&p));
    for (int i = 0; i < 8; i++)
        p.ops->touch(&p, 0);
    p.ops->touch(&p, 1);
    for (uint32_t e = 0; e < 3; e++)
        hold(&p, e);
    assert_int_equal(p.ops->victim(&p), 2);
    let_go(&p, 2);
    assert_int_equal(p.ops->victim(&p), 1);
    for (int graph = 0; graph < 200000; graph++)
        p.ops->age(&p);
    p.ops->touch(&p, 1);
    assert_int_equal(p.ops->victim(&p), 0);
    policy_fini(&p);
    free(t.at);
}

/* The heap against a search of all, over random inserts, removals and touches. */
static void popular_heap_holds(void **state)
{
    enum { N = 60 };
    struct extent_table t = {0};
    struct policy p;
    uint32_t x = 12345;
    (void)state;
    assert_true(extent_table_grow(&t, N, 0));
    policy_init(&p, &policy_popular, &t, 0);
    assert_true(policy_reserve(&p));
    for (int i = 0; i < 20000; i++) {
        x = x * 1664525 + 1013904223;
        uint32_t e = (x >> 8) % N;
        bool held = t.at[e].flags & EXTENT_IN_POLICY;
        if (x >> 30 == 0 && held)
            let_go(&p, e);
        else if (x >> 30 == 1 && !held)
            hold(&p, e);
        else
            p.ops->touch(&p, e);
        double least = 1e300;
        for (uint32_t k = 0; k < N; k++)
            if ((t.at[k].flags & EXTENT_IN_POLICY) && t.at[k].score < least)
                least = t.at[k].score;
        uint32_t victim = p.ops->victim(&p);
        assert_true(victim == EXTENT_NONE ? least == 1e300 : t.at[victim].score == least);
    }
    policy_fini(&p);
    free(t.at);
}

static bool is_odd(const void *ctx, uint32_t e)
{
    (void)ctx;
    return e % 2 == 1;
}

static void popular_gives_the_rarest_that_fits(void **state)
{
    struct extent_table t = {0};
    struct policy p;
    (void)state;
    assert_true(extent_table_grow(&t, 8, 0));
    policy_init(&p, &policy_popular, &t, 0);
    assert_true(policy_reserve(&p));
    assert_int_equal(policy_victim_that(&p, is_odd, NULL), EXTENT_NONE);
    for (uint32_t e = 0; e < 8; e++)
        for (uint32_t uses = 0; uses <= e; uses++)
            p.ops->touch(&p, e);
    for (uint32_t e = 8; e-- > 0;)
        hold(&p, e);
    assert_int_equal(policy_victim_that(&p, is_odd, NULL), 1);
    let_go(&p, 1);
    assert_int_equal(policy_victim_that(&p, is_odd, NULL), 3);
    for (uint32_t e = 3; e < 8; e += 2)
        let_go(&p, e);
    assert_int_equal(policy_victim_that(&p, is_odd, NULL), 0);
    policy_fini(&p);
    free(t.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(the_table_grows_and_refuses),
        cmocka_unit_test(the_ring_keeps_numbers_when_it_grows),
        cmocka_unit_test(an_expert_costs_less_than_256_bytes),
        cmocka_unit_test(lru_gives_the_oldest),
        cmocka_unit_test(popular_gives_the_rarest),
        cmocka_unit_test(popular_forgets_slowly),
        cmocka_unit_test(popular_heap_holds),
        cmocka_unit_test(popular_gives_the_rarest_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
