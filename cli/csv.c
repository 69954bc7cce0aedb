/*
 * See csv.h. Each row goes out in one write.
 */
#include "csv.h"

#include "cli_error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double csv_mib(int64_t bytes)
{
    return bytes < 0 ? -1 : (double)bytes / (1 << 20);
}

/* ---- memory as the kernel tells it ---- */

/* The number after a word at the beginning of a line, in bytes; -1. */
static int64_t kib_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at != NULL ? strtoll(at + strlen(word), NULL, 10) * 1024 : -1;
}

static void read_file(const char *path, char *out, size_t bytes)
{
    FILE *file = fopen(path, "re");
    size_t n = file != NULL ? fread(out, 1, bytes - 1, file) : 0;

    out[n] = '\0';
    if (file != NULL)
        fclose(file);
}

static void read_memory(struct proc_memory *p)
{
    char text[8192];

    p->page_bytes = sysconf(_SC_PAGESIZE);
    read_file("/proc/self/status", text, sizeof(text));
    p->rss = kib_after(text, "\nVmRSS:");
    p->rss_anon = kib_after(text, "\nRssAnon:");
    p->rss_file = kib_after(text, "\nRssFile:");
    p->swap = kib_after(text, "\nVmSwap:");
    read_file("/proc/meminfo", text, sizeof(text));
    p->available = kib_after(text, "\nMemAvailable:");
    p->free = kib_after(text, "\nMemFree:");
    p->swap_free = kib_after(text, "\nSwapFree:");
}

/* ---- writing ---- */

static void say_failed(struct csv *csv)
{
    terminal_line(csv->terminal, "warning: writing %s failed: %s; the table is not whole",
                  csv->path, strerror(errno));
    csv->failed = true;
}

/* After each piece of the table. */
static void flush(struct csv *csv)
{
    if (fflush(csv->file) != 0 || ferror(csv->file))
        say_failed(csv);
}

static bool writes(const struct csv *csv)
{
    return csv != NULL && csv->file != NULL && !csv->failed;
}

int csv_open(struct csv *csv, const char *path, struct terminal *terminal, struct bmoe_error *err)
{
    *csv = (struct csv){.path = path, .terminal = terminal, .file = fopen(path, "we")};
    if (csv->file == NULL)
        return cli_error_set(err, BMOE_E_IO, "%s cannot be written: %s", path, strerror(errno));
    setvbuf(csv->file, NULL, _IOFBF, 1 << 16);
    return 0;
}

static void write_preamble(FILE *out, const struct cli_options *o, const struct bmoe_info *i)
{
    fprintf(out,
            "# bmoe_metrics v2\n# engine=bmoe version=%s\n"
            "# model=%s arch=%s n_layer=%u n_expert=%u n_expert_used=%u threads=%u "
            "threads_batch=%u n_ctx=%u n_ubatch=%u chatml=%d\n",
            bmoe_version(), o->model, i->arch, i->n_layer, i->n_expert, i->n_expert_used,
            i->n_threads, i->n_threads_batch, i->n_ctx, i->n_ubatch, o->chatml);
    fprintf(out,
            "# moe_stream=%d cache_mb=%.0f cache_auto=%d cache_floor_mb=%llu cache_ceil_mb=%llu "
            "force_cache=0 load_all=%d io_threads=%u o_direct=%d overlap=1 io_two_wave=0 "
            "prefetch=0 route_ahead=0 predict_prefetch=0 predict_log=0 predict_spec_max=0 "
            "prefetch_sync=0 dense_weights=%d drop_cold_frac=0 drop_renorm=1 drop_prefill=0\n",
            i->streamed, (double)i->budget_bytes / (1 << 20), o->cache_mb == BMOE_CACHE_AUTO,
            (unsigned long long)o->cache_floor_mb, (unsigned long long)o->cache_ceil_mb,
            o->load_all, o->io_threads, !o->no_odirect, o->dense);
    fprintf(out,
            "# temp=%g top_k=%u top_p=%g min_p=%g repeat_penalty=%g seed=%u compute_trace_layers=0 "
            "spec=none spec_draft_max=0 mtp_p_min=0 ngram_min_match=0\n# mode=%s\n",
            (double)o->temp, o->top_k, (double)o->top_p, (double)o->min_p,
            (double)o->repeat_penalty, o->seed, i->mode);
}

void csv_begin(struct csv *csv, const struct cli_options *o, const struct bmoe_info *info)
{
    const char *comma = "";

    if (!writes(csv))
        return;
    write_preamble(csv->file, o, info);
#define NAME(name_, format_, value_, meaning_)                                                     \
    fprintf(csv->file, "%s" #name_, comma);                                                        \
    comma = ",";
    CSV_COLUMNS(NAME)
#undef NAME
    fputc('\n', csv->file);
    flush(csv);
}

void csv_turn(struct csv *csv)
{
    if (csv != NULL)
        csv->turn++;
}

void csv_row(struct csv *csv, enum csv_kind kind, const struct meter *m,
             const struct token_costs *c, uint32_t steps)
{
    struct proc_memory memory, *p = &memory;
    const char *comma = "";
    unsigned turn = csv != NULL ? csv->turn : 0;

    if (!writes(csv))
        return;
    read_memory(p);
#define VALUE(name_, format_, value_, meaning_)                                                    \
    fprintf(csv->file, "%s" format_, comma, value_);                                               \
    comma = ",";
    CSV_COLUMNS(VALUE)
#undef VALUE
    fputc('\n', csv->file);
    flush(csv);
}

void csv_span(struct csv *csv, enum csv_kind kind, struct meter *m, uint32_t steps)
{
    struct token_costs costs;

    if (csv == NULL)
        return;
    meter_span(m, &costs);
    csv_row(csv, kind, m, &costs, steps);
}

/* The trailer's spelling of a key: "tok/s", "stall_s/tok", "read_MiB"; those of a prefill stay. */
static void print_name(FILE *out, const char *key)
{
    size_t n = strlen(key);

    if (strcmp(key, "tok_s") == 0)
        fputs("tok/s", out);
    else if (strncmp(key, "prefill_", 8) == 0)
        fputs(key, out);
    else if (n > 4 && strcmp(key + n - 4, "_tok") == 0)
        fprintf(out, "%.*s/tok", (int)(n - 4), key);
    else if (n > 4 && strcmp(key + n - 4, "_mib") == 0)
        fprintf(out, "%.*s_MiB", (int)(n - 4), key);
    else
        fputs(key, out);
}

static void print_figure(FILE *out, const char *key, double value)
{
    fputc(' ', out);
    print_name(out, key);
    fprintf(out, "=%.9g", value < 0 ? -1.0 : value);
}

void csv_trailer(struct csv *csv, const struct turn *t)
{
    const struct meter *m = t->meter;

    if (!writes(csv))
        return;
    fprintf(csv->file, "# summary turn=%u s/tok=%.9g", csv->turn,
            turn_per_decode(t, m->sum.wall_ms));
    for (size_t i = 0; i < turn_figures_n; i++)
        print_figure(csv->file, turn_figures[i].key, turn_value(t, i));
    for (size_t i = 0; i < counter_table_n; i++) {
        const struct counter *c = &counter_table[i];

        print_figure(csv->file, c->key,
                     counter_in_key_unit(c, counter_part(c, &m->before, &m->after)));
        if (c->prefill_key != NULL)
            print_figure(csv->file, c->prefill_key,
                         counter_in_key_unit(c, counter_part(c, &m->before, &m->prompt_done)));
    }
    fputc('\n', csv->file);
    flush(csv);
}

bool csv_close(struct csv *csv)
{
    if (csv->file != NULL && fclose(csv->file) != 0 && !csv->failed)
        say_failed(csv);
    csv->file = NULL;
    return !csv->failed;
}
