/*
 * Help and manual text from the option table: see help.h. Refused options are named in one list at
 * the end, as they are of use only to scripts written for the reference implementation.
 */
#include "help.h"

#include "option_table.h"

#include <string.h>

enum { NAMES_COLUMN = 26, LINE_COLUMNS = 96 };

static const char usage[] =
    "usage: bmoe -m FILE [-p TEXT | -f FILE] [options]\n"
    "\n"
    "Runs Mixture-of-Experts models (GGUF) that are larger than memory on llama.cpp: a bounded\n"
    "cache holds the experts in use, the rest is read from disk when it is needed.\n"
    "\n"
    "Without -p and -f it holds a conversation when standard input is a terminal, and otherwise\n"
    "reads the prompt from standard input. The answer goes to standard output, all else to\n"
    "standard error. Exit status: 0 fine, 1 failure, 2 misuse, 128 + N ended by signal N.\n";

/* Bounds above this are there to keep products small and tell a reader nothing. */
static const double telling_max = 1e6;

/* What follows the help phrase: " (1..16 or auto, default auto)". */
static void describe_value(const struct option_row *row, char *out, size_t bytes)
{
    bool number = row->kind == OPTION_U32 || row->kind == OPTION_U64 || row->kind == OPTION_F32;
    const char *comma = "";
    FILE *text = fmemopen(out, bytes, "w");

    out[0] = '\0';
    if (text == NULL)
        return;
    if (row->unit != NULL) {
        fprintf(text, "%s", row->unit);
        comma = ", ";
    }
    if (number && row->max <= telling_max) {
        fprintf(text, "%s%s%.10g..%.10g", comma, row->above_min ? "above " : "", row->min,
                row->max);
        comma = ", ";
    }
    for (const struct option_choice *c = row->choices; c != NULL && c->name != NULL; c++) {
        fprintf(text, "%s%s", c != row->choices ? "|" : comma, c->name);
        comma = ", ";
    }
    if (row->fallback != NULL)
        fprintf(text, "%sdefault %s", comma, row->fallback);
    fclose(text);
}

/* The help phrase and what the value may be. */
static void describe_row(const struct option_row *row, char *out, size_t bytes)
{
    char value[200];

    describe_value(row, value, sizeof(value));
    snprintf(out, bytes, value[0] != '\0' ? "%s (%s)" : "%s%s", row->help, value);
}

/* Prints words with line breaks before LINE_COLUMNS, indented by NAMES_COLUMN. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = NAMES_COLUMN;

    while (*text != '\0') {
        size_t word = strcspn(text, " ");

        if (column + 1 + word > LINE_COLUMNS) {
            fprintf(out, "\n%*s", NAMES_COLUMN, "");
            column = NAMES_COLUMN;
        }
        fprintf(out, " %.*s", (int)word, text);
        column += 1 + word;
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}

static void print_row(FILE *out, const struct option_row *row)
{
    char names[80], text[600];
    int used = snprintf(names, sizeof(names), "  %s%s%s%s%s", row->brief != NULL ? row->brief : "",
                        row->brief != NULL ? ", " : "", row->name, row->argument != NULL ? " " : "",
                        row->argument != NULL ? row->argument : "");

    describe_row(row, text, sizeof(text));
    fprintf(out, "%-*s", NAMES_COLUMN, names);
    if (used >= NAMES_COLUMN)
        fprintf(out, "\n%*s", NAMES_COLUMN, "");
    print_wrapped(out, text);
}

int help_print(FILE *out)
{
    fputs(usage, out);
    for (int group = 0; group < GROUP_REFUSED; group++) {
        fprintf(out, "\n%s:\n", option_group_title((enum option_group)group));
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            if (option_table[i].group == (enum option_group)group)
                print_row(out, &option_table[i]);
        }
    }
    fprintf(out, "\n%s, and refused with the reason:\n", option_group_title(GROUP_REFUSED));
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_table[i].group == GROUP_REFUSED)
            fprintf(out, "  %s\n", option_table[i].name);
    }
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}

/* Writes text with roff's special characters escaped. */
static void print_roff_text(FILE *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '-')
            fputs("\\-", out);
        else if (*p == '\\')
            fputs("\\e", out);
        else
            fputc(*p, out);
    }
}

static void print_roff_row(FILE *out, const struct option_row *row)
{
    char text[600];

    fputs(".TP\n", out);
    if (row->brief != NULL) {
        fputs("\\fB", out);
        print_roff_text(out, row->brief);
        fputs("\\fR, ", out);
    }
    fputs("\\fB", out);
    print_roff_text(out, row->name);
    fputs("\\fR", out);
    if (row->argument != NULL)
        fprintf(out, " \\fI%s\\fR", row->argument);
    fputc('\n', out);
    describe_row(row, text, sizeof(text));
    print_roff_text(out, text);
    fputs(".\n", out);
}

int help_print_roff(FILE *out)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        fprintf(out, ".SS %s\n", option_group_title((enum option_group)group));
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            if (option_table[i].group == (enum option_group)group)
                print_roff_row(out, &option_table[i]);
        }
    }
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}
