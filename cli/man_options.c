/*
 * bmoe-man-options FILE: replaces the part of a manual page between its two marks by the option
 * section made from the option table; with --check FILE it changes nothing and fails when they
 * differ. A tool of the build, not installed.
 */
#include "help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark_begin[] = ".\\\" options: made by 'make man' from the option table\n";
static const char mark_end[] = ".\\\" end of options\n";

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t bytes = 0;

    if (file == NULL)
        return NULL;
    if (getdelim(&text, &bytes, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* The page with a new option section, heap; NULL when the marks are missing. */
static char *renew(const char *page)
{
    const char *begin = strstr(page, mark_begin);
    const char *end = begin != NULL ? strstr(begin, mark_end) : NULL;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    int failed;

    if (end == NULL)
        return NULL;
    begin += strlen(mark_begin);
    out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    fwrite(page, 1, (size_t)(begin - page), out);
    failed = help_print_roff(out);
    fputs(end, out);
    if (fclose(out) != 0 || failed != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static int write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    int failed = file == NULL || fputs(text, file) < 0;

    if (file != NULL && fclose(file) != 0)
        failed = 1;
    return failed;
}

int main(int argc, char **argv)
{
    int check = argc == 3 && strcmp(argv[1], "--check") == 0;
    const char *path = argc > 1 ? argv[argc - 1] : "";
    char *page = argc == 2 || check ? read_file(path) : NULL;
    char *wanted = page != NULL ? renew(page) : NULL;
    int failed = 1;

    if (wanted == NULL)
        fprintf(stderr, "usage: bmoe-man-options [--check] FILE, a manual page with both marks\n");
    else if (strcmp(page, wanted) == 0)
        failed = 0;
    else if (check)
        fprintf(stderr, "%s does not agree with the option table; run 'make man'\n", path);
    else
        failed = write_file(path, wanted);
    free(wanted);
    free(page);
    return failed;
}
