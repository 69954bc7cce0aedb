/*
 * See config_json.h. Words of a command line that are not UTF-8 are left out of the JSON.
 */
#include "config_json.h"

#include "cli_error.h"
#include "option_value.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool has_value(const struct option_row *row)
{
    return row->kind != OPTION_ACTION && row->kind != OPTION_IGNORED && row->kind != OPTION_REFUSED;
}

static bool is_number(const struct option_row *row)
{
    return row->kind == OPTION_U32 || row->kind == OPTION_U64 || row->kind == OPTION_F32;
}

static int write_json(struct output *out, json_t *value, struct bmoe_error *err)
{
    char *text = value != NULL ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) : NULL;

    json_decref(value);
    if (text == NULL)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the JSON");
    output_write(out, text, strlen(text));
    free(text);
    return output_end(out, err);
}

/* ---- the schema ---- */

static json_t *number_schema(const struct option_row *row)
{
    json_t *s = row->kind == OPTION_F32
                    ? json_pack("{s:s, s:f, s:f}", "type", "number",
                                row->above_min ? "exclusiveMinimum" : "minimum", row->min,
                                "maximum", row->max)
                    : json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                                (json_int_t)row->min, "maximum", (json_int_t)row->max);

    return s;
}

static json_t *choices_schema(const struct option_row *row)
{
    json_t *names = json_array();

    for (const struct option_choice *c = row->choices; c != NULL && c->name != NULL; c++)
        json_array_append_new(names, json_string(c->name));
    return json_pack("{s:s, s:o}", "type", "string", "enum", names);
}

static json_t *type_schema(const struct option_row *row)
{
    if (row->kind == OPTION_SWITCH)
        return json_pack("{s:s}", "type", "boolean");
    if (row->kind == OPTION_LIST)
        return json_pack("{s:s, s:{s:s}, s:i}", "type", "array", "items", "type", "string",
                         "maxItems", (int)CLI_STOP_MAX);
    if (is_number(row) && row->choices != NULL)
        return json_pack("{s:[o, o]}", "anyOf", number_schema(row), choices_schema(row));
    if (is_number(row))
        return number_schema(row);
    return row->choices != NULL ? choices_schema(row) : json_pack("{s:s}", "type", "string");
}

/* The fallback as a JSON value of the option's type. */
static json_t *default_of(const struct option_row *row)
{
    uint64_t whole;
    double number;

    if (row->kind == OPTION_SWITCH)
        return json_false();
    if (row->fallback == NULL)
        return NULL;
    if (row->kind == OPTION_F32 && option_value_double(row->fallback, &number))
        return json_real(number);
    if (is_number(row) && option_value_u64(row->fallback, &whole))
        return json_integer((json_int_t)whole);
    return json_string(row->fallback);
}

static json_t *describe_row(const struct option_row *row)
{
    json_t *s = type_schema(row), *fallback = default_of(row);

    json_object_set_new(s, "description", json_string(row->help));
    json_object_set_new(s, "flag", json_string(row->name));
    json_object_set_new(s, "group", json_string(option_group_title(row->group)));
    if (row->brief != NULL)
        json_object_set_new(s, "brief", json_string(row->brief));
    if (row->unit != NULL)
        json_object_set_new(s, "unit", json_string(row->unit));
    if (fallback != NULL)
        json_object_set_new(s, "default", fallback);
    return s;
}

int config_json_describe(struct output *out, struct bmoe_error *err)
{
    json_t *properties = json_object();

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (has_value(&option_table[i]))
            json_object_set_new(properties, option_table[i].name + 2,
                                describe_row(&option_table[i]));
    }
    return write_json(out,
                      json_pack("{s:s, s:s, s:s, s:b, s:o}", "$schema",
                                "https://json-schema.org/draft/2020-12/schema", "title",
                                "bmoe options", "type", "object", "additionalProperties", 0,
                                "properties", properties),
                      err);
}

/* ---- a command line ---- */

bool config_json_wanted(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], option_table[OPT_SHOW_CONFIG].name) == 0)
            return true;
    }
    return false;
}

static const char *choice_name(const struct option_row *row, int64_t value)
{
    for (const struct option_choice *c = row->choices; c != NULL && c->name != NULL; c++) {
        if (c->value == value)
            return c->name;
    }
    return NULL;
}

static json_t *whole_value(const struct option_row *row, uint64_t value)
{
    const char *choice = choice_name(row, (int64_t)value);

    return choice != NULL ? json_string(choice) : json_integer((json_int_t)value);
}

static json_t *list_value(const struct cli_list *list)
{
    json_t *items = json_array();

    for (size_t i = 0; i < list->n; i++)
        json_array_append_new(items, json_string(list->item[i]));
    return items;
}

static json_t *value_of(const struct option_row *row, const struct cli_options *o)
{
    const void *at = (const char *)o + row->offset;
    const char *choice;

    switch (row->kind) {
    case OPTION_SWITCH:
        return json_boolean(*(const bool *)at);
    case OPTION_TEXT:
        return *(const char *const *)at != NULL ? json_string(*(const char *const *)at)
                                                : json_null();
    case OPTION_LIST:
        return list_value(at);
    case OPTION_U32:
        return whole_value(row, *(const uint32_t *)at);
    case OPTION_U64:
        return whole_value(row, *(const uint64_t *)at);
    case OPTION_F32:
        return json_real((double)*(const float *)at);
    case OPTION_CHOICE:
        choice = choice_name(row, *(const int *)at);
        return choice != NULL ? json_string(choice) : json_null();
    default:
        return NULL;
    }
}

int config_json_show(struct output *out, const struct cli_options *o, int rc,
                     const struct bmoe_error *parsed, int argc, char **argv, struct bmoe_error *err)
{
    json_t *config = json_object(), *args = json_array();

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (has_value(&option_table[i]) && i != OPT_SHOW_CONFIG)
            json_object_set_new(config, option_table[i].name + 2, value_of(&option_table[i], o));
    }
    for (int i = 1; i < argc; i++)
        json_array_append_new(args, json_string(argv[i]));
    return write_json(out,
                      json_pack("{s:b, s:s*, s:o, s:o}", "valid", (int)(rc == 0), "error",
                                rc < 0 ? parsed->text : NULL, "args", args, "config", config),
                      err);
}
