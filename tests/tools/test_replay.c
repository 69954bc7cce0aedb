/*
 * The policies of bmoe-bench replay on traces whose outcome is known by hand, and none above
 * Belady's.
 */
#include "replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* One routing per letter: A is expert 0 and so on; experts of one byte unless told. */
static void make(struct replay_trace *t, const char *letters, unsigned bytes)
{
    char path[] = "/tmp/bmoe-replay-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file, "# a comment\nphase,turn,step,slot,layer,n_expert,expert,weight,expert_bytes\n");
    for (unsigned i = 0; letters[i]; i++)
        fprintf(file, "1,1,%u,0,0,26,%d,nan,%u\n", i, letters[i] - 'A', i ? 0 : bytes);
    fclose(file);
    assert_int_equal(replay_trace_read(t, path), 0);
    unlink(path);
}

static void hits_are(const char *letters, uint64_t room, enum replay_policy policy, int hits)
{
    struct replay_trace t;
    make(&t, letters, 1);
    double rate = replay_hit_rate(&t, policy, room);
    assert_int_equal((int)(rate * (double)t.n + 0.5), hits);
    replay_trace_fini(&t);
}

static void policies_do_as_by_hand(void **state)
{
    (void)state;
    hits_are("ABCABCABC", 2, REPLAY_LRU, 0);
    hits_are("ABCABCABC", 2, REPLAY_BELADY, 4);
    hits_are("ABCABCABC", 3, REPLAY_LRU, 6);
    hits_are("AAAABCBCA", 2, REPLAY_LFU, 4); /* A stays: 3 and 1 */
    hits_are("AABCDEA", 3, REPLAY_SLRU, 2);  /* A is protected from B..E */
    hits_are("AABCDEA", 3, REPLAY_LRU, 1);
    hits_are("ABAB", 0, REPLAY_BELADY, 0);
    hits_are("AAAA", 1, REPLAY_LFU, 3);
    hits_are("AAABABCBA", 2, REPLAY_OURS, 5);   /* A stays for C, B goes */
    hits_are("AAABACADA", 2, REPLAY_OURS, 5);   /* only A pays */
    hits_are("AAABACADA", 2, REPLAY_STATIC, 5); /* A and B are the most used */
    hits_are("ABCABCABC", 1, REPLAY_STATIC, 2);
    hits_are("AAABCDEFA", 2, REPLAY_TINYLFU, 3); /* A is better liked than who passes by */
    hits_are("AAABCDEFA", 2, REPLAY_LRU, 2);
}

static void budgets_are_bytes(void **state)
{
    (void)state;
    struct replay_trace t;
    make(&t, "ABABAB", 10);
    assert_int_equal(t.total_bytes, 20);
    assert_true(replay_hit_rate(&t, REPLAY_LRU, 19) < 0.01);
    assert_true(replay_hit_rate(&t, REPLAY_LRU, 20) > 0.6);
    replay_trace_fini(&t);
}

static void none_is_above_the_bound(void **state)
{
    (void)state;
    char letters[2001] = "";
    srand(7);
    for (int i = 0; i < 2000; i++)
        letters[i] = (char)('A' + (rand() % 26) * (rand() % 26) / 26);
    struct replay_trace t;
    make(&t, letters, 1);
    for (uint64_t room = 1; room <= 26; room++)
        for (int p = 0; p < REPLAY_BELADY; p++)
            assert_true(replay_hit_rate(&t, (enum replay_policy)p, room) <=
                        replay_hit_rate(&t, REPLAY_BELADY, room));
    replay_trace_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_do_as_by_hand),
        cmocka_unit_test(budgets_are_bytes),
        cmocka_unit_test(none_is_above_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
