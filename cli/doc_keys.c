/*
 * bmoe-doc-keys FILE: makes the tables of docs/protocol.md anew from the program's lists; with
 * --check FILE it changes nothing and fails when they differ. A tool of the build, not installed.
 */
#include "counter_table.h"
#include "doc_section.h"

static int print_counters(FILE *out, const void *ctx)
{
    static const char *const kinds[] = {
        [COUNTER_SUM] = "sum", [COUNTER_LEVEL] = "level", [COUNTER_PEAK] = "peak"};

    (void)ctx;
    fputs("| key | unit | kind | meaning |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        fprintf(out, "| `%s`", c->key);
        if (c->prefill_key != NULL)
            fprintf(out, ", `%s`", c->prefill_key);
        fprintf(out, " | %s | %s | %s |\n", counter_unit_name(c), kinds[c->kind], c->meaning);
    }
    return ferror(out);
}

int main(int argc, char **argv)
{
    static const struct doc_section sections[] = {
        {.begin = "<!-- counters: made by 'make man' -->\n",
         .end = "<!-- end of counters -->",
         .print = print_counters},
    };

    return doc_section_main(sections, sizeof(sections) / sizeof(sections[0]), "make man", argc,
                            argv);
}
