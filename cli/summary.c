/*
 * Figures for people: see summary.h.
 */
#include "summary.h"

#include <stdio.h>
#include <string.h>

/* The line as far as it is written. */
struct line {
    char *out;
    size_t bytes;
    bool said; /* the last thing that has words was worth it */
};

static void append(struct line *l, const char *comma, const char *text)
{
    size_t used = strlen(l->out);

    snprintf(l->out + used, l->bytes - used, "%s%s", used > 0 ? comma : "", text);
}

static int digits_of(const char *unit)
{
    if (strcmp(unit, "count") == 0)
        return 0;
    return strcmp(unit, "MiB") == 0 || strcmp(unit, "%") == 0 ? 1 : 2;
}

/* The words with the number in the place of their first %. */
static void append_number(struct line *l, const char *brief, const char *unit, double value)
{
    const char *at = brief != NULL ? strchr(brief, '%') : NULL;
    bool worth = value > 0 || (value == 0 && strcmp(unit, "count") != 0);
    char text[128];

    if (at == NULL)
        return;
    l->said = worth && (brief[0] != ' ' || l->said);
    if (!l->said)
        return;
    snprintf(text, sizeof(text), "%.*s%.*f%s", (int)(at - brief), brief, digits_of(unit), value,
             at + 1);
    append(l, brief[0] == ' ' ? "" : ", ", text);
}

static void append_figures(struct line *l, const struct turn *t)
{
    for (size_t i = 0; i < turn_figures_n; i++) {
        const struct figure *f = &turn_figures[i];

        append_number(l, f->brief, f->unit, f->brief != NULL ? turn_value(t, i) : -1);
    }
}

/* Whether an earlier counter of the list has the same words, and was added up with this one. */
static bool said(size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (counter_table[k].brief != NULL &&
            strcmp(counter_table[k].brief, counter_table[i].brief) == 0)
            return true;
    return false;
}

/* All counters with the words of number i, together; -1 when none is measured. */
static double sum_of(const struct turn *t, size_t i)
{
    double sum = -1;

    for (size_t k = i; k < counter_table_n; k++) {
        const struct counter *c = &counter_table[k];
        double value =
            c->brief != NULL && strcmp(c->brief, counter_table[i].brief) == 0
                ? counter_in_key_unit(c, counter_part(c, &t->meter->before, &t->meter->after))
                : -1;

        if (value >= 0)
            sum = sum < 0 ? value : sum + value;
    }
    return sum;
}

static void append_counters(struct line *l, const struct turn *t)
{
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        if (c->brief != NULL && !said(i))
            append_number(l, c->brief, counter_unit_name(c), sum_of(t, i));
    }
}

void summary_write(char *out, size_t bytes, const struct turn *t, uint32_t n_predict)
{
    const struct bmoe_result *r = t->result;
    struct line l = {.out = out, .bytes = bytes};

    out[0] = '\0';
    append_figures(&l, t);
    append_counters(&l, t);
    if (r->stopped_by_limit)
        append(&l, ", ",
               r->n_predicted == n_predict ? "ended at the limit of -n"
                                           : "ended by a full context");
}
