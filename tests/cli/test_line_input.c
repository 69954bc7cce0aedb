/*
 * Typed lines over pipes: cut and joined writes, the end, and being woken.
 */
#include "line_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct pipes {
    int text[2], wake[2];
    struct line_input in;
};

static void open_pipes(struct pipes *p)
{
    assert_int_equal(pipe(p->text), 0);
    assert_int_equal(pipe(p->wake), 0);
    line_input_init(&p->in, p->text[0], p->wake[0]);
}

static void close_pipes(struct pipes *p)
{
    line_input_fini(&p->in);
    close(p->text[0]);
    close(p->wake[0]);
    close(p->wake[1]);
}

static void type(struct pipes *p, const char *text)
{
    assert_int_equal(write(p->text[1], text, strlen(text)), (ssize_t)strlen(text));
}

static void assert_line(struct pipes *p, const char *wanted)
{
    char *line = NULL;

    assert_int_equal(line_input_next(&p->in, &line), LINE_READY);
    assert_string_equal(line, wanted);
}

static void test_lines(void **state)
{
    struct pipes p;
    char *line;

    (void)state;
    open_pipes(&p);
    type(&p, "one\ntwo\n\nthr");
    assert_line(&p, "one");
    assert_line(&p, "two");
    assert_line(&p, "");
    type(&p, "ee\nlast");
    assert_line(&p, "three");
    close(p.text[1]);
    assert_line(&p, "last");
    assert_int_equal(line_input_next(&p.in, &line), LINE_END);
    assert_int_equal(line_input_next(&p.in, &line), LINE_END);
    close_pipes(&p);
}

static void test_woken_and_dropped(void **state)
{
    struct pipes p;
    char *line, byte;

    (void)state;
    open_pipes(&p);
    type(&p, "half");
    assert_int_equal(write(p.wake[1], "s", 1), 1);
    assert_int_equal(line_input_next(&p.in, &line), LINE_WOKEN);
    assert_int_equal(read(p.wake[0], &byte, 1), 1);
    type(&p, " line\nnext\n");
    assert_line(&p, "half line");
    line_input_drop(&p.in);
    type(&p, "after\n");
    assert_line(&p, "after");
    close(p.text[1]);
    close_pipes(&p);
}

static void test_long_line(void **state)
{
    char wanted[20001];
    struct pipes p;

    (void)state;
    open_pipes(&p);
    memset(wanted, 'y', sizeof(wanted) - 1);
    wanted[sizeof(wanted) - 1] = '\0';
    type(&p, wanted);
    type(&p, "\nz\n");
    assert_line(&p, wanted);
    assert_line(&p, "z");
    close(p.text[1]);
    close_pipes(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_woken_and_dropped),
        cmocka_unit_test(test_long_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
