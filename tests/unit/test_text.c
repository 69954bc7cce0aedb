/* The answer's text: UTF-8 cut only at characters, stop strings across pieces, nothing lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/text.h"

#include <string.h>

struct example {
    const char *pieces[8];  /* NULL ends */
    const char *stop[4];    /* NULL ends */
    const char *before_end; /* what is out before the flush */
    const char *want;
};

static const struct example examples[] = {
    {{NULL}, {NULL}, "", ""}, /* a request that failed before its first token */
    {{"Hel", "lo"}, {NULL}, "Hello", "Hello"},
    {{"caf\xc3", "\xa9!"}, {NULL}, "caf\xc3\xa9!", "caf\xc3\xa9!"},
    {{"\xf0\x9f", "\x98", "\x80"}, {NULL}, "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    {{"x\xf0\x9f"}, {NULL}, "x", "x\xef\xbf\xbd"},
    {{"a\xff", "b"},
     {NULL},
     "a\xef\xbf\xbd"
     "b",
     "a\xef\xbf\xbd"
     "b"},
    {{"\xed\xa0\x80"},
     {NULL},
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {{"one EN", "D two"}, {"END"}, "one ", "one "},
    {{"one EN", "Dx"}, {"ENDY", "NEVER"}, "one ENDx", "one ENDx"},
    {{"one EN"}, {"END"}, "one ", "one EN"},
    {{"abab", "ac"}, {"ababac"}, "", ""},
    {{"aab", "b"}, {"ab", "bb"}, "a", "a"},
    {{"x", "<|im", "_end|>", "rest"}, {"<|im_end|>", "\n"}, "x", "x"},
    {{"abc"}, {"", "z"}, "abc", "abc"},
};

static void run(const struct example *e)
{
    size_t n_stop = 0;
    while (e->stop[n_stop])
        n_stop++;
    struct text t = {.stop = e->stop, .n_stop = n_stop};
    for (int i = 0; e->pieces[i]; i++)
        assert_true(text_add(&t, e->pieces[i], strlen(e->pieces[i])));
    assert_int_equal(t.n_out, strlen(e->before_end));
    if (t.n_out)
        assert_memory_equal(t.out, e->before_end, t.n_out);
    assert_true(text_flush(&t));
    assert_int_equal(t.n_out, strlen(e->want));
    if (t.n_out)
        assert_memory_equal(t.out, e->want, t.n_out);
    text_fini(&t);
}

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        run(&examples[i]);
}

/* However a text is cut into pieces, the same comes out. */
static void test_every_cut(void **state)
{
    (void)state;
    static const char whole[] = "na\xc3\xafve \xe2\x82\xac \xf0\x9f\xa6\x8a \xc3( stop! STOP here";
    static const char want[] = "na\xc3\xafve \xe2\x82\xac \xf0\x9f\xa6\x8a \xef\xbf\xbd( stop! ";
    const char *stop[] = {"STOP"};
    size_t n = sizeof whole - 1;
    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct text t = {.stop = stop, .n_stop = 1};
            assert_true(text_add(&t, whole, a));
            assert_true(text_add(&t, whole + a, b - a));
            assert_true(text_add(&t, whole + b, n - b));
            assert_true(t.stopped);
            assert_int_equal(t.n_out, sizeof want - 1);
            assert_memory_equal(t.out, want, sizeof want - 1);
            text_fini(&t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_every_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
