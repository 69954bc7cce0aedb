/*
 * Reading, renewing and comparing: see doc_section.h. A tool of the build, not installed.
 */
#include "doc_section.h"

#include <stdlib.h>
#include <string.h>

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

/* The page with one section made anew, heap; NULL when the marks are missing. */
static char *renew(const char *page, const struct doc_section *s)
{
    const char *begin = strstr(page, s->begin);
    const char *end = begin != NULL ? strstr(begin, s->end) : NULL;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    int failed;

    if (end == NULL)
        return NULL;
    begin += strlen(s->begin);
    out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    fwrite(page, 1, (size_t)(begin - page), out);
    failed = s->print(out, s->ctx);
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

static char *renew_all(const char *page, const struct doc_section *sections, size_t n)
{
    char *text = strdup(page);

    for (size_t i = 0; i < n && text != NULL; i++) {
        char *next = renew(text, &sections[i]);

        if (next == NULL)
            fprintf(stderr, "the marks of a section are missing: %s", sections[i].begin);
        free(text);
        text = next;
    }
    return text;
}

int doc_section_main(const struct doc_section *sections, size_t n, const char *made_by, int argc,
                     char **argv)
{
    int check = argc == 3 && strcmp(argv[1], "--check") == 0;
    const char *path = argc > 1 ? argv[argc - 1] : "";
    char *page = argc == 2 || check ? read_file(path) : NULL;
    char *wanted = page != NULL ? renew_all(page, sections, n) : NULL;
    int failed = 1;

    if (wanted == NULL)
        fprintf(stderr, "usage: %s [--check] FILE, a text with all marks\n", argv[0]);
    else if (strcmp(page, wanted) == 0)
        failed = 0;
    else if (check)
        fprintf(stderr, "%s does not agree with the program's tables; run '%s'\n", path, made_by);
    else
        failed = write_file(path, wanted);
    free(wanted);
    free(page);
    return failed;
}
