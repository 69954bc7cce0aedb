/* The plug-in's option table and the coding of rows: the parts that need no ggml. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plugin_options.h"

static const char *set_name, *set_value;

static const char *lookup(const char *name)
{
    return set_name && !strcmp(name, set_name) ? set_value : NULL;
}

static int read_one(const char *name, const char *value, struct plugin_options *out, char *sentence)
{
    set_name = name;
    set_value = value;
    return plugin_options_read(lookup, out, sentence, 256);
}

static void good_values_are_taken(void **state)
{
    struct plugin_options o;
    char s[256];

    (void)state;
    assert_int_equal(read_one(NULL, NULL, &o, s), 0);
    assert_true(!*o.transport && !*o.sim && !o.cores && !o.timeout_ms && !o.verify);
    assert_int_equal(read_one("ORK_TRANSPORT", "sim", &o, s), 0);
    assert_string_equal(o.transport, "sim");
    assert_int_equal(read_one("ORK_SIM", "cores=2,quirks=lag", &o, s), 0);
    assert_string_equal(o.sim, "cores=2,quirks=lag");
    assert_int_equal(read_one("ORK_CORES", "3", &o, s), 0);
    assert_int_equal(o.cores, 3);
    assert_int_equal(read_one("ORK_TIMEOUT_MS", "600000", &o, s), 0);
    assert_int_equal(o.timeout_ms, 600000);
    assert_int_equal(read_one("ORK_VERIFY", "1", &o, s), 0);
    assert_true(o.verify);
    assert_int_equal(read_one("ORK_VERIFY", "", &o, s), 0);
    assert_false(o.verify);
}

static void bad_values_are_named(void **state)
{
    static const char *const bad[][2] = {
        {"ORK_TRANSPORT", "simulator"},
        {"ORK_TRANSPORT", "vendor mainline"},
        {"ORK_TRANSPORT", " "},
        {"ORK_CORES", "4"},
        {"ORK_CORES", "-1"},
        {"ORK_CORES", "1x"},
        {"ORK_CORES", " 1"},
        {"ORK_TIMEOUT_MS", "99999999999999999999999"},
        {"ORK_VERIFY", "yes"},
    };
    char long_text[200];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct plugin_options o = {.cores = 7};
        char s[256] = "";

        assert_true(read_one(bad[i][0], bad[i][1], &o, s) < 0);
        assert_non_null(strstr(s, bad[i][0]));
        assert_int_equal(o.cores, 7);
    }
    memset(long_text, 'a', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    {
        struct plugin_options o;
        char s[256];

        assert_true(read_one("ORK_SIM", long_text, &o, s) < 0);
    }
}

/* docs/ork.md has a row per option, in the table's own words. */
static void the_document_has_the_table(void **state)
{
    size_t n;
    const struct plugin_option_line *lines = plugin_options_lines(&n);
    FILE *f = fopen(ORK_DOCUMENT, "r");
    char text[32768];
    size_t bytes;

    (void)state;
    assert_non_null(f);
    bytes = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[bytes] = '\0';
    for (size_t i = 0; i < n; i++) {
        char row[256];

        snprintf(row, sizeof(row), "| `%s` | %s | %s |\n", lines[i].name, lines[i].takes,
                 lines[i].does);
        if (!strstr(text, row))
            fail_msg("docs/ork.md lacks %s", row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values_are_taken),
        cmocka_unit_test(bad_values_are_named),
        cmocka_unit_test(the_document_has_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
