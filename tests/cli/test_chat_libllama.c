/*
 * Our renderings against libllama's own (llama_chat_apply_template) for the formats it knows. Where
 * they differ by intent, the difference is taken out here and named.
 */
#include "chat_format.h"

#include <llama.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 4096, N_TALK = 4 };

static const char *const roles[] = {"system", "user", "assistant"};
static const struct chat_message talk[N_TALK] = {{CHAT_SYSTEM, "Be brief.", 9},
                                                 {CHAT_USER, "Hi", 2},
                                                 {CHAT_ASSISTANT, "Hello!", 6},
                                                 {CHAT_USER, "Bye", 3}};

/* libllama's rendering of talk[first..4). */
static void render_theirs(const char *name, size_t first, char *out)
{
    struct llama_chat_message messages[N_TALK];
    int n;

    for (size_t i = first; i < N_TALK; i++)
        messages[i - first] = (struct llama_chat_message){roles[talk[i].role], talk[i].text};
    n = llama_chat_apply_template(name, messages, N_TALK - first, true, out, TEXT_MAX - 1);
    assert_in_range(n, 1, TEXT_MAX - 1);
    out[n] = '\0';
}

static char *render_ours(enum chat_id id, size_t first)
{
    struct bmoe_error err;
    struct chat chat;
    struct chat_prompt p;

    assert_int_equal(chat_choose(&chat, NULL, (int)id, true, &err), 0);
    assert_int_equal(chat_render(&chat, talk + first, N_TALK - first, &p, &err), 0);
    free(p.words);
    return p.text;
}

/* Removes the first `part` from text; it must be there. */
static void take_out(char *text, const char *part)
{
    char *at = strstr(text, part);

    assert_non_null(at);
    memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
}

static void assert_same(enum chat_id id, const char *name)
{
    for (size_t first = 0; first < 2; first++) {
        char theirs[TEXT_MAX];
        char *ours = render_ours(id, first);

        render_theirs(name, first, theirs);
        assert_string_equal(ours, theirs);
        free(ours);
    }
}

static void test_chatml(void **state)
{
    (void)state;
    assert_same(CHAT_CHATML, "chatml");
}

static void test_gemma(void **state)
{
    (void)state;
    assert_same(CHAT_GEMMA, "gemma");
}

/* Ours has the system text and the final channel of the model's own template, which libllama leaves
 * out; it ends earlier answers with <|return|>. */
static void test_gpt_oss(void **state)
{
    char theirs[TEXT_MAX];
    char *ours = render_ours(CHAT_GPT_OSS, 1);
    char *head_end = strstr(ours, "<|start|>user");

    (void)state;
    assert_non_null(head_end);
    memmove(ours, head_end, strlen(head_end) + 1);
    take_out(ours, "<|channel|>final<|message|>Hello!<|end|>");
    render_theirs("gpt-oss", 1, theirs);
    take_out(theirs, "<|message|>Hello!<|return|>");
    assert_string_equal(ours, theirs);
    free(ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chatml),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_gpt_oss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
