/* The replay has a thread of its own that only waits; the reading is done by the pager's readers.
 */
#include "both.h"

#include "bench.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/session_hooks.h"

#include <pthread.h>
#include <stdlib.h>

void bench_reads_free(struct bench_reads *reads)
{
    free(reads->records);
    *reads = (struct bench_reads){0};
}

void bench_reads_take(struct bench_reads *reads, struct pager *pager)
{
    bench_reads_free(reads);
    reads->n = pager_trace_take(pager, &reads->records);
}

double bench_reads_bytes(const struct bench_reads *reads)
{
    double bytes = 0;
    for (size_t i = 0; i < reads->n; i++)
        bytes += (double)reads->records[i].bytes;
    return bytes;
}

double bench_reads_alone(const struct bench_reads *reads, struct pager *pager,
                         struct bmoe_error *err)
{
    int64_t us = reads->n ? pager_replay(pager, reads->records, reads->n, err) : 0;
    return us < 0 ? (double)us : (double)us / 1e6;
}

struct run {
    struct both *b;
    int phase; /* that is under way */
    int64_t from_us;
    pthread_t thread;
    bool reading;
    double alone; /* negative: a code, with err */
    struct bmoe_error err;
    int rc; /* of the replays */
};

static void *read_again(void *arg)
{
    struct run *r = arg;
    r->alone = bench_reads_alone(r->b->reads[r->phase], r->b->pager, &r->err);
    return NULL;
}

static void begin(struct run *r)
{
    const struct bench_reads *reads = r->b->reads[r->phase];
    r->from_us = clock_now_us();
    r->reading = reads && reads->n > 0;
    if (r->reading && pthread_create(&r->thread, NULL, read_again, r) != 0) {
        r->reading = false;
        r->rc = error_set(&r->err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no thread for the replay");
    }
}

static void end(struct run *r)
{
    if (r->reading)
        pthread_join(r->thread, NULL);
    if (r->reading && r->alone < 0)
        r->rc = (int)r->alone;
    r->reading = false;
    r->b->wall[r->phase] = (double)(clock_now_us() - r->from_us) / 1e6;
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct run *r = user;
    (void)logits;
    (void)n_vocab;
    if (!prompt || r->phase > 0)
        return;
    end(r);
    r->phase = 1;
    begin(r);
}

int both_run(struct both *b, struct bmoe_session *resident, unsigned n_prompt, unsigned n_decode,
             struct bmoe_error *err)
{
    int32_t tokens[BENCH_MAX_PROMPT];
    struct run r = {.b = b};
    struct bmoe_info info = {.size = sizeof info};
    struct bmoe_result result = {.size = sizeof result};
    struct bmoe_generate g;
    bmoe_session_describe(resident, &info);
    bench_tokens(tokens, n_prompt, info.n_vocab);
    bench_generate_init(&g, tokens, n_prompt, n_decode + 1);
    g.on_logits = on_logits;
    g.user = &r;
    begin(&r);
    int rc = bmoe_session_generate(resident, &g, &result, err);
    end(&r);
    if (rc >= 0 && r.rc < 0 && err)
        *err = r.err;
    return rc < 0 ? rc : r.rc;
}
