/*
 * The command line's parser: walks argv by the option table. "--name VALUE" and "--name=VALUE" are
 * the same; a value that is itself the name of an option counts as forgotten.
 */
#include "options.h"

#include "cli_error.h"
#include "near_miss.h"
#include "option_value.h"

#include <stdio.h>
#include <string.h>

/* The row whose name or brief name is the first `bytes` bytes of text, or NULL. */
static const struct option_row *find_row(const char *text, size_t bytes)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];

        if (strlen(row->name) == bytes && memcmp(row->name, text, bytes) == 0)
            return row;
        if (row->brief != NULL && strlen(row->brief) == bytes &&
            memcmp(row->brief, text, bytes) == 0)
            return row;
    }
    return NULL;
}

static int refuse_unknown(const char *text, size_t bytes, struct bmoe_error *err)
{
    int shown = bytes < 80 ? (int)bytes : 80;
    const char *near;

    if (text[0] != '-' || bytes < 2)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "there is no place for '%.*s'; the prompt is given with -p", shown,
                             text);
    near = near_miss_find(text, bytes);
    if (near != NULL)
        return cli_error_set(err, BMOE_E_MISUSE, "there is no option '%.*s'; did you mean '%s'?",
                             shown, text, near);
    return cli_error_set(err, BMOE_E_MISUSE, "there is no option '%.*s'; 'bmoe --help' lists them",
                         shown, text);
}

/* Options without an argument. */
static int take_switch(struct cli_options *out, const struct option_row *row, options_note_fn *note,
                       void *user, struct bmoe_error *err)
{
    char line[256];

    switch (row->kind) {
    case OPTION_SWITCH:
        *(bool *)(void *)((char *)out + row->offset) = true;
        return 0;
    case OPTION_ACTION:
        *(int *)(void *)((char *)out + row->offset) = (int)row->min;
        return 0;
    case OPTION_IGNORED:
        snprintf(line, sizeof(line), "%s %s", row->name, row->help);
        note(user, line);
        return 0;
    default:
        return cli_error_set(err, BMOE_E_MISUSE, "%s %s", row->name, row->help);
    }
}

static void set_fallbacks(struct cli_options *out)
{
    struct bmoe_error unused;

    memset(out, 0, sizeof(*out));
    out->chat_format = -1;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].fallback != NULL)
            (void)option_value_store(&option_table[i], option_table[i].fallback, out, &unused);
    }
}

/* Takes argv[*i] and, if it has one, its value; *i is left on the last word taken. */
static int take_word(struct cli_options *out, int argc, char **argv, int *i, options_note_fn *note,
                     void *user, struct bmoe_error *err)
{
    const char *word = argv[*i];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    size_t bytes = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct option_row *row = find_row(word, bytes);
    const char *value;

    if (row == NULL)
        return refuse_unknown(word, bytes, err);
    out->typed[row - option_table] = true;
    if (row->argument == NULL) {
        if (equals != NULL && row->kind != OPTION_REFUSED)
            return cli_error_set(err, BMOE_E_MISUSE, "%s takes no value", row->name);
        return take_switch(out, row, note, user, err);
    }
    value = equals != NULL ? equals + 1 : (*i + 1 < argc ? argv[++*i] : NULL);
    if (value == NULL || (equals == NULL && find_row(value, strlen(value)) != NULL))
        return cli_error_set(err, BMOE_E_MISUSE, "%s needs a value: %s %s", row->name, row->name,
                             row->argument);
    return option_value_store(row, value, out, err);
}

int options_parse(struct cli_options *out, int argc, char **argv, options_note_fn *note, void *user,
                  struct bmoe_error *err)
{
    set_fallbacks(out);
    for (int i = 1; i < argc; i++) {
        int rc = take_word(out, argc, argv, &i, note, user, err);

        if (rc < 0)
            return rc;
        if (out->action == CLI_HELP || out->action == CLI_VERSION)
            return 0;
    }
    if (out->prefill_device != NULL && strcmp(out->prefill_device, "list") == 0)
        out->action = CLI_LIST_DEVICES;
    return options_check(out, note, user, err);
}
