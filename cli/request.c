/*
 * The tables of fields and their walk: see request.h.
 */
#include "request.h"

#include "chat_format.h"
#include "cli_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field_type {
    FIELD_INT,     /* int64_t */
    FIELD_REAL,    /* double */
    FIELD_BOOL,    /* bool */
    FIELD_TEXT,    /* struct request_text */
    FIELD_TEXTS,   /* const json_t *: a list of texts, none of them empty, at most `max` */
    FIELD_MESSAGES /* const json_t *: a list of {role, content} */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset; /* in struct request */
    double min, max;
    bool above_min, required;
    const char *fallback; /* as documented */
    const char *meaning;
};

#define AT(member)       offsetof(struct request, member)
#define SAMPLING(member) offsetof(struct request, sampling.member)
#define ID                                                                                         \
    {                                                                                              \
        "id", FIELD_INT, AT(id), -9.0e15, 9.0e15, .fallback = "0",                                 \
                                                  .meaning = "names the request in its answers"    \
    }
#define END                                                                                        \
    {                                                                                              \
        .name = NULL                                                                               \
    }

static const struct field sampling_fields[] = {
    {"temp", FIELD_REAL, SAMPLING(temp), 0, 100, .fallback = "`--temp`",
     .meaning = "temperature, 0 is greedy"},
    {"top_k", FIELD_INT, SAMPLING(top_k), 0, INT32_MAX, .fallback = "`--top-k`",
     .meaning = "sample from the likeliest, 0 from all"},
    {"top_p", FIELD_REAL, SAMPLING(top_p), 0, 1, .above_min = true, .fallback = "`--top-p`",
     .meaning = "sample from the likeliest whose sum is this"},
    {"min_p", FIELD_REAL, SAMPLING(min_p), 0, 1, .fallback = "`--min-p`",
     .meaning = "leave out what is less likely than this times the likeliest"},
    {"repeat_penalty", FIELD_REAL, SAMPLING(repeat_penalty), 0, 100, .above_min = true,
     .fallback = "`--repeat-penalty`", .meaning = "make recent tokens less likely, 1 is off"},
    {"seed", FIELD_INT, SAMPLING(seed), 0, UINT32_MAX, .fallback = "`--seed`",
     .meaning = "seed of the sampler"},
    END};

static const struct field generate_fields[] = {
    ID,
    {"prompt", FIELD_TEXT, AT(prompt), .fallback = "",
     .meaning = "the text, or with `--chatml` the user's new message"},
    {"messages", FIELD_MESSAGES, AT(messages), .fallback = "",
     .meaning = "instead of `prompt`: the whole conversation, a list of `{\"role\", \"content\"}`, "
                "roles `system` (first only), `user`, `assistant`, the last one `user`"},
    {"n_predict", FIELD_INT, AT(n_predict), 0, 1 << 30, .fallback = "`-n`",
     .meaning = "tokens at most, 0 until the context is full"},
    {"think", FIELD_BOOL, AT(think), .fallback = "`--no-think`",
     .meaning = "whether to think first, where the model's chat format can"},
    {"clear_kv", FIELD_BOOL, AT(clear_kv), .fallback = "true",
     .meaning = "forget the conversation and the context; false: go on, reusing what is common"},
    {"fit_ctx", FIELD_BOOL, AT(fit_ctx), .fallback = "false",
     .meaning = "leave the oldest exchanges out where the conversation does not fit the context"},
    {"ignore_eos", FIELD_BOOL, AT(ignore_eos), .fallback = "`--ignore-eos`",
     .meaning = "go on when the model ends its answer"},
    {"stop", FIELD_TEXTS, AT(stop), .max = CLI_STOP_MAX, .fallback = "`--stop`",
     .meaning = "texts that end the answer and are not part of it, at most 16"},
    {"grammar", FIELD_TEXT, AT(grammar), .fallback = "`--grammar-file`",
     .meaning = "GBNF that the answer keeps to"},
    END};

static const struct field decide_fields[] = {
    ID,
    {"prefix", FIELD_TEXT, AT(prefix), .required = true, .fallback = "",
     .meaning = "the beginning that requests have in common"},
    {"suffix", FIELD_TEXT, AT(suffix), .fallback = "empty", .meaning = "what follows it"},
    {"choices", FIELD_TEXTS, AT(choices), .max = 1024, .required = true, .fallback = "",
     .meaning = "the texts that are scored by their first token"},
    {"reuse_prefix", FIELD_BOOL, AT(reuse_prefix), .fallback = "true",
     .meaning = "use the kept state of the prefix, and keep it"},
    END};

static const struct field cancel_fields[] = {{"id", FIELD_INT, AT(id), -9.0e15, 9.0e15,
                                              .fallback = "the running request, or the next",
                                              .meaning = "the request to end, running or waiting"},
                                             END};
static const struct field bare_fields[] = {ID, END};

static const struct command {
    const char *name;
    const struct field *fields;
} commands[REQUEST_CMD_COUNT] = {
    [REQUEST_GENERATE] = {"generate", generate_fields},
    [REQUEST_DECIDE] = {"decide", decide_fields},
    [REQUEST_CANCEL] = {"cancel", cancel_fields},
    [REQUEST_STATS] = {"stats", bare_fields},
    [REQUEST_CLEAR] = {"clear", bare_fields},
    [REQUEST_CLOSE] = {"close", bare_fields},
};

static const char *const role_names[] = {
    [CHAT_SYSTEM] = "system", [CHAT_USER] = "user", [CHAT_ASSISTANT] = "assistant"};

int request_role(const char *name)
{
    for (int i = 0; i < CHAT_ROLE_COUNT; i++) {
        if (strcmp(role_names[i], name) == 0)
            return i;
    }
    return -1;
}

static bool refuse(struct request *r, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(struct request *r, const char *code, const char *format, ...)
{
    va_list args;

    r->code = code;
    va_start(args, format);
    vsnprintf(r->wrong, sizeof(r->wrong), format, args);
    va_end(args);
    /* The sentence quotes the line, and may have been cut within a character. */
    r->wrong[cli_text_utf8_prefix(r->wrong, strlen(r->wrong))] = '\0';
    return false;
}

static bool take_number(struct request *r, const struct field *f, const json_t *value)
{
    double number = json_number_value(value);
    bool fits = f->type == FIELD_INT ? json_is_integer(value) : json_is_number(value);

    fits = fits && number <= f->max && (f->above_min ? number > f->min : number >= f->min);
    if (!fits)
        return refuse(r, "field", "\"%s\" takes a %s %s%.10g to %.10g", f->name,
                      f->type == FIELD_INT ? "whole number" : "number",
                      f->above_min ? "above " : "from ", f->min, f->max);
    if (f->type == FIELD_INT)
        *(int64_t *)(void *)((char *)r + f->offset) = json_integer_value(value);
    else
        *(double *)(void *)((char *)r + f->offset) = number;
    return true;
}

static bool check_texts(struct request *r, const struct field *f, const json_t *value)
{
    size_t n = json_array_size(value);

    if (!json_is_array(value) || n > (size_t)f->max)
        return refuse(r, "field", "\"%s\" takes a list of at most %.0f texts", f->name, f->max);
    for (size_t i = 0; i < n; i++) {
        if (json_string_length(json_array_get(value, i)) == 0)
            return refuse(r, "field", "\"%s\"[%zu] is not a text, or is empty", f->name, i);
    }
    return true;
}

static bool check_message(struct request *r, size_t i, size_t n, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    int known = role != NULL ? request_role(role) : -1;

    if (json_object_size(message) != 2 || known < 0 || !json_is_string(content))
        return refuse(r, "field",
                      "\"messages\"[%zu] is not {\"role\": \"system\", \"user\" or \"assistant\", "
                      "\"content\": text}",
                      i);
    if (known == CHAT_SYSTEM && i > 0)
        return refuse(r, "field", "\"messages\"[%zu] is the system's, and only the first can be",
                      i);
    if (i + 1 == n && known != CHAT_USER)
        return refuse(r, "field", "the last of \"messages\" is not the user's");
    return true;
}

static bool check_messages(struct request *r, const json_t *value)
{
    size_t n = json_array_size(value);

    if (n == 0)
        return refuse(r, "field", "\"messages\" takes a list with at least one message");
    for (size_t i = 0; i < n; i++) {
        if (!check_message(r, i, n, json_array_get(value, i)))
            return false;
    }
    return true;
}

static bool take_field(struct request *r, const struct field *f, const json_t *value)
{
    void *at = (char *)r + f->offset;

    switch (f->type) {
    case FIELD_INT:
    case FIELD_REAL:
        return take_number(r, f, value);
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return refuse(r, "field", "\"%s\" takes true or false", f->name);
        *(bool *)at = json_is_true(value);
        return true;
    case FIELD_TEXT:
        if (!json_is_string(value))
            return refuse(r, "field", "\"%s\" takes a text", f->name);
        *(struct request_text *)at =
            (struct request_text){json_string_value(value), json_string_length(value)};
        return true;
    case FIELD_TEXTS:
        *(const json_t **)at = value;
        return check_texts(r, f, value);
    case FIELD_MESSAGES:
        *(const json_t **)at = value;
        return check_messages(r, value);
    }
    return false;
}

static const struct field *find_field(const struct field *fields, const char *name)
{
    for (; fields->name != NULL; fields++) {
        if (strcmp(fields->name, name) == 0)
            return fields;
    }
    return NULL;
}

static bool take_object(struct request *r, const struct field *fields, json_t *object,
                        const char *of)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        const struct field *f = find_field(fields, name);

        if (f == NULL && strcmp(of, "generate") == 0 && strcmp(name, "sampling") == 0) {
            if (!json_is_object(value))
                return refuse(r, "field", "\"sampling\" takes an object");
            if (!take_object(r, sampling_fields, value, "sampling"))
                return false;
        } else if (f == NULL && strcmp(name, "cmd") != 0) {
            return refuse(r, "field", "\"%s\" has no field \"%.80s\"", of, name);
        } else if (f != NULL && !take_field(r, f, value)) {
            return false;
        }
    }
    for (; fields->name != NULL; fields++) {
        if (fields->required && json_object_get(object, fields->name) == NULL)
            return refuse(r, "field", "\"%s\" needs the field \"%s\"", of, fields->name);
    }
    return true;
}

/* Fields that belong together. */
static bool check_whole(struct request *r)
{
    if (r->cmd == REQUEST_GENERATE && (r->prompt.text == NULL) == (r->messages == NULL))
        return refuse(r, "field", "\"generate\" takes either \"prompt\" or \"messages\"");
    if (r->cmd == REQUEST_DECIDE && json_array_size(r->choices) == 0)
        return refuse(r, "field", "\"choices\" is empty: there is nothing to decide");
    return true;
}

static bool take_line(struct request *r, const char *line, size_t bytes)
{
    json_error_t error;
    const json_t *id;
    const char *cmd;
    size_t good = cli_text_utf8_prefix(line, bytes);

    if (good < bytes)
        return refuse(r, "utf8", "the line is not UTF-8 at byte %zu", good);
    r->object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
    if (r->object == NULL)
        return refuse(r, "json", "the line is not JSON: %s at byte %d", error.text, error.position);
    if (!json_is_object(r->object))
        return refuse(r, "json", "the line is JSON, but no object");
    id = json_object_get(r->object, "id");
    r->has_id = json_is_integer(id);
    r->id = json_integer_value(id);
    cmd = json_string_value(json_object_get(r->object, "cmd"));
    if (cmd == NULL)
        return refuse(r, "unknown_command", "the line has no text \"cmd\"");
    for (int i = 0; i < REQUEST_CMD_COUNT; i++) {
        if (strcmp(commands[i].name, cmd) == 0) {
            r->cmd = (enum request_cmd)i;
            r->n_predict = r->cmd == REQUEST_DECIDE ? 0 : r->n_predict;
            return take_object(r, commands[i].fields, r->object, cmd) && check_whole(r);
        }
    }
    return refuse(r, "unknown_command", "there is no command \"%.80s\"", cmd);
}

static void set_defaults(struct request *r, const struct cli_options *o)
{
    r->n_predict = o->n_predict;
    r->think = !o->no_think;
    r->clear_kv = true;
    r->ignore_eos = o->ignore_eos;
    r->sampling = (struct request_sampling){.top_k = o->top_k,
                                            .seed = o->seed,
                                            .temp = (double)o->temp,
                                            .top_p = (double)o->top_p,
                                            .min_p = (double)o->min_p,
                                            .repeat_penalty = (double)o->repeat_penalty};
    r->reuse_prefix = true;
}

struct request *request_parse(const char *line, size_t bytes, const struct cli_options *options)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    set_defaults(r, options);
    take_line(r, line, bytes);
    return r;
}

struct request *request_wrong(const char *code, const char *text)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r != NULL)
        refuse(r, code, "%s", text);
    return r;
}

void request_free(struct request *r)
{
    if (r == NULL)
        return;
    json_decref(r->object);
    free(r);
}

static void visit_fields(const char *cmd, const struct field *fields,
                         void (*visit)(void *user, const struct request_field_doc *doc), void *user)
{
    static const char *const types[] = {
        [FIELD_INT] = "integer", [FIELD_REAL] = "number", [FIELD_BOOL] = "boolean",
        [FIELD_TEXT] = "text",   [FIELD_TEXTS] = "texts", [FIELD_MESSAGES] = "messages"};

    for (; fields->name != NULL; fields++) {
        struct request_field_doc doc = {cmd,
                                        fields->name,
                                        types[fields->type],
                                        fields->fallback,
                                        fields->meaning,
                                        fields->required};
        visit(user, &doc);
    }
}

void request_fields_visit(void (*visit)(void *user, const struct request_field_doc *doc),
                          void *user)
{
    for (int i = 0; i < REQUEST_CMD_COUNT; i++) {
        visit_fields(commands[i].name, commands[i].fields, visit, user);
        if (i == REQUEST_GENERATE)
            visit_fields("generate.sampling", sampling_fields, visit, user);
    }
}
