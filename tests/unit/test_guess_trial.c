/* Guesses are on while most are right, are tried where fewer are, and follow what the clock says.
 */
#include "stream/guess_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct run {
    struct guess_trial t;
    uint64_t guessed, used;
    unsigned n_on;
};

/* n graphs; of ten guesses `right` are; each takes so long with guesses and without. */
static void run(struct run *r, unsigned n, unsigned right, int64_t with_us, int64_t without_us)
{
    for (unsigned i = 0; i < n; i++) {
        bool on = guess_trial_on(&r->t);
        r->n_on += on;
        r->guessed += on ? 10 : 0;
        r->used += on ? right : 0;
        int64_t us = on ? with_us : without_us;
        if (i % 7 == 0)
            us *= 5; /* a token that met nothing it wanted */
        guess_trial_told(&r->t, us, r->guessed, r->used);
    }
}

static struct run begin(enum guess_mode mode)
{
    struct run r = {.n_on = 0};
    guess_trial_init(&r.t, mode);
    return r;
}

static void most_are_right(void **state)
{
    (void)state;
    struct run r = begin(GUESS_AUTO);
    run(&r, 1000, 8, 100, 50);
    assert_int_equal(r.n_on, 1000);
}

static void few_are_right_and_slow(void **state)
{
    (void)state;
    struct run r = begin(GUESS_AUTO);
    run(&r, 100, 5, 100, 90);
    assert_false(guess_trial_on(&r.t));
    assert_in_range(r.n_on, GUESS_WARM_UP, GUESS_WARM_UP + GUESS_TRIAL);
    run(&r, 1000, 5, 100, 120); /* the disk became quicker: the next trial finds it */
    assert_true(guess_trial_on(&r.t));
}

static void few_are_right_and_quick(void **state)
{
    (void)state;
    struct run r = begin(GUESS_AUTO);
    run(&r, 200, 5, 100, 110);
    assert_true(guess_trial_on(&r.t));
    assert_int_equal(r.n_on, 200 - GUESS_TRIAL / 2);
}

static void wide_graphs_do_not_count(void **state)
{
    (void)state;
    struct run r = begin(GUESS_AUTO);
    for (int i = 0; i < 100; i++) {
        r.guessed += 1000;
        guess_trial_skip(&r.t, r.guessed, r.used);
        run(&r, 1, 8, 100, 50);
    }
    assert_int_equal(r.n_on, 100);
}

static void told_what_to_do(void **state)
{
    (void)state;
    struct run always = begin(GUESS_ALWAYS), never = begin(GUESS_NEVER);
    run(&always, 500, 1, 100, 10);
    run(&never, 500, 9, 10, 100);
    assert_int_equal(always.n_on, 500);
    assert_int_equal(never.n_on, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_are_right), cmocka_unit_test(few_are_right_and_slow),
        cmocka_unit_test(few_are_right_and_quick), cmocka_unit_test(wide_graphs_do_not_count),
        cmocka_unit_test(told_what_to_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
