/*
 * The table of chat formats and its rendering: see chat_format.h.
 *
 * Sources of the rows: chatml, gemma and gpt-oss as libllama renders them (a test compares) and as
 * their public templates do, with the thinking spans of Qwen3; nemotron by the rules of Nemotron
 * 3's public template, which test_chat_format lists; gemma4's marks, system text and thinking span
 * as Google's page on its prompt format has them and node-llama-cpp 3.22 renders them. [inferred]:
 * gemma4 and gpt-oss without thinking, which get an empty span and the final channel at once;
 * gpt-oss's system text, which leaves out the date so that the same prompt has the same bits
 * tomorrow; nemotron's earlier answers, which keep an empty span.
 */
#include "chat_format.h"

#include "cli_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IM_TURNS                                                                                   \
    {                                                                                              \
        "<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"                    \
    }
#define IM_ENDS                                                                                    \
    {                                                                                              \
        "<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"                                             \
    }
#define GPT_OSS_HEAD                                                                               \
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"       \
    "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n"                                           \
    "# Valid channels: analysis, commentary, final. Channel must be included for every message."   \
    "<|end|>"

static const struct chat_format formats[CHAT_COUNT] = {
    [CHAT_CHATML] = {.name = "chatml",
                     .marks = {"<|im_start|>"},
                     .turn_begin = IM_TURNS,
                     .turn_end = IM_ENDS,
                     .begin_think = "<think>\n",
                     .begin_no_think = "<think>\n\n</think>\n\n",
                     .think_open = "<think>",
                     .think_close = "</think>",
                     .stop = {"<|im_end|>"}},
    [CHAT_GEMMA] = {.name = "gemma",
                    .marks = {"<start_of_turn>"},
                    .turn_begin = {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"},
                    .turn_end = {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"},
                    .stop = {"<end_of_turn>"}},
    [CHAT_GEMMA4] = {.name = "gemma4",
                     .marks = {"<|turn>"},
                     .turn_begin = {"<|turn>system\n", "<|turn>user\n", "<|turn>model\n"},
                     .turn_end = {"<turn|>\n", "<turn|>\n", "<turn|>\n"},
                     .system_think = "<|think|>\n",
                     .begin_no_think = "<|channel>thought\n<channel|>",
                     .think_open = "<|channel>thought",
                     .think_close = "<channel|>",
                     .stop = {"<turn|>"},
                     .always_thinks = true},
    [CHAT_GPT_OSS] = {.name = "gpt-oss",
                      .marks = {"<|start|>", "<|channel|>"},
                      .turn_begin = {"<|start|>developer<|message|># Instructions\n\n",
                                     "<|start|>user<|message|>", "<|start|>assistant"},
                      .turn_end = {"\n\n<|end|>", "<|end|>", "<|end|>"},
                      .past_answer = "<|channel|>final<|message|>",
                      .head = GPT_OSS_HEAD,
                      .begin_no_think = "<|channel|>final<|message|>",
                      .think_open = "<|channel|>analysis<|message|>",
                      .think_close = "<|end|><|start|>assistant<|channel|>final<|message|>",
                      .answer_open = "<|channel|>final<|message|>",
                      .stop = {"<|return|>", "<|call|>"},
                      .always_thinks = true},
    [CHAT_NEMOTRON] = {.name = "nemotron",
                       .marks = {"<|im_start|>", "truncate_history_thinking"},
                       .turn_begin = IM_TURNS,
                       .turn_end = IM_ENDS,
                       .past_answer = "<think></think>",
                       .system_if_none = "<|im_start|>system\n<|im_end|>\n",
                       .begin_think = "<think>\n",
                       .begin_no_think = "<think></think>",
                       .think_open = "<think>",
                       .think_close = "</think>",
                       .stop = {"<|im_end|>"},
                       .always_thinks = true},
};

/* Formats whose marks are a subset of another's are asked last. */
static const enum chat_id by_marks[CHAT_COUNT] = {CHAT_NEMOTRON, CHAT_GPT_OSS, CHAT_GEMMA4,
                                                  CHAT_GEMMA, CHAT_CHATML};

const struct chat_format *chat_format_get(int id)
{
    return id >= 0 && id < CHAT_COUNT ? &formats[id] : NULL;
}

static bool has_marks(const struct chat_format *format, const char *text)
{
    for (size_t i = 0; i < sizeof(format->marks) / sizeof(format->marks[0]); i++) {
        if (format->marks[i] != NULL && strstr(text, format->marks[i]) == NULL)
            return false;
    }
    return true;
}

static int refuse_template(bool present, struct bmoe_error *err)
{
    char names[128] = "";

    for (int i = 0; i < CHAT_COUNT; i++) {
        size_t used = strlen(names);

        snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", formats[i].name);
    }
    return cli_error_set(err, BMOE_E_MODEL,
                         "%s; name one of %s with --chat-format, or give the prompt as the model "
                         "wants it with -p",
                         present ? "the model's chat template is none of the formats known here"
                                 : "the model has no chat template",
                         names);
}

/* True when the template ends the prompt for an answer by opening the span itself. Only what
 * follows the last add_generation_prompt counts, as earlier answers are written with a span too.
 * The text is Jinja, so the line end is the two characters \n before the closing quote. */
static bool template_opens_span(const char *text)
{
    const char *last = NULL;

    for (const char *p = text; (p = strstr(p, "add_generation_prompt")) != NULL; p++)
        last = p;
    return last != NULL &&
           (strstr(last, "<think>\\n'") != NULL || strstr(last, "<think>\\n\"") != NULL);
}

int chat_choose(struct chat *out, const char *template_text, int id, bool think,
                struct bmoe_error *err)
{
    const char *text = template_text != NULL ? template_text : "";
    const struct chat_format *format = chat_format_get(id);

    for (size_t i = 0; format == NULL && i < CHAT_COUNT; i++) {
        if (has_marks(&formats[by_marks[i]], text))
            format = &formats[by_marks[i]];
    }
    if (format == NULL)
        return refuse_template(template_text != NULL, err);
    out->format = format;
    out->can_think = format->always_thinks ||
                     (format->think_open != NULL && strstr(text, format->think_open) != NULL);
    out->opens =
        format->begin_think != NULL && (format->always_thinks || template_opens_span(text));
    out->think = think;
    return 0;
}

bool chat_starts_thinking(const struct chat *chat)
{
    return chat->can_think && chat->think && chat->opens;
}

/* Text under construction; `failed` once memory is short, and then nothing more is added. */
struct builder {
    char *text;
    size_t bytes, room;
    struct bmoe_span *words; /* room for every message */
    size_t n_words;
    size_t stable;
    bool failed;
};

static void add(struct builder *b, const char *text, size_t bytes)
{
    if (!b->failed && b->room - b->bytes <= bytes) {
        size_t room = (b->bytes + bytes) * 2 + 256;
        char *grown = room > bytes ? realloc(b->text, room) : NULL;

        b->failed = grown == NULL;
        if (b->failed)
            return;
        b->text = grown;
        b->room = room;
    }
    if (b->failed)
        return;
    memcpy(b->text + b->bytes, text, bytes);
    b->bytes += bytes;
    b->text[b->bytes] = '\0';
}

static void add_text(struct builder *b, const char *text)
{
    if (text != NULL)
        add(b, text, strlen(text));
}

static void add_words(struct builder *b, const struct chat_message *m)
{
    size_t begin = b->bytes;

    add(b, m->text, m->bytes);
    if (!b->failed)
        b->words[b->n_words++] = (struct bmoe_span){begin, b->bytes};
}

static void add_turn(struct builder *b, const struct chat_format *f, const struct chat_message *m)
{
    add_text(b, f->turn_begin[m->role]);
    if (m->role == CHAT_ASSISTANT)
        add_text(b, f->past_answer);
    add_words(b, m);
    add_text(b, f->turn_end[m->role]);
}

/* Everything before the first user turn; answers how many messages it took. */
static size_t add_system(struct builder *b, const struct chat *chat,
                         const struct chat_message *messages, size_t n)
{
    const struct chat_format *f = chat->format;
    bool given = n > 0 && messages[0].role == CHAT_SYSTEM;
    const char *think = chat->can_think && chat->think ? f->system_think : NULL;

    add_text(b, f->head);
    if (!given && think == NULL) {
        add_text(b, f->system_if_none);
        return 0;
    }
    if (f->turn_begin[CHAT_SYSTEM] == NULL)
        return 0;
    add_text(b, f->turn_begin[CHAT_SYSTEM]);
    add_text(b, think);
    if (given)
        add_words(b, &messages[0]);
    add_text(b, f->turn_end[CHAT_SYSTEM]);
    return given ? 1 : 0;
}

static void add_answer_begin(struct builder *b, const struct chat *chat)
{
    const struct chat_format *f = chat->format;

    add_text(b, f->turn_begin[CHAT_ASSISTANT]);
    b->stable = b->bytes;
    if (!chat->can_think)
        add_text(b, f->begin_plain);
    else if (!chat->think)
        add_text(b, f->begin_no_think);
    else if (chat->opens)
        add_text(b, f->begin_think);
}

void chat_prompt_fini(struct chat_prompt *prompt)
{
    free(prompt->text);
    free(prompt->words);
    *prompt = (struct chat_prompt){0};
}

int chat_render(const struct chat *chat, const struct chat_message *messages, size_t n,
                struct chat_prompt *out, struct bmoe_error *err)
{
    const struct chat_format *f = chat->format;
    const struct chat_message *merged = NULL;
    struct builder b = {.words = calloc(n + 1, sizeof(*b.words))};

    b.failed = b.words == NULL;

    for (size_t i = add_system(&b, chat, messages, n); i < n; i++) {
        if (messages[i].role == CHAT_SYSTEM && f->turn_begin[CHAT_SYSTEM] == NULL) {
            merged = &messages[i];
            continue;
        }
        if (merged != NULL && messages[i].role == CHAT_USER) {
            add_text(&b, f->turn_begin[CHAT_USER]);
            add_words(&b, merged);
            add_text(&b, f->turn_end[CHAT_SYSTEM]);
            add_words(&b, &messages[i]);
            add_text(&b, f->turn_end[CHAT_USER]);
            merged = NULL;
            continue;
        }
        add_turn(&b, f, &messages[i]);
    }
    add_answer_begin(&b, chat);
    if (b.failed) {
        free(b.text);
        free(b.words);
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the conversation's text");
    }
    *out = (struct chat_prompt){b.text, b.bytes, b.words, b.n_words, b.stable};
    return 0;
}
