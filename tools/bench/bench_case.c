/* One session, its phases, and what each read. Prefills begin with no expert resident; the decode
 * begins with what the prefill before it left. */
#include "bench.h"

#include "engine/session_hooks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watch {
    struct pager *pager;
    struct bench_reads *prompt;          /* taken when the prompt's logits are there */
    struct pager_counters start, filled; /* when the request began, and when the prompt was done */
    double cpu_start, cpu_filled;
    uint64_t hash;
};

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void bench_tokens(int32_t *out, unsigned n, uint32_t n_vocab)
{
    uint64_t x = 88172645463325252u; /* xorshift64 */
    for (unsigned i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (int32_t)(3 + x % (n_vocab - 3));
    }
}

int bench_case_open(struct bench_case *c, const struct bench_options *o, struct bmoe_error *err)
{
    struct bmoe_options b;
    bmoe_options_init(&b);
    b.model = o->model;
    b.stream = c->streamed ? BMOE_ON : BMOE_OFF;
    b.place = c->place;
    b.cpu_repack = c->repack;
    b.cache_bytes = o->cache_bytes;
    b.n_threads = o->threads;
    b.n_readers = o->readers;
    b.n_ctx = 1024;
    return bmoe_session_open(&c->session, &b, err);
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct watch *w = user;
    const unsigned char *bytes = (const unsigned char *)logits;
    for (size_t i = 0; i < n_vocab * sizeof *logits; i += 7)
        w->hash = (w->hash ^ bytes[i]) * 1099511628211u;
    if (prompt) {
        bench_reads_take(w->prompt, w->pager);
        pager_counters_read(w->pager, &w->filled);
        w->cpu_filled = cpu_seconds();
    }
}

static int replay(struct bench_case *c, enum bench_phase phase, unsigned rep,
                  struct bmoe_error *err)
{
    double s = bench_reads_alone(&c->reads[phase], session_pager(c->session), err);
    c->times.reads[phase][rep] = s;
    c->times.read_bytes[phase] = bench_reads_bytes(&c->reads[phase]);
    return s < 0 ? (int)s : BMOE_OK;
}

/* A cold prefill of n tokens, then n_predict - 1 decodes. */
static int run(struct bench_case *c, unsigned n, unsigned n_predict, struct watch *w,
               struct bmoe_result *r, struct bmoe_error *err)
{
    int32_t tokens[BENCH_MAX_PROMPT];
    struct bmoe_info info = {.size = sizeof info};
    bmoe_session_describe(c->session, &info);
    bench_tokens(tokens, n, info.n_vocab);
    struct bmoe_generate g;
    bench_generate_init(&g, tokens, n, n_predict);
    g.on_logits = on_logits;
    g.user = w;
    w->pager = session_pager(c->session);
    pager_drop_all(w->pager);
    pager_counters_read(w->pager, &w->start);
    w->cpu_start = cpu_seconds();
    pager_trace_reads(w->pager, c->streamed);
    return bmoe_session_generate(c->session, &g, r, err);
}

static struct bench_spent spent(const struct pager_counters *a, const struct pager_counters *b,
                                double cpu)
{
    return (struct bench_spent){
        .cpu = cpu,
        .ahead = b->ahead_reads - a->ahead_reads,
        .used = b->ahead_used - a->ahead_used,
        .read = (double)(b->read_us - a->read_us) / 1e6,
        .carry = (double)(b->carry_us - a->carry_us) / 1e6,
        .place = (double)(b->place_us - a->place_us) / 1e6,
        .evict = (double)(b->evict_us - a->evict_us) / 1e6,
        .wait =
            (double)(b->pin_wait_us + b->fault_wait_us - a->pin_wait_us - a->fault_wait_us) / 1e6};
}

int bench_case_run(struct bench_case *c, const struct bench_options *o, unsigned rep,
                   struct bmoe_error *err)
{
    struct watch w = {.hash = BENCH_HASH_EMPTY, .prompt = &c->reads[PHASE_PREFILL_512]};
    struct bmoe_result r = {.size = sizeof r};
    int rc = run(c, 512, 1, &w, &r, err);
    if (rc < 0)
        return rc;
    c->times.wall[PHASE_PREFILL_512][rep] = r.prefill_s;
    c->times.spent[PHASE_PREFILL_512] = spent(&w.start, &w.filled, w.cpu_filled - w.cpu_start);
    bench_reads_take(&c->reads[PHASE_DECODE], w.pager); /* what was guessed for no token */
    rc = replay(c, PHASE_PREFILL_512, rep, err);
    w.prompt = &c->reads[PHASE_PREFILL_256];
    if (rc == BMOE_OK)
        rc = run(c, 256, o->n_decode + 1, &w, &r, err);
    if (rc < 0)
        return rc;
    c->times.wall[PHASE_PREFILL_256][rep] = r.prefill_s;
    c->times.wall[PHASE_DECODE][rep] = r.decode_s;
    c->times.logits = w.hash;
    struct pager_counters end;
    double cpu_end = cpu_seconds();
    pager_counters_read(w.pager, &end);
    c->times.spent[PHASE_PREFILL_256] = spent(&w.start, &w.filled, w.cpu_filled - w.cpu_start);
    c->times.spent[PHASE_DECODE] = spent(&w.filled, &end, cpu_end - w.cpu_filled);
    bench_reads_take(&c->reads[PHASE_DECODE], w.pager);
    pager_trace_reads(w.pager, false);
    rc = replay(c, PHASE_PREFILL_256, rep, err);
    int rc2 = replay(c, PHASE_DECODE, rep, err);
    return rc < 0 ? rc : rc2;
}

int bench_case_both(struct bench_case *c, const struct bench_case *resident,
                    const struct bench_options *o, unsigned rep, struct bmoe_error *err)
{
    struct both b = {.pager = session_pager(c->session), .reads = {&c->reads[PHASE_PREFILL_512]}};
    int rc = both_run(&b, resident->session, 512, 0, err);
    c->times.both[PHASE_PREFILL_512][rep] = b.wall[0];
    b.reads[0] = &c->reads[PHASE_PREFILL_256];
    b.reads[1] = &c->reads[PHASE_DECODE];
    if (rc >= 0)
        rc = both_run(&b, resident->session, 256, o->n_decode, err);
    c->times.both[PHASE_PREFILL_256][rep] = b.wall[0];
    c->times.both[PHASE_DECODE][rep] = b.wall[1];
    return rc < 0 ? rc : BMOE_OK;
}

void bench_case_close(struct bench_case *c)
{
    bmoe_session_close(c->session);
    for (int p = 0; p < BENCH_N_PHASES; p++)
        bench_reads_free(&c->reads[p]);
    c->session = NULL;
}

void bench_generate_init(struct bmoe_generate *g, const int32_t *tokens, unsigned n,
                         unsigned n_predict)
{
    bmoe_generate_init(g);
    g->tokens = tokens;
    g->n_tokens = n;
    g->n_predict = n_predict;
    g->ignore_eos = true;
}

uint64_t bench_hash(uint64_t hash, const float *logits, uint32_t n_vocab)
{
    const unsigned char *bytes = (const unsigned char *)logits;
    for (size_t i = 0; i < n_vocab * sizeof *logits; i += 61)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}
