/*
 * bmoe-doc-keys FILE: makes the tables of docs/protocol.md anew from the program's lists; with
 * --check FILE it changes nothing and fails when they differ; with --schema it prints the same as
 * JSON, for programs that check lines. A tool of the build, not installed.
 */
#include "counter_table.h"
#include "csv.h"
#include "doc_section.h"
#include "line_keys.h"
#include "request.h"
#include "turn.h"

#include <string.h>

struct key {
    const char *tag, *name, *type, *unit, *when, *meaning;
};

#define KEY(tag_, key_, type_, unit_, when_, meaning_)                                             \
    {#tag_, #key_, type_, unit_, when_, meaning_},
static const struct key keys[] = {LINE_KEYS(KEY)};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* The list itself, without the formulas: these need a session. */
static const struct figure figures[] = {TURN_FIGURES(TURN_FIGURE_ROW)};
enum { N_FIGURES = sizeof(figures) / sizeof(figures[0]) };

static const char *counter_type(const struct counter *c)
{
    return c->unit == COUNTER_COUNT ? "integer" : "number";
}

/* ---- tables ---- */

static int print_counters(FILE *out, const void *ctx)
{
    static const char *const kinds[] = {
        [COUNTER_SUM] = "sum", [COUNTER_LEVEL] = "level", [COUNTER_PEAK] = "peak"};

    (void)ctx;
    fputs("| key | type | unit | kind | meaning |\n|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        fprintf(out, "| `%s`", c->key);
        if (c->prefill_key != NULL)
            fprintf(out, ", `%s`", c->prefill_key);
        fprintf(out, " | %s | %s | %s | %s |\n", counter_type(c), counter_unit_name(c),
                kinds[c->kind], c->meaning);
    }
    return ferror(out);
}

static int print_figures(FILE *out, const void *ctx)
{
    (void)ctx;
    fputs("| key | type | unit | meaning |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < N_FIGURES; i++) {
        const struct figure *f = &figures[i];

        fprintf(out, "| `%s` | %s | %s | %s |\n", f->key,
                f->type == FIGURE_INT ? "integer" : "number", f->unit, f->meaning);
    }
    return ferror(out);
}

static int print_lines(FILE *out, const void *ctx)
{
    const char *tag = "";

    (void)ctx;
    for (size_t i = 0; i < N_KEYS; i++) {
        const struct key *k = &keys[i];

        if (strcmp(tag, k->tag) != 0) {
            fprintf(out,
                    "%s### BMOE_%s\n\n| key | type | unit | when | meaning |\n"
                    "|---|---|---|---|---|\n",
                    i > 0 ? "\n" : "", k->tag);
            tag = k->tag;
        }
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", k->name, k->type, k->unit, k->when,
                k->meaning);
    }
    return ferror(out);
}

struct field_table {
    FILE *out;
    char cmd[64];
};

static void print_field(void *user, const struct request_field_doc *doc)
{
    struct field_table *t = user;

    if (strcmp(t->cmd, doc->cmd) != 0) {
        fprintf(t->out,
                "%s### %s\n\n| field | type | default | meaning |\n"
                "|---|---|---|---|\n",
                t->cmd[0] != '\0' ? "\n" : "", doc->cmd);
        snprintf(t->cmd, sizeof(t->cmd), "%s", doc->cmd);
    }
    fprintf(t->out, "| `%s` | %s | %s | %s |\n", doc->name, doc->type,
            doc->required ? "required" : doc->fallback, doc->meaning);
}

static int print_fields(FILE *out, const void *ctx)
{
    struct field_table t = {.out = out};

    (void)ctx;
    request_fields_visit(print_field, &t);
    return ferror(out);
}

static int print_columns(FILE *out, const void *ctx)
{
    (void)ctx;
    fputs("| column | meaning |\n|---|---|\n", out);
#define COLUMN(name_, format_, value_, meaning_) fprintf(out, "| `%s` | %s |\n", #name_, meaning_);
    CSV_COLUMNS(COLUMN)
#undef COLUMN
    return ferror(out);
}

/* ---- the schema ---- */

static int set_key(json_t *lines, const char *tag, const char *name, const char *type,
                   const char *unit, bool always)
{
    json_t *line = json_object_get(lines, tag);

    if (line == NULL) {
        line = json_object();
        if (json_object_set_new(lines, tag, line) != 0)
            return -1;
    }
    return json_object_set_new(
        line, name,
        json_pack("{s:s, s:s, s:b}", "type", type, "unit", unit, "always", (int)always));
}

static int print_schema(void)
{
    json_t *lines = json_object();
    int failed = 0;

    for (size_t i = 0; i < N_KEYS; i++)
        failed |= set_key(lines, keys[i].tag, keys[i].name, keys[i].type, keys[i].unit,
                          strcmp(keys[i].when, "always") == 0);
    for (size_t i = 0; i < N_FIGURES; i++)
        failed |=
            set_key(lines, "DONE", figures[i].key,
                    figures[i].type == FIGURE_INT ? "integer" : "number", figures[i].unit, true);
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        failed |= set_key(lines, "DONE", c->key, counter_type(c), counter_unit_name(c), true);
        failed |= set_key(lines, "STATS", c->key, counter_type(c), counter_unit_name(c), true);
        if (counter_decide_key(c) != NULL)
            failed |= set_key(lines, "DECIDE", counter_decide_key(c), counter_type(c),
                              counter_unit_name(c), true);
        if (c->prefill_key != NULL)
            failed |=
                set_key(lines, "DONE", c->prefill_key, counter_type(c), counter_unit_name(c), true);
    }
#define COLUMN(name_, format_, value_, meaning_)                                                   \
    failed |= set_key(lines, "CSV", #name_, "number", "", true);
    CSV_COLUMNS(COLUMN)
#undef COLUMN
    failed |= json_dumpf(lines, stdout, JSON_INDENT(1)) != 0 || putchar('\n') < 0;
    json_decref(lines);
    return failed != 0;
}

int main(int argc, char **argv)
{
    static const struct doc_section sections[] = {
        {.begin = "<!-- fields: made by 'make man' -->\n",
         .end = "<!-- end of fields -->",
         .print = print_fields},
        {.begin = "<!-- lines: made by 'make man' -->\n",
         .end = "<!-- end of lines -->",
         .print = print_lines},
        {.begin = "<!-- figures: made by 'make man' -->\n",
         .end = "<!-- end of figures -->",
         .print = print_figures},
        {.begin = "<!-- columns: made by 'make man' -->\n",
         .end = "<!-- end of columns -->",
         .print = print_columns},
        {.begin = "<!-- counters: made by 'make man' -->\n",
         .end = "<!-- end of counters -->",
         .print = print_counters},
    };

    if (argc == 2 && strcmp(argv[1], "--schema") == 0)
        return print_schema();
    return doc_section_main(sections, sizeof(sections) / sizeof(sections[0]), "make man", argc,
                            argv);
}
