/*
 * Figures for people: see summary.h.
 */
#include "summary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double mib_bytes = 1024.0 * 1024.0;

static void append(char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *out, size_t bytes, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;

    if (used + 3 >= bytes)
        return;
    if (used > 0) {
        memcpy(out + used, ", ", 3);
        used += 2;
    }
    va_start(args, format);
    vsnprintf(out + used, bytes - used, format, args);
    va_end(args);
}

static void append_tokens(char *out, size_t bytes, const char *name, uint32_t n, double rate)
{
    if (n > 0 && rate > 0)
        append(out, bytes, "%s %u tokens at %.2f tok/s", name, n, rate);
    else
        append(out, bytes, "%s %u tokens", name, n);
}

static void append_reads(char *out, size_t bytes, const struct bmoe_stats *s)
{
    if (s->bytes_read >= 0)
        append(out, bytes, "read %.1f MiB", (double)s->bytes_read / mib_bytes);
    if (s->hits >= 0 && s->misses >= 0 && s->hits + s->misses > 0)
        append(out, bytes, "hits %.1f %%",
               100.0 * (double)s->hits / ((double)s->hits + (double)s->misses));
    if (s->fault_wait_us >= 0 || s->hook_wait_us >= 0) {
        int64_t us = (s->fault_wait_us > 0 ? s->fault_wait_us : 0) +
                     (s->hook_wait_us > 0 ? s->hook_wait_us : 0);

        append(out, bytes, "stall %.2f s", (double)us / 1e6);
    }
    if (s->dev_tokens > 0)
        append(out, bytes, "prefill device %lld tokens, %.1f MiB read for it, waited %.2f s",
               (long long)s->dev_tokens, (double)s->dev_read_bytes / mib_bytes,
               (double)s->dev_stall_us / 1e6);
    if (s->peak_rss_bytes >= 0)
        append(out, bytes, "peak memory %.0f MiB", (double)s->peak_rss_bytes / mib_bytes);
}

/* The first token of an answer costs no decode, so the rate comes from what was decoded. */
static double decode_rate(const struct summary *s)
{
    int64_t tokens = s->after->decode_tokens - s->before->decode_tokens;
    int64_t us = s->after->decode_us - s->before->decode_us;

    return tokens > 0 && us > 0 ? (double)tokens * 1e6 / (double)us : 0;
}

void summary_write(char *out, size_t bytes, const struct summary *s)
{
    const struct bmoe_result *r = s->result;
    uint32_t computed = r->n_prompt - r->n_reused;

    out[0] = '\0';
    append_tokens(out, bytes, "prompt", computed,
                  r->prefill_s > 0 ? (double)computed / r->prefill_s : 0);
    if (r->n_reused > 0)
        append(out, bytes, "%u reused", r->n_reused);
    append_tokens(out, bytes, "decode", r->n_predicted, decode_rate(s));
    append(out, bytes, "load %.2f s", s->info->load_s);
    append(out, bytes, "first token %.2f s", r->first_token_s);
    append_reads(out, bytes, s->after);
    if (r->stopped_by_limit)
        append(out, bytes,
               r->n_predicted == s->n_predict ? "ended at the limit of -n"
                                              : "ended by a full context");
}

void summary_write_reads(char *out, size_t bytes, const struct bmoe_stats *stats)
{
    out[0] = '\0';
    append_reads(out, bytes, stats);
}
