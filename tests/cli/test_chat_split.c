/*
 * The thinking span of an answer: every text is fed in pieces of every size, so that marks are cut
 * at every place.
 */
#include "chat_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct heard {
    char thought[256], answer[256];
    int n_left; /* calls after which false is answered; negative: never */
};

static bool hear(void *user, bool thinking, const char *text, size_t bytes)
{
    struct heard *h = user;
    char *to = thinking ? h->thought : h->answer;

    assert_true(bytes > 0);
    assert_true(strlen(to) + bytes < sizeof(h->answer));
    strncat(to, text, bytes);
    return h->n_left < 0 || h->n_left-- > 0;
}

struct sample {
    enum chat_id id;
    const char *template_text;
    const char *text, *thought, *answer;
};

#define CHATML_OPEN "<|im_start|> add_generation_prompt '<think>\\n'"
#define CHATML_SELF "<|im_start|> <think> add_generation_prompt ''"
#define OSS_FINAL   "<|end|><|start|>assistant<|channel|>final<|message|>"

static const struct sample samples[] = {
    {CHAT_CHATML, CHATML_OPEN, "I muse.\n</think>\n\nYes.", "I muse.\n", "Yes."},
    {CHAT_CHATML, CHATML_OPEN, "a < b </thin </think>c", "a < b </thin ", "c"},
    {CHAT_CHATML, CHATML_OPEN, "never ends </th", "never ends </th", ""},
    {CHAT_CHATML, CHATML_SELF, "<think>\nI muse.\n</think>\n\nYes.", "\nI muse.\n", "Yes."},
    {CHAT_CHATML, CHATML_SELF, "\n<think></think>Yes.", "", "Yes."},
    {CHAT_CHATML, CHATML_SELF, "<thin ice", "", "<thin ice"},
    {CHAT_CHATML, CHATML_SELF, "Say <think> aloud", "", "Say <think> aloud"},
    {CHAT_CHATML, CHATML_SELF, "<thi", "", "<thi"},
    {CHAT_CHATML, "<|im_start|>", "Plain.\n", "", "Plain.\n"},
    {CHAT_GEMMA, NULL, " <think>x</think>", "", " <think>x</think>"},
    {CHAT_GEMMA4, NULL, "<|channel>thought\nhm<channel|>Yes.", "\nhm", "Yes."},
    {CHAT_GPT_OSS, NULL, "<|channel|>analysis<|message|>hm" OSS_FINAL "Yes.", "hm", "Yes."},
    {CHAT_GPT_OSS, NULL, "<|channel|>final<|message|>Yes.", "", "Yes."},
    {CHAT_NEMOTRON, NULL, "hm\n</think>\nYes.", "hm\n", "Yes."},
};

static void test_samples_in_all_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct sample *s = &samples[i];
        size_t bytes = strlen(s->text);
        struct bmoe_error err;
        struct chat chat;

        assert_int_equal(chat_choose(&chat, s->template_text, (int)s->id, true, &err), 0);
        for (size_t piece = 1; piece <= bytes; piece++) {
            struct heard h = {.n_left = -1};
            struct chat_split split;

            chat_split_init(&split, &chat, hear, &h);
            for (size_t at = 0; at < bytes; at += piece)
                assert_true(
                    chat_split_feed(&split, s->text + at, bytes - at < piece ? bytes - at : piece));
            assert_true(chat_split_end(&split));
            assert_string_equal(h.thought, s->thought);
            assert_string_equal(h.answer, s->answer);
        }
    }
}

/* Without thinking the prompt has closed the span, and the text is the answer. */
static void test_no_think(void **state)
{
    struct heard h = {.n_left = -1};
    struct chat_split split;
    struct bmoe_error err;
    struct chat chat;

    (void)state;
    assert_int_equal(chat_choose(&chat, CHATML_OPEN, -1, false, &err), 0);
    chat_split_init(&split, &chat, hear, &h);
    assert_true(chat_split_feed(&split, "Yes.", 4));
    assert_true(chat_split_end(&split));
    assert_string_equal(h.answer, "Yes.");
}

static void test_refusal_is_passed_on(void **state)
{
    struct heard h = {.n_left = 1};
    struct chat_split split;
    struct bmoe_error err;
    struct chat chat;

    (void)state;
    assert_int_equal(chat_choose(&chat, NULL, CHAT_GEMMA, true, &err), 0);
    chat_split_init(&split, &chat, hear, &h);
    assert_true(chat_split_feed(&split, "a", 1));
    assert_false(chat_split_feed(&split, "b", 1));
}

/* What is held back fits: no mark is longer than the room for it. */
static void test_marks_fit(void **state)
{
    (void)state;
    for (int id = 0; id < CHAT_COUNT; id++) {
        const struct chat_format *f = chat_format_get(id);
        const char *marks[] = {f->think_open, f->think_close, f->answer_open};

        for (size_t i = 0; i < 3; i++)
            assert_true(marks[i] == NULL ||
                        strlen(marks[i]) < sizeof(((struct chat_split *)0)->held));
        assert_int_equal(f->think_open != NULL, f->think_close != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_in_all_pieces),
        cmocka_unit_test(test_no_think),
        cmocka_unit_test(test_refusal_is_passed_on),
        cmocka_unit_test(test_marks_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
