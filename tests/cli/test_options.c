/*
 * The option table, the parser and the values: invariants of every row, then tables of command
 * lines with what must come of them.
 */
#include "chat_format.h"
#include "help.h"
#include "near_miss.h"
#include "option_value.h"
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGS_MAX = 64 };

static void count_note(void *user, const char *line)
{
    (void)line;
    ++*(int *)user;
}

/* Splits `line` at single blanks and parses it; options point into `line`. */
static int parse_line(struct cli_options *o, char *line, int *n_notes, struct bmoe_error *err)
{
    char *argv[ARGS_MAX] = {"bmoe"};
    int argc = 1;

    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < ARGS_MAX);
        argv[argc++] = word;
    }
    *n_notes = 0;
    return options_parse(o, argc, argv, count_note, n_notes, err);
}

static void test_rows_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        bool value = row->kind <= OPTION_CHOICE && row->kind != OPTION_SWITCH;

        assert_non_null(row->name);
        assert_int_equal(strncmp(row->name, "--", 2), 0);
        assert_true(row->brief == NULL || row->brief[0] == '-');
        assert_non_null(row->help);
        assert_int_equal(row->argument != NULL, value);
        assert_true(row->min <= row->max || row->kind == OPTION_ACTION);
        assert_non_null(option_group_title(row->group));
        assert_int_equal(row->group == GROUP_REFUSED, row->kind == OPTION_REFUSED);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(row->name, option_table[k].name);
    }
}

static void test_fallbacks_parse(void **state)
{
    struct cli_options o;
    struct bmoe_error err;

    (void)state;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].fallback != NULL)
            assert_int_equal(
                option_value_store(&option_table[i], option_table[i].fallback, &o, &err), 0);
    }
}

static void test_chat_choices_are_the_formats(void **state)
{
    const struct option_choice *c = option_table[OPT_CHAT_FORMAT].choices;
    int n = 0;

    (void)state;
    for (; c->name != NULL; c++, n++)
        assert_string_equal(c->name, chat_format_get((int)c->value)->name);
    assert_int_equal(n, CHAT_COUNT);
    assert_null(chat_format_get(CHAT_COUNT));
    assert_null(chat_format_get(-1));
}

static void test_defaults(void **state)
{
    char line[] = "-m x";
    struct cli_options o;
    struct bmoe_error err;
    int n_notes;

    (void)state;
    assert_int_equal(parse_line(&o, line, &n_notes, &err), 0);
    assert_int_equal(n_notes, 0);
    assert_int_equal(o.n_predict, 128);
    assert_int_equal(o.ctx_size, 2048);
    assert_int_equal(o.threads, 0);
    assert_int_equal(o.top_k, 40);
    assert_true(o.top_p > 0.949F && o.top_p < 0.951F);
    assert_true(o.repeat_penalty == 1.0F && o.temp == 0 && o.min_p == 0);
    assert_true(o.seed == UINT32_MAX && o.cache_mb == BMOE_CACHE_AUTO);
    assert_true(o.cache_floor_mb == 1536 && o.cache_ceil_mb == 0 && o.io_threads == 4);
    assert_int_equal(o.dense, BMOE_DENSE_ANON);
    assert_int_equal(o.chat_format, -1);
    assert_string_equal(o.cache_k, "f16");
}

static void test_everything_at_once(void **state)
{
    char line[] = "-m x -p hi -n 0 -t 3 -tb 2 -c 512 -fa off -ctk q8_0 -ctv f32 --ubatch=64 "
                  "--temp .5 --top-k 7 --top-p=1 --min-p 0.1 --seed 9 --stop a --stop=b "
                  "--moe-stream --cache-mb 77 --io-threads 16 --no-odirect --cpu-repack on --place "
                  "none";
    struct cli_options o;
    struct bmoe_error err;
    int n_notes;

    (void)state;
    assert_int_equal(parse_line(&o, line, &n_notes, &err), 0);
    assert_int_equal(n_notes, 0);
    assert_string_equal(o.prompt, "hi");
    assert_true(o.n_predict == 0 && o.threads == 3 && o.threads_batch == 2 && o.ctx_size == 512);
    assert_true(o.flash_attn == BMOE_OFF && o.cpu_repack == BMOE_ON && o.place == BMOE_PLACE_NONE);
    assert_true(o.ubatch == 64 && o.temp == 0.5F && o.top_k == 7 && o.top_p == 1.0F);
    assert_true(o.seed == 9 && o.stop.n == 2 && o.cache_mb == 77 && o.io_threads == 16);
    assert_string_equal(o.stop.item[1], "b");
    assert_true(o.moe_stream && o.no_odirect && !o.no_moe_stream && !o.load_all);
}

struct refusal {
    const char *line;
    const char *says; /* part of the sentence */
};

static const struct refusal refusals[] = {
    {"", "there is no model"},
    {"-p hi", "there is no model"},
    {"-m", "--model needs a value: --model FILE"},
    {"-m -p hi", "--model needs a value"},
    {"-m x -n", "--n-predict needs a value"},
    {"-m x -n foo", "'foo'"},
    {"-m x -n 12x", "'12x'"},
    {"-m x -n -1", "from 0"},
    {"-m x -n=3", "there is no option '-n=3'"},
    {"-m x -t 0", "from 1 to 512"},
    {"-m x -t 0x4", "'0x4'"},
    {"-m x -t 1e1", "'1e1'"},
    {"-m x -t 18446744073709551617", "from 1 to 512"},
    {"-m x --cache-mb foo", "MiB or auto, not 'foo'"},
    {"-m x --cache-mb 0", "from 1"},
    {"-m x --cache-mb 700M", "'700M'"},
    {"-m x --temp nan", "'nan'"},
    {"-m x --temp inf", "'inf'"},
    {"-m x --temp 1e999", "'1e999'"},
    {"-m x --temp -0.1", "from 0"},
    {"-m x --temp 0x1p3", "'0x1p3'"},
    {"-m x --top-p 0", "above 0 to 1"},
    {"-m x --top-p 1.01", "above 0 to 1"},
    {"-m x --seed 4294967296", "4294967295"},
    {"-m x -fa maybe", "auto, on or off"},
    {"-m x --chat-format llama", "chatml, gemma, gemma4, gpt-oss or nemotron"},
    {"-m x --dense-weights ahwb", "Android"},
    {"-m x --moe-stream=1", "takes no value"},
    {"-m x --thread 2", "did you mean '--threads'"},
    {"-m x --n-perdict 2", "did you mean '--n-predict'"},
    {"-m x --zzzzzz", "'bmoe --help' lists them"},
    {"-m x hello", "no place for 'hello'"},
    {"-m x -", "no place for '-'"},
    {"-m x -p a -f b", "--prompt and --file exclude each other"},
    {"-m x --moe-stream --no-moe-stream", "exclude each other"},
    {"-m x --no-moe-stream --cache-mb 5", "exclude each other"},
    {"-m x --cache-mb 5 --cache-ceil-mb 9", "no part in --cache-mb 5"},
    {"-m x -c 100 --ubatch 101", "wider than the context"},
    {"-m x --ppl-chunk 8", "needs --ppl"},
    {"-m x --ppl f --ppl-chunk 3", "4 or more"},
    {"-m x -ctk q9", "f32, f16, bf16"},
    {"-m x --ppl f --ppl-chunk 2049", "fit the context"},
    {"-m x --ppl f -p a", "exclude each other"},
    {"-m x -p a --no-think", "add --chatml"},
    {"-m x -p a --chat-format gemma", "add --chatml"},
    {"-m x --prefetch 2", "--prefetch is not offered"},
    {"-m x --predict-prefetch", "is not offered"},
    {"-m x --drop-cold-experts=0.1", "is not offered"},
    {"-m x --expert-substitute 1", "is not offered"},
    {"-m x --route-ahead 1", "is not offered"},
    {"-m x --mtp", "is not offered"},
    {"-m x --ngram", "is not offered"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char *line = strdup(refusals[i].line);
        struct cli_options o;
        struct bmoe_error err = {0};
        int n_notes;

        if (parse_line(&o, line, &n_notes, &err) != BMOE_E_MISUSE ||
            strstr(err.text, refusals[i].says) == NULL)
            fail_msg("'%s' gave '%s'", refusals[i].line, err.text);
        free(line);
    }
}

static void test_ignored_options_are_said(void **state)
{
    char always[] = "-m x --overlap --force-cache";
    char greedy[] = "-m x --top-k 3 --seed 1";
    char sampled[] = "-m x --top-k 3 --seed 1 --temp 1";
    struct cli_options o;
    struct bmoe_error err;
    int n_notes;

    (void)state;
    assert_int_equal(parse_line(&o, always, &n_notes, &err), 0);
    assert_int_equal(n_notes, 2);
    assert_int_equal(parse_line(&o, greedy, &n_notes, &err), 0);
    assert_int_equal(n_notes, 2);
    assert_int_equal(parse_line(&o, sampled, &n_notes, &err), 0);
    assert_int_equal(n_notes, 0);
}

static void test_too_many_stops(void **state)
{
    char line[512] = "-m x";
    struct cli_options o;
    struct bmoe_error err;
    int n_notes;

    (void)state;
    for (int i = 0; i < CLI_STOP_MAX; i++)
        strcat(line, " --stop a");
    strcat(line, " --stop=a");
    assert_int_equal(parse_line(&o, line, &n_notes, &err), BMOE_E_MISUSE);
    assert_non_null(strstr(err.text, "16 times"));
}

static void test_help_needs_no_model(void **state)
{
    char line[] = "--help --nonsense";
    struct cli_options o;
    struct bmoe_error err;
    int n_notes;

    (void)state;
    assert_int_equal(parse_line(&o, line, &n_notes, &err), 0);
    assert_int_equal(o.action, CLI_HELP);
}

/* --help and the manual's section name every option. */
static void test_help_names_all(void **state)
{
    char *text = NULL, *roff = NULL;
    size_t text_bytes, roff_bytes;
    FILE *out = open_memstream(&text, &text_bytes);
    FILE *page = open_memstream(&roff, &roff_bytes);

    (void)state;
    assert_int_equal(help_print(out), 0);
    assert_int_equal(help_print_roff(page), 0);
    fclose(out);
    fclose(page);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char escaped[80] = "";

        for (const char *p = option_table[i].name; *p != '\0'; p++)
            sprintf(escaped + strlen(escaped), *p == '-' ? "\\-" : "%c", *p);
        assert_non_null(strstr(text, option_table[i].name));
        assert_non_null(strstr(roff, escaped));
    }
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 100);
    free(text);
    free(roff);
}

static void test_distance(void **state)
{
    (void)state;
    assert_int_equal(near_miss_distance("abc", 3, "abc", 3), 0);
    assert_int_equal(near_miss_distance("abc", 3, "acb", 3), 1);
    assert_int_equal(near_miss_distance("abc", 3, "ab", 2), 1);
    assert_int_equal(near_miss_distance("", 0, "ab", 2), 2);
    assert_int_equal(near_miss_distance("kitten", 6, "sitting", 7), 3);
    assert_null(near_miss_find("--", 2));
    assert_string_equal(near_miss_find("--modle", 7), "--model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_fallbacks_parse),
        cmocka_unit_test(test_chat_choices_are_the_formats),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything_at_once),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ignored_options_are_said),
        cmocka_unit_test(test_too_many_stops),
        cmocka_unit_test(test_help_needs_no_model),
        cmocka_unit_test(test_help_names_all),
        cmocka_unit_test(test_distance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
