/*
 * Runs gate cases (their words are the arguments) three ways, each in a process of its own: stock
 * libllama, our engine resident, our engine streamed. All rows must be the same bytes, the counters
 * must show that the experts were in truth streamed, and memory must stay within the plan. After
 * the word "then" follow the words of a further streamed run that are other than those of the one
 * before, under the same run key. Prints what each run did; exit 0 when all holds, 2 for words that
 * make no case.
 */
#include "gate_run.h"

#include <stdio.h>
#include <string.h>

#define MIB (1 << 20)

struct run {
    struct gate_rows rows;
    struct gate_result r;
};

static int n_failed;

static void check(bool holds, const char *what, long long value)
{
    if (holds)
        return;
    printf("FAILED: %s (%lld)\n", what, value);
    n_failed++;
}

static void check_ran(const struct run *run, const struct gate_case *c, const char *way)
{
    if (run->r.code == BMOE_OK && run->r.n_rows == c->n_decode + 1 &&
        run->r.n_prompt == c->n_prompt)
        return;
    printf("FAILED: %s: code %d, %u rows: %s\n", way, run->r.code, run->r.n_rows, run->r.text);
    n_failed++;
}

static void check_same(const struct run *a, const struct run *b, const char *what)
{
    char said[256];
    if (a->r.code || b->r.code || gate_rows_equal(&a->rows, &b->rows, said, sizeof said))
        return;
    printf("FAILED: %s: %s\n", what, said);
    n_failed++;
}

/* A sanitizer's own memory is in no plan: what was freed, and shadows. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BEYOND_PLANS ((int64_t)1 << 40)
#else
#define BEYOND_PLANS (16 * (int64_t)MIB)
#endif

/* Peak memory is at most what was printed before the load, 3 % and 16 MiB. */
static void check_memory(const struct gate_result *r, const char *what)
{
    int64_t allowed = (int64_t)((double)r->info.planned_bytes * 1.03) + BEYOND_PLANS;
    check(r->peak_bytes > 0 && r->peak_bytes <= allowed, what, r->peak_bytes - allowed);
}

/* At the floor everything is read again and again; with room for all nothing is. */
static void check_streamed(const struct gate_case *c, const struct gate_result *r)
{
    const struct bmoe_stats *s = &r->stats;
    bool waits = r->info.place == BMOE_PLACE_NONE;
    check(r->info.streamed, "the session streams", r->info.streamed);
    check(c->place == BMOE_PLACE_AUTO || r->info.place == c->place, "place", r->info.place);
    check(s->lost_pages == 0, "no page is lost", s->lost_pages);
    check(s->mapping_faults == 0, "no weight comes from the mapping", s->mapping_faults);
    check(s->bytes_read > 0 && s->reads > 0 && s->misses > 0, "weights are read", s->bytes_read);
    check(s->resident_bytes <= (int64_t)r->info.budget_bytes, "the budget holds",
          s->resident_bytes);
    if (c->budget == GATE_BUDGET_ALL) {
        check(s->evictions == 0, "with room for all none is evicted", s->evictions);
        check(s->rereads == 0, "with room for all none is read again", s->rereads);
        check(s->hits > 0, "experts are met in memory", s->hits);
    }
    /* Of the small models this one has several layers with experts. */
    if (c->budget == GATE_BUDGET_HALF && strstr(c->model, "qwen3moe"))
        check(s->ahead_used > 0, "guesses of the next layer's experts are used", s->ahead_used);
    if (c->budget != GATE_BUDGET_FLOOR)
        return;
    check(s->evictions >= 10 * s->resident_extents, "evictions >= 10 x resident extents",
          s->evictions);
    check(s->rereads > 0, "experts are read again", s->rereads);
    check(waits || s->faults > 0, "compute meets absent experts", s->faults);
    check(!waits || s->hook_wait_us > 0, "the graph waits for its reads", s->hook_wait_us);
}

static void report(const struct gate_case *c, const struct run *resident,
                   const struct run *streamed)
{
    uint32_t distinct;
    uint64_t hash = gate_rows_hash(&streamed->rows, &distinct);
    const struct bmoe_stats *s = &streamed->r.stats;
    char words[1024];
    /* A model that answers the same at every step proves nothing. */
    check(distinct > c->n_decode / 2, "most rows differ from each other", distinct);
    gate_case_print(c, words, sizeof words);
    printf("%s: %s\n", n_failed ? "not equal" : "equal", words);
    printf("  %s\n", streamed->r.mode);
    printf("  %u rows, %u distinct, %016llx; read %.1f MiB in %lld, hits %lld, misses %lld, "
           "evictions %lld (resident %lld), rereads %lld, faults %lld, hook wait %lld us, retries "
           "%lld\n",
           streamed->r.n_rows, distinct, (unsigned long long)hash, (double)s->bytes_read / MIB,
           (long long)s->reads, (long long)s->hits, (long long)s->misses, (long long)s->evictions,
           (long long)s->resident_extents, (long long)s->rereads, (long long)s->faults,
           (long long)s->hook_wait_us, (long long)s->retries);
    printf("  peak %.1f of %.1f MiB planned; resident %.1f of %.1f; %.2f s and %.2f s\n",
           (double)streamed->r.peak_bytes / MIB, (double)streamed->r.info.planned_bytes / MIB,
           (double)resident->r.peak_bytes / MIB, (double)resident->r.info.planned_bytes / MIB,
           streamed->r.seconds, resident->r.seconds);
}

static void run(const struct gate_case *c, enum gate_way way, uint32_t prompt_bytes,
                struct run *run, const char *what)
{
    if (!gate_rows_open(&run->rows))
        check(false, "a file for rows", 0);
    gate_run(c, way, prompt_bytes, &run->rows, &run->r);
    check_ran(run, c, what);
}

/* Stock tells how many bytes of the text are the prompt, so it runs even if it is not compared. */
static void run_references(const struct gate_case *c, struct run *stock, struct run *resident)
{
    struct gate_case reference = *c;
    if (!c->stock)
        reference.n_decode = 0;
    run(&reference, GATE_STOCK, 0, stock, "stock libllama");
    run(c, GATE_RESIDENT, stock->r.prompt_bytes, resident, "resident");
    if (c->stock)
        check_same(stock, resident, "resident and stock libllama");
    if (resident->r.code == BMOE_OK)
        check_memory(&resident->r, "resident: memory within the plan");
}

static void run_streamed(struct gate_case *c, uint32_t prompt_bytes, const struct run *resident)
{
    struct run probe = {.rows.fd = -1}, streamed = {0};
    gate_run(c, GATE_PROBE, 0, &probe.rows, &probe.r);
    check(probe.r.code == BMOE_OK, probe.r.text, probe.r.code);
    c->budget_bytes = gate_case_budget(c, probe.r.info.expert_bytes, probe.r.info.floor_bytes);
    run(c, GATE_STREAMED, prompt_bytes, &streamed, "streamed");
    check_same(resident, &streamed, "streamed and resident");
    if (streamed.r.code == BMOE_OK) {
        check_memory(&streamed.r, "streamed: memory within the plan");
        check_streamed(c, &streamed.r);
    }
    report(c, resident, &streamed);
    gate_rows_close(&streamed.rows);
}

/* Takes words up to the next "then"; answers where that was, or 0 when a word is wrong. */
static int take_words(struct gate_case *c, int from, int argc, char **argv)
{
    int i = from;
    for (; i < argc && strcmp(argv[i], "then") != 0; i++)
        if (!gate_case_word(c, argv[i]))
            return 0;
    bool fits = c->model && c->n_prompt + c->n_decode <= c->n_ctx && c->n_ctx <= 8192;
    return fits ? i : 0;
}

int main(int argc, char **argv)
{
    struct gate_case c;
    struct run stock = {0}, resident = {0};
    int n_cases = 0, n_bad = 0;
    gate_case_init(&c);
    int at = take_words(&c, 1, argc, argv);
    if (at == 0)
        return 2;
    run_references(&c, &stock, &resident);
    for (;;) {
        c.budget_bytes = 0;
        run_streamed(&c, stock.r.prompt_bytes, &resident);
        n_cases++;
        n_bad += n_failed > 0;
        n_failed = 0;
        if (at >= argc)
            break;
        at = take_words(&c, at + 1, argc, argv);
        if (at == 0)
            return 2;
    }
    printf("%d equal, %d not\n", n_cases - n_bad, n_bad);
    return n_bad ? 1 : 0;
}
