/*
 * Differences of counters: see meter.h.
 */
#include "meter.h"

#include <string.h>
#include <time.h>

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void read_stats(const struct meter *m, struct bmoe_stats *out)
{
    *out = (struct bmoe_stats){.size = sizeof(*out)};
    bmoe_session_stats(m->session, out);
}

/* A difference; -1 when either end was not measured. */
static int64_t grown(int64_t from, int64_t to)
{
    return from < 0 || to < from ? -1 : to - from;
}

static double ms(int64_t us)
{
    return us < 0 ? -1 : (double)us / 1e3;
}

/* What was measured of two together. */
static int64_t sum_of(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 ? a : a + b;
}

double meter_io_ms(const struct bmoe_stats *from, const struct bmoe_stats *to)
{
    return ms(grown(from->read_us, to->read_us));
}

double meter_mgmt_ms(const struct bmoe_stats *from, const struct bmoe_stats *to)
{
    int64_t spent = grown(from->carry_us, to->carry_us);

    spent = sum_of(spent, grown(from->place_us, to->place_us));
    return ms(sum_of(spent, grown(from->evict_us, to->evict_us)));
}

double meter_stall_ms(const struct bmoe_stats *from, const struct bmoe_stats *to,
                      uint32_t n_threads)
{
    int64_t faults = grown(from->fault_wait_us, to->fault_wait_us);
    int64_t hook = grown(from->hook_wait_us, to->hook_wait_us);

    return ms(sum_of(faults < 0 || n_threads == 0 ? faults : faults / n_threads, hook));
}

double meter_hit_pct(const struct bmoe_stats *stats)
{
    if (stats->hits < 0 || stats->misses < 0 || stats->hits + stats->misses == 0)
        return -1;
    return 100.0 * (double)stats->hits / ((double)stats->hits + (double)stats->misses);
}

void meter_begin(struct meter *m, struct bmoe_session *session)
{
    *m = (struct meter){.session = session, .info = {.size = sizeof(m->info)}};
    bmoe_session_describe(session, &m->info);
    read_stats(m, &m->before);
    m->prompt_done = m->after = m->from = m->to = m->before;
    m->from_us = now_us();
}

void meter_logits(struct meter *m, bool prompt)
{
    read_stats(m, &m->to);
    m->to_us = now_us();
    if (prompt)
        m->prompt_done = m->to;
    m->decoded = !prompt;
}

/* Tokens, whatever for. */
static int64_t computed(const struct bmoe_stats *stats)
{
    return sum_of(stats->prefill_tokens, stats->decode_tokens);
}

/* From m->from to m->to, by n_threads. */
static void cost_between(const struct meter *m, uint32_t n_threads, struct token_costs *out)
{
    out->wall_ms = (double)(m->to_us - m->from_us) / 1e3;
    out->io_ms = meter_io_ms(&m->from, &m->to);
    out->mgmt_ms = meter_mgmt_ms(&m->from, &m->to);
    out->stall_ms = meter_stall_ms(&m->from, &m->to, n_threads);
    out->compute_ms = out->wall_ms - (out->stall_ms > 0 ? out->stall_ms : 0);
    out->compute_ms = out->compute_ms > 0 ? out->compute_ms : 0;
    out->cpu_ms = ms(grown(m->from.cpu_us, m->to.cpu_us));
    out->read_bytes = grown(m->from.bytes_read, m->to.bytes_read);
    out->majflt = grown(m->from.majflt, m->to.majflt);
    out->hits = grown(m->from.hits, m->to.hits);
    out->misses = grown(m->from.misses, m->to.misses);
    out->faults = grown(m->from.faults, m->to.faults);
    out->evictions = grown(m->from.evictions, m->to.evictions);
    out->rereads = grown(m->from.rereads, m->to.rereads);
    out->n_computed = grown(computed(&m->from), computed(&m->to));
}

static void add_costs(struct token_costs *sum, const struct token_costs *c)
{
    sum->wall_ms += c->wall_ms;
    sum->io_ms += c->io_ms;
    sum->mgmt_ms += c->mgmt_ms;
    sum->stall_ms += c->stall_ms;
    sum->compute_ms += c->compute_ms;
    sum->cpu_ms += c->cpu_ms;
    sum->read_bytes += c->read_bytes;
    sum->majflt += c->majflt;
}

static void levels(const struct meter *m, struct token_costs *out)
{
    out->hit_pct = meter_hit_pct(&m->to);
    out->budget_bytes = m->to.budget_bytes;
    out->resident_bytes = m->to.resident_bytes;
}

void meter_span(struct meter *m, struct token_costs *out)
{
    *out = (struct token_costs){0};
    read_stats(m, &m->to);
    m->to_us = now_us();
    cost_between(m, m->info.n_threads_batch, out);
    levels(m, out);
    m->n_tokens++;
    m->from = m->prompt_done = m->to;
    m->from_us = m->to_us;
}

void meter_token(struct meter *m, struct token_costs *out)
{
    *out = (struct token_costs){0};
    if (m->decoded) {
        cost_between(m, m->info.n_threads, out);
        add_costs(&m->sum, out);
        m->n_decodes++;
    }
    if (m->told_us != 0)
        out->overhead_ms = (double)(now_us() - m->told_us) / 1e3 - out->wall_ms;
    m->sum.overhead_ms += out->overhead_ms;
    levels(m, out);
    m->decoded = false;
    m->n_tokens++;
    m->told_us = now_us();
    read_stats(m, &m->from);
    m->from_us = now_us();
}

void meter_end(struct meter *m)
{
    read_stats(m, &m->after);
    if (m->prompt_done.prefill_tokens == m->before.prefill_tokens && m->n_tokens == 0)
        m->prompt_done = m->after; /* it ended within the prefill */
}
