/*
 * See ppl_texts.h.
 */
#include "ppl_texts.h"

#include "cli_error.h"

#include <stdlib.h>
#include <string.h>

static int add(struct ppl_texts *t, const char *path, struct bmoe_error *err)
{
    struct ppl_text *grown = realloc(t->at, (t->n + 1) * sizeof(*grown));
    struct ppl_text *one;

    if (grown == NULL)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the list of texts");
    t->at = grown;
    one = &t->at[t->n++];
    *one = (struct ppl_text){.path = strdup(path)};
    if (one->path == NULL)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the list of texts");
    return cli_text_read(&one->text, path, "the text to score", err);
}

/* Takes the lines of the list apart, in place. */
static int add_lines(struct ppl_texts *t, char *lines, struct bmoe_error *err)
{
    char *rest = NULL;
    int rc = 0;

    for (char *line = strtok_r(lines, "\n", &rest); line != NULL && rc == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        size_t bytes;

        line += strspn(line, " \t");
        line[strcspn(line, "#\r")] = '\0';
        bytes = strlen(line);
        while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t'))
            line[--bytes] = '\0';
        if (bytes > 0)
            rc = add(t, line, err);
    }
    return rc;
}

int ppl_texts_read(struct ppl_texts *out, const struct cli_options *o, struct bmoe_error *err)
{
    struct cli_text list = {0};
    int rc;

    if (o->ppl_list == NULL)
        return add(out, o->ppl_file, err);
    rc = cli_text_read(&list, o->ppl_list, "the list of texts", err);
    if (rc == 0)
        rc = add_lines(out, list.text, err);
    cli_text_free(&list);
    if (rc == 0 && out->n == 0)
        rc = cli_error_set(err, BMOE_E_CONTEXT, "%s lists no text", o->ppl_list);
    return rc;
}

void ppl_texts_fini(struct ppl_texts *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->at[i].path);
        cli_text_free(&t->at[i].text);
    }
    free(t->at);
    *t = (struct ppl_texts){0};
}
