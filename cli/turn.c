/*
 * Formulas and their walk: see turn.h.
 */
#include "turn.h"

double turn_rate(double n, double seconds)
{
    return n > 0 && seconds > 0 ? n / seconds : -1;
}

double turn_per_decode(const struct turn *t, double sum_ms)
{
    return t->meter->n_decodes > 0 && sum_ms >= 0 ? sum_ms / 1e3 / t->meter->n_decodes : -1;
}

double turn_prefill_s(const struct turn *t, enum turn_phase_time what)
{
    const struct meter *m = t->meter;
    double spent = what == TURN_STALL
                       ? meter_stall_ms(&m->before, &m->prompt_done, m->info.n_threads_batch)
                       : meter_mgmt_ms(&m->before, &m->prompt_done);

    return spent < 0 ? -1 : spent / 1e3;
}

double turn_token_demand_mib(const struct turn *t)
{
    const struct bmoe_info *i = &t->meter->info;

    if (i->n_expert == 0)
        return -1;
    return (double)i->expert_bytes / i->n_expert * i->n_expert_used / (1 << 20);
}

int64_t turn_prompt(const struct turn *t)
{
    return t->meter->after.prefill_tokens - t->meter->before.prefill_tokens;
}

const struct figure turn_figures[] = {TURN_FIGURES(TURN_FIGURE_ROW)};
const size_t turn_figures_n = sizeof(turn_figures) / sizeof(turn_figures[0]);

/* One case per figure of the list. */
double turn_value(const struct turn *t, size_t i)
{
    const struct meter *m = t->meter;
    const struct bmoe_result *r = t->result;
    enum {
#define NUMBER(key_, type_, unit_, formula, meaning_, brief_) NUMBER_##key_,
        TURN_FIGURES(NUMBER)
    };

    switch (i) {
#define VALUE(key_, type_, unit_, formula, meaning_, brief_)                                       \
    case NUMBER_##key_:                                                                            \
        return (double)(formula);
        TURN_FIGURES(VALUE)
    default:
        return -1;
    }
}

static json_t *number(enum figure_type type, double value)
{
    if (value < 0)
        value = -1;
    return type == FIGURE_INT ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *counter_number(const struct counter *c, int64_t raw)
{
    return number(c->unit == COUNTER_COUNT ? FIGURE_INT : FIGURE_REAL, counter_in_key_unit(c, raw));
}

int turn_put(json_t *body, const struct turn *t)
{
    const struct meter *m = t->meter;
    int failed = 0;

    for (size_t i = 0; i < turn_figures_n; i++)
        failed |= json_object_set_new(body, turn_figures[i].key,
                                      number(turn_figures[i].type, turn_value(t, i)));
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        failed |= json_object_set_new(body, c->key,
                                      counter_number(c, counter_part(c, &m->before, &m->after)));
        if (c->prefill_key != NULL)
            failed |= json_object_set_new(
                body, c->prefill_key,
                counter_number(c, counter_part(c, &m->before, &m->prompt_done)));
    }
    return failed;
}

int turn_put_prefill(json_t *body, const struct bmoe_stats *before, const struct bmoe_stats *after)
{
    int failed = 0;

    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];
        const char *key = counter_decide_key(c);

        if (key != NULL)
            failed |=
                json_object_set_new(body, key, counter_number(c, counter_part(c, before, after)));
    }
    return failed;
}

int turn_put_counters(json_t *body, const struct bmoe_stats *stats)
{
    int failed = 0;

    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        failed |= json_object_set_new(body, c->key, counter_number(c, counter_raw(c, stats)));
    }
    return failed;
}
