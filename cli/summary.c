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

static void append_tokens(char *out, size_t bytes, const char *name, uint32_t n, double seconds)
{
    if (n > 0 && seconds > 0)
        append(out, bytes, "%s %u tokens at %.2f tok/s", name, n, (double)n / seconds);
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
    if (s->peak_rss_bytes >= 0)
        append(out, bytes, "peak memory %.0f MiB", (double)s->peak_rss_bytes / mib_bytes);
}

void summary_write(char *out, size_t bytes, const struct bmoe_info *info,
                   const struct bmoe_stats *stats, const struct bmoe_result *result)
{
    uint32_t computed = result->n_prompt - result->n_reused;

    out[0] = '\0';
    append_tokens(out, bytes, "prompt", computed, result->prefill_s);
    if (result->n_reused > 0)
        append(out, bytes, "%u reused", result->n_reused);
    append_tokens(out, bytes, "decode", result->n_predicted, result->decode_s);
    append(out, bytes, "load %.2f s", info->load_s);
    append(out, bytes, "first token %.2f s", result->first_token_s);
    append_reads(out, bytes, stats);
}

void summary_write_reads(char *out, size_t bytes, const struct bmoe_stats *stats)
{
    out[0] = '\0';
    append_reads(out, bytes, stats);
}
