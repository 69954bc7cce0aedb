/*
 * Texts: well-formed UTF-8 by the borders of the standard's table, files with and without a last
 * line end, and what is refused.
 */
#include "cli_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct sample {
    const char *text;
    size_t good; /* bytes of well-formed prefix */
};

static const struct sample samples[] = {
    {"", 0},
    {"abc", 3},
    {"\xC2\x80", 2},
    {"\xDF\xBF", 2},
    {"\xE0\xA0\x80", 3},
    {"\xED\x9F\xBF", 3},
    {"\xEF\xBF\xBF", 3},
    {"\xF0\x90\x80\x80", 4},
    {"\xF4\x8F\xBF\xBF", 4},
    {"a\x80", 1},            /* a continuation byte alone */
    {"ab\xC0\x80", 2},       /* overlong */
    {"\xC1\xBF", 0},         /* overlong */
    {"\xE0\x9F\xBF", 0},     /* overlong */
    {"\xED\xA0\x80", 0},     /* a surrogate */
    {"\xF0\x8F\xBF\xBF", 0}, /* overlong */
    {"\xF4\x90\x80\x80", 0}, /* above U+10FFFF */
    {"\xF5\x80\x80\x80", 0},
    {"\xFF", 0},
    {"x\xE2\x82", 1},     /* cut */
    {"x\xF0\x9F\x98", 1}, /* cut */
    {"x\xE2\x28\xA1", 1},
};

static void test_utf8(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        assert_int_equal(cli_text_utf8_prefix(samples[i].text, strlen(samples[i].text)),
                         samples[i].good);
    assert_int_equal(cli_text_utf8_prefix("a\0b", 3), 3);
}

static const char *write_file(const char *text, size_t bytes)
{
    static const char path[] = "test_cli_text.tmp";
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
    return path;
}

static void assert_read(const char *text, size_t bytes, const char *wanted, size_t wanted_bytes)
{
    struct bmoe_error err;
    struct cli_text t;

    assert_int_equal(cli_text_read(&t, write_file(text, bytes), "the prompt", &err), 0);
    assert_int_equal(t.bytes, wanted_bytes);
    assert_memory_equal(t.text, wanted, wanted_bytes);
    assert_int_equal(t.text[t.bytes], '\0');
    cli_text_free(&t);
    assert_null(t.text);
}

static void test_files(void **state)
{
    size_t bytes = 200001;
    char *big = malloc(bytes);

    (void)state;
    memset(big, 'x', bytes);
    assert_read("one", 3, "one", 3);
    assert_read("one\n", 4, "one", 3);
    assert_read("one\n\n", 5, "one\n", 4);
    assert_read("a\0b", 3, "a\0b", 3);
    assert_read(big, bytes, big, bytes);
    free(big);
}

static void test_refusals(void **state)
{
    struct bmoe_error err;
    struct cli_text t = {0};

    (void)state;
    assert_int_equal(cli_text_read(&t, write_file("", 0), "the prompt", &err), BMOE_E_CONTEXT);
    assert_string_equal(err.text, "the prompt is empty: test_cli_text.tmp");
    assert_int_equal(cli_text_read(&t, write_file("\n", 1), "the prompt", &err), BMOE_E_CONTEXT);
    assert_int_equal(cli_text_read(&t, write_file("ab\xFF", 3), "the prompt", &err), BMOE_E_IO);
    assert_string_equal(err.text, "the prompt is not UTF-8 text (byte 3 of test_cli_text.tmp)");
    assert_int_equal(cli_text_read(&t, "/nonexistent/x", "the prompt", &err), BMOE_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    assert_int_equal(cli_text_read(&t, "/", "the prompt", &err), BMOE_E_IO);
    assert_non_null(strstr(err.text, "directory"));
    assert_int_equal(cli_text_copy(&t, "", "the prompt", &err), BMOE_E_CONTEXT);
    assert_string_equal(err.text, "the prompt is empty");
    assert_null(t.text);
    unlink("test_cli_text.tmp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
