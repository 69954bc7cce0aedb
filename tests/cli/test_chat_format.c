/*
 * Chat formats: which one a template is, and renderings written by hand from the public templates
 * of the models. Where libllama knows the format too, test_chat_libllama compares with it.
 *
 * Nemotron's four are equal to what another Jinja engine (huggingface/jinja 0.5.11) made of these
 * rules, set down from memory of Nemotron 3 Nano's template, whose text was not at hand: a system
 * turn is always there, empty when none was given; an answer without a span gets an empty one, and
 * of one before the last question only an empty span and what follows it are left; the prompt ends
 * with an open span, or with an empty one where thinking is off. Where an answer followed its span
 * on a new line, the template keeps that line end and we, who do not keep spans, do not.
 */
#include "chat_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The ends of public templates, as far as they matter here. */
#define QWEN3                                                                                      \
    "{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') }}"      \
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"                             \
    "{%- if enable_thinking is defined and enable_thinking is false %}"                            \
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"
#define QWEN3_5                                                                                    \
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"                             \
    "{%- if enable_thinking is defined and enable_thinking is false %}"                            \
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"
#define QWEN3_INSTRUCT                                                                             \
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
#define GEMMA3  "{{ '<start_of_turn>' + role + '\\n' }}{{ '<end_of_turn>\\n' }}"
#define GEMMA_4 "{{- '<|turn>' + role + '\\n' }}{{- '<turn|>\\n' -}}{{- '<|think|>' -}}"
#define GPT_OSS "{{- \"<|start|>assistant<|channel|>final<|message|>\" + message.content }}"
#define NEMOTRON_3                                                                                 \
    "{%- set truncate_history_thinking = true %}{{- '<|im_start|>user\\n' }}"                      \
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}"

struct choice {
    const char *template_text;
    enum chat_id id;
    bool can_think, opens;
};

static const struct choice choices[] = {
    {QWEN3, CHAT_CHATML, true, false},           {QWEN3_5, CHAT_CHATML, true, true},
    {QWEN3_INSTRUCT, CHAT_CHATML, false, false}, {GEMMA3, CHAT_GEMMA, false, false},
    {GEMMA_4, CHAT_GEMMA4, true, false},         {GPT_OSS, CHAT_GPT_OSS, true, false},
    {NEMOTRON_3, CHAT_NEMOTRON, true, true},
};

static void test_choice(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        struct bmoe_error err;
        struct chat chat;

        assert_int_equal(chat_choose(&chat, choices[i].template_text, -1, true, &err), 0);
        assert_ptr_equal(chat.format, chat_format_get(choices[i].id));
        assert_int_equal(chat.can_think, choices[i].can_think);
        assert_int_equal(chat.opens, choices[i].opens);
    }
}

static void test_unknown_template(void **state)
{
    struct bmoe_error err;
    struct chat chat;

    (void)state;
    assert_int_equal(chat_choose(&chat, "[INST] {{ x }} [/INST]", -1, true, &err), BMOE_E_MODEL);
    assert_non_null(strstr(err.text, "none of the formats"));
    assert_non_null(strstr(err.text, "chatml, gemma, gemma4, gpt-oss, nemotron"));
    assert_int_equal(chat_choose(&chat, NULL, -1, true, &err), BMOE_E_MODEL);
    assert_non_null(strstr(err.text, "has no chat template"));
    assert_int_equal(chat_choose(&chat, "[INST]", CHAT_GEMMA, true, &err), 0);
    assert_string_equal(chat.format->name, "gemma");
}

#define TEXT(role, text)                                                                           \
    {                                                                                              \
        role, text, sizeof(text) - 1                                                               \
    }

static const struct chat_message one_turn[] = {TEXT(CHAT_USER, "Hi")};
static const struct chat_message talk[] = {TEXT(CHAT_SYSTEM, "Be brief."), TEXT(CHAT_USER, "Hi"),
                                           TEXT(CHAT_ASSISTANT, "Hello!"), TEXT(CHAT_USER, "Bye")};

struct rendering {
    const char *template_text;
    bool think;
    const char *one, *whole;
};

#define OSS_HEAD                                                                                   \
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"       \
    "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, "   \
    "final. Channel must be included for every message.<|end|>"
#define OSS_TALK                                                                                   \
    OSS_HEAD "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n<|end|>"                 \
             "<|start|>user<|message|>Hi<|end|>"                                                   \
             "<|start|>assistant<|channel|>final<|message|>Hello!<|end|>"                          \
             "<|start|>user<|message|>Bye<|end|><|start|>assistant"
#define IM_ONE "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
#define IM_TALK                                                                                    \
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"                    \
    "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"                   \
    "<|im_start|>assistant\n"
#define NEMO_TALK                                                                                  \
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"                    \
    "<|im_start|>assistant\n<think></think>Hello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"    \
    "<|im_start|>assistant\n"
#define G4_TALK                                                                                    \
    "Be brief.<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello!<turn|>\n"                      \
    "<|turn>user\nBye<turn|>\n<|turn>model\n"
#define G4_EMPTY "<|channel>thought\n<channel|>"

static const struct rendering renderings[] = {
    {QWEN3, true, IM_ONE, IM_TALK},
    {QWEN3, false, IM_ONE "<think>\n\n</think>\n\n", IM_TALK "<think>\n\n</think>\n\n"},
    {QWEN3_5, true, IM_ONE "<think>\n", IM_TALK "<think>\n"},
    {QWEN3_5, false, IM_ONE "<think>\n\n</think>\n\n", IM_TALK "<think>\n\n</think>\n\n"},
    {QWEN3_INSTRUCT, true, IM_ONE, IM_TALK},
    {QWEN3_INSTRUCT, false, IM_ONE, IM_TALK},
    {GEMMA3, true, "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
     "<start_of_turn>user\nBe "
     "brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
     "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
    {GEMMA_4, true, "<|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\n",
     "<|turn>system\n<|think|>\n" G4_TALK},
    {GEMMA_4, false, "<|turn>user\nHi<turn|>\n<|turn>model\n" G4_EMPTY,
     "<|turn>system\n" G4_TALK G4_EMPTY},
    {GPT_OSS, true, OSS_HEAD "<|start|>user<|message|>Hi<|end|><|start|>assistant", OSS_TALK},
    {GPT_OSS, false,
     OSS_HEAD "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>",
     OSS_TALK "<|channel|>final<|message|>"},
    {NEMOTRON_3, true, "<|im_start|>system\n<|im_end|>\n" IM_ONE "<think>\n",
     NEMO_TALK "<think>\n"},
    {NEMOTRON_3, false, "<|im_start|>system\n<|im_end|>\n" IM_ONE "<think></think>",
     NEMO_TALK "<think></think>"},
};

static void assert_rendered(const struct chat *chat, const struct chat_message *messages, size_t n,
                            const char *wanted)
{
    struct bmoe_error err;
    struct chat_prompt p;

    assert_int_equal(chat_render(chat, messages, n, &p, &err), 0);
    assert_string_equal(p.text, wanted);
    assert_int_equal(p.bytes, strlen(wanted));
    assert_int_equal(p.n_words, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(p.words[i].end - p.words[i].begin, messages[i].bytes);
        assert_memory_equal(p.text + p.words[i].begin, messages[i].text, messages[i].bytes);
    }
    chat_prompt_fini(&p);
}

static void test_renderings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(renderings) / sizeof(renderings[0]); i++) {
        const struct rendering *r = &renderings[i];
        struct bmoe_error err;
        struct chat chat;

        assert_int_equal(chat_choose(&chat, r->template_text, -1, r->think, &err), 0);
        assert_rendered(&chat, one_turn, 1, r->one);
        assert_rendered(&chat, talk, 4, r->whole);
    }
}

/* A longer conversation begins with the rendering of a shorter one without its last turn's
 * beginning, so that the KV cache's prefix is of use. */
static void test_prefix_is_kept(void **state)
{
    (void)state;
    for (int id = 0; id < CHAT_COUNT; id++) {
        struct bmoe_error err;
        struct chat chat;
        struct chat_prompt shorter, longer;
        size_t turn_bytes;

        assert_int_equal(chat_choose(&chat, NULL, id, true, &err), 0);
        assert_int_equal(chat_render(&chat, talk, 2, &shorter, &err), 0);
        assert_int_equal(chat_render(&chat, talk, 4, &longer, &err), 0);
        turn_bytes = chat.opens ? strlen(chat.format->begin_think) : 0;
        assert_memory_equal(longer.text, shorter.text, shorter.bytes - turn_bytes);
        chat_prompt_fini(&shorter);
        chat_prompt_fini(&longer);
    }
}

/* Text may hold any byte but is never interpreted. */
static void test_long_text(void **state)
{
    size_t bytes = 100000;
    char *big = malloc(bytes);
    struct chat_message message = {CHAT_USER, big, bytes};
    struct bmoe_error err;
    struct chat chat;
    struct chat_prompt p;

    (void)state;
    memset(big, '%', bytes);
    assert_int_equal(chat_choose(&chat, NULL, CHAT_CHATML, true, &err), 0);
    assert_int_equal(chat_render(&chat, &message, 1, &p, &err), 0);
    assert_int_equal(p.bytes, bytes + strlen(IM_ONE) - 2);
    assert_int_equal(p.text[p.bytes], '\0');
    chat_prompt_fini(&p);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),     cmocka_unit_test(test_unknown_template),
        cmocka_unit_test(test_renderings), cmocka_unit_test(test_prefix_is_kept),
        cmocka_unit_test(test_long_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
