/*
 * Parsing of option values: see option_value.h. strtoull and strtod accept blanks, signs,
 * hexadecimal numbers and "nan"; the check of the characters beforehand leaves plain decimal
 * numbers only.
 */
#include "option_value.h"

#include "cli_error.h"
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_value_u64(const char *text, uint64_t *out)
{
    char *end = NULL;
    unsigned long long value;

    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *out = value;
    return true;
}

bool option_value_double(const char *text, double *out)
{
    char *end = NULL;
    double value;

    if (*text == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

/* Appends to a sentence under construction; what does not fit is cut. */
static void append(char *out, size_t bytes, const char *text)
{
    size_t used = strlen(out);

    if (used + 1 < bytes)
        snprintf(out + used, bytes - used, "%s", text);
}

static void append_choices(const struct option_row *row, char *out, size_t bytes)
{
    for (const struct option_choice *c = row->choices; c->name != NULL; c++) {
        if (c != row->choices)
            append(out, bytes, c[1].name == NULL ? " or " : ", ");
        append(out, bytes, c->name);
    }
}

void option_value_describe(const struct option_row *row, char *out, size_t bytes)
{
    bool number = row->kind == OPTION_U32 || row->kind == OPTION_U64 || row->kind == OPTION_F32;

    out[0] = '\0';
    if (number) {
        snprintf(out, bytes, "a %s %s%.10g to %.10g",
                 row->kind == OPTION_F32 ? "number" : "whole number",
                 row->above_min ? "above " : "from ", row->min, row->max);
        if (row->unit != NULL) {
            append(out, bytes, " ");
            append(out, bytes, row->unit);
        }
    }
    if (row->choices != NULL) {
        append(out, bytes, number ? " or " : "");
        append_choices(row, out, bytes);
    }
}

static int refuse(const struct option_row *row, const char *text, struct bmoe_error *err)
{
    char accepted[256];

    option_value_describe(row, accepted, sizeof(accepted));
    return cli_error_set(err, BMOE_E_MISUSE, "%s takes %s, not '%.80s'", row->name, accepted, text);
}

/* True when text is one of the row's choices; *out is its value. */
static bool find_choice(const struct option_row *row, const char *text, int64_t *out)
{
    for (const struct option_choice *c = row->choices; c != NULL && c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            *out = c->value;
            return true;
        }
    }
    return false;
}

/* The value of a whole number or a choice that stands for one. */
static bool parse_whole(const struct option_row *row, const char *text, uint64_t *out)
{
    int64_t choice;

    if (find_choice(row, text, &choice)) {
        *out = (uint64_t)choice;
        return true;
    }
    return option_value_u64(text, out) && (double)*out >= row->min && (double)*out <= row->max;
}

static bool parse_float(const struct option_row *row, const char *text, float *out)
{
    double value;

    if (!option_value_double(text, &value) || value > row->max)
        return false;
    if (row->above_min ? (float)value <= (float)row->min : value < row->min)
        return false;
    *out = (float)value;
    return true;
}

static int append_item(const struct option_row *row, const char *text, struct cli_list *list,
                       struct bmoe_error *err)
{
    if (text[0] == '\0')
        return cli_error_set(err, BMOE_E_MISUSE, "%s takes a text that is not empty", row->name);
    if (list->n == CLI_STOP_MAX)
        return cli_error_set(err, BMOE_E_MISUSE, "%s can be given %d times, not more", row->name,
                             CLI_STOP_MAX);
    list->item[list->n++] = text;
    return 0;
}

int option_value_store(const struct option_row *row, const char *text, void *options,
                       struct bmoe_error *err)
{
    char *at = (char *)options + row->offset;
    uint64_t whole = 0;
    int64_t choice = 0;

    switch (row->kind) {
    case OPTION_TEXT:
        if (row->choices != NULL && !find_choice(row, text, &choice))
            return refuse(row, text, err);
        memcpy(at, &text, sizeof(text));
        return 0;
    case OPTION_LIST:
        return append_item(row, text, (struct cli_list *)(void *)at, err);
    case OPTION_U32:
        if (!parse_whole(row, text, &whole))
            return refuse(row, text, err);
        *(uint32_t *)(void *)at = (uint32_t)whole;
        return 0;
    case OPTION_U64:
        if (!parse_whole(row, text, &whole))
            return refuse(row, text, err);
        *(uint64_t *)(void *)at = whole;
        return 0;
    case OPTION_F32:
        return parse_float(row, text, (float *)(void *)at) ? 0 : refuse(row, text, err);
    case OPTION_CHOICE:
        if (!find_choice(row, text, &choice))
            return refuse(row, text, err);
        *(int *)(void *)at = (int)choice;
        return 0;
    case OPTION_SWITCH:
    case OPTION_ACTION:
    case OPTION_IGNORED:
    case OPTION_REFUSED:
        break;
    }
    return cli_error_set(err, BMOE_E_INTERNAL, "%s has no value", row->name);
}
