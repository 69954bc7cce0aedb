/*
 * bmoe.h without a model, for the program's tests: what a session "does" is said by the model's
 * name, "fake:KEY=VALUE;KEY;...". The prompt and the options come back as log lines, so that a test
 * sees what the program asked for.
 *
 *   answer=TEXT   the answer, given out in pieces of `piece` bytes (default 3, whole characters);
 *                 in all values \n is a line end, \c a semicolon
 *   template=TEXT the chat template
 *   echo          log the prompt of each request
 *   options       log the options at open
 *   open=CODE, request=CODE  fail there with that code (a positive number stands for -number)
 *   scope=N       what a failed request leaves usable, enum bmoe_scope
 *   ctx=N         the context's size; a token is a byte
 *   slow          wait 20 ms per piece
 *   hang          prefill does not end until cancelled
 *   slowload      the load takes ten seconds, and says so before
 *   ppl=NUMBER    the perplexity
 */
#include "bmoe.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bmoe_session {
    const char *spec; /* the model's name; lives in argv */
    bmoe_log_fn *log;
    void *log_user;
    char *chat_template;
    char *answer;
    atomic_bool cancelled;
    unsigned n_requests;
    int64_t n_prompt;
};

static void wait_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

/* The value of a key, heap; "" for a key without one; NULL when it is absent. */
static char *value_of(const char *spec, const char *key)
{
    size_t key_bytes = strlen(key);

    for (const char *p = strchr(spec, ':'); p != NULL; p = strchr(p, ';')) {
        size_t bytes;
        char *out, *to;

        p++;
        bytes = strcspn(p, ";=");
        if (bytes != key_bytes || strncmp(p, key, bytes) != 0)
            continue;
        p += bytes + (p[bytes] == '=');
        bytes = strcspn(p, ";");
        out = to = calloc(1, bytes + 1);
        for (size_t i = 0; out != NULL && i < bytes; i++) {
            bool escape = p[i] == '\\' && (p[i + 1] == 'n' || p[i + 1] == 'c');

            *to++ = !escape ? p[i] : p[i + 1] == 'n' ? '\n' : ';';
            i += escape;
        }
        return out;
    }
    return NULL;
}

static long number_of(const char *spec, const char *key, long absent)
{
    char *text = value_of(spec, key);
    long n = text != NULL ? strtol(text, NULL, 10) : absent;

    free(text);
    return n;
}

static bool has(const char *spec, const char *key)
{
    char *text = value_of(spec, key);

    free(text);
    return text != NULL;
}

static void say(const struct bmoe_session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct bmoe_session *s, const char *format, ...)
{
    char line[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    s->log(s->log_user, BMOE_LOG_INFO, line);
}

/* Line ends as \n, so that a text is one line. */
static void say_text(const struct bmoe_session *s, const char *name, const char *text, size_t bytes)
{
    char flat[900];
    size_t n = 0;

    for (size_t i = 0; i < bytes && n + 3 < sizeof(flat); i++) {
        if (text[i] == '\n') {
            flat[n++] = '\\';
            flat[n++] = 'n';
        } else {
            flat[n++] = text[i];
        }
    }
    flat[n] = '\0';
    say(s, "%s [%s]", name, flat);
}

static int fail(struct bmoe_error *err, long code, enum bmoe_scope scope, const char *what)
{
    err->code = -(int)code;
    err->scope = scope;
    snprintf(err->text, sizeof(err->text), "the fake %s fails", what);
    return err->code;
}

void bmoe_options_init(struct bmoe_options *o)
{
    memset(o, 0, sizeof(*o));
    o->size = sizeof(*o);
}

static void say_options(const struct bmoe_session *s, const struct bmoe_options *o)
{
    say(s, "ctx %u ubatch %u threads %u/%u fa %d kv %s/%s repack %d used %u", o->n_ctx, o->n_ubatch,
        o->n_threads, o->n_threads_batch, o->flash_attn, o->cache_type_k, o->cache_type_v,
        o->cpu_repack, o->n_expert_used);
    say(s,
        "stream %d cache %lld floor %lld ceil %lld readers %u buffered %d dense %d all %d place %d",
        o->stream, (long long)o->cache_bytes, (long long)o->cache_floor_bytes,
        (long long)o->cache_ceil_bytes, o->n_readers, o->buffered, o->dense, o->load_all, o->place);
    if (o->prefill_device != NULL)
        say(s, "device %s min %u ubatch %u loaders %u whole %d full %g dense %d", o->prefill_device,
            o->prefill_min_tokens, o->prefill_ubatch, o->prefill_loaders, o->prefill_whole,
            (double)o->prefill_routed_full, o->prefill_dense);
}

int bmoe_session_open(struct bmoe_session **out, const struct bmoe_options *o,
                      struct bmoe_error *err)
{
    struct bmoe_session *s;
    long code = number_of(o->model, "open", 0);

    if (code != 0)
        return fail(err, code, BMOE_SCOPE_SESSION, "open");
    if (has(o->model, "slowload")) {
        o->log(o->log_user, BMOE_LOG_INFO, "loading slowly");
        wait_ms(10000);
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return fail(err, -BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "memory");
    s->spec = o->model;
    s->log = o->log;
    s->log_user = o->log_user;
    s->answer = value_of(o->model, "answer");
    s->chat_template = value_of(o->model, "template");
    if (has(o->model, "options"))
        say_options(s, o);
    for (int i = 0; i <= 4 && o->progress != NULL; i++)
        o->progress(o->progress_user, (float)i / 4);
    *out = s;
    return 0;
}

void bmoe_session_close(struct bmoe_session *s)
{
    if (s == NULL)
        return;
    free(s->answer);
    free(s->chat_template);
    free(s);
}

void bmoe_session_describe(struct bmoe_session *s, struct bmoe_info *out)
{
    *out = (struct bmoe_info){.size = out->size,
                              .mode = "fake",
                              .chat_template = s->chat_template,
                              .arch = "fake",
                              .n_ctx = (uint32_t)number_of(s->spec, "ctx", 2048),
                              .load_s = 0.25};
}

void bmoe_session_stats(struct bmoe_session *s, struct bmoe_stats *out)
{
    *out = (struct bmoe_stats){.size = out->size,
                               .prefill_tokens = s->n_prompt,
                               .decode_tokens = (int64_t)s->n_requests * 5,
                               .decode_us = (int64_t)s->n_requests * 2000000,
                               .bytes_read = (int64_t)s->n_requests * 3 << 20,
                               .hits = (int64_t)s->n_requests * 3,
                               .misses = (int64_t)s->n_requests,
                               .fault_wait_us = (int64_t)s->n_requests * 20000,
                               .hook_wait_us = -1,
                               .peak_rss_bytes = 64 << 20};
}

void bmoe_generate_init(struct bmoe_generate *g)
{
    memset(g, 0, sizeof(*g));
    g->size = sizeof(*g);
}

static void say_request(const struct bmoe_session *s, const struct bmoe_generate *g)
{
    if (has(s->spec, "echo"))
        say_text(s, "prompt", g->prompt, g->prompt_bytes);
    if (!has(s->spec, "options"))
        return;
    say(s, "n %u temp %g k %d p %g min %g repeat %g seed %u eos %d keep %d special %d words %zu",
        g->n_predict, (double)g->sampling.temp, g->sampling.top_k, (double)g->sampling.top_p,
        (double)g->sampling.min_p, (double)g->sampling.repeat_penalty, g->sampling.seed,
        g->ignore_eos, g->keep_kv, g->special, g->n_words);
    for (size_t i = 0; i < g->n_stop; i++)
        say_text(s, "stop", g->stop[i], strlen(g->stop[i]));
    if (g->sampling.grammar != NULL)
        say_text(s, "grammar", g->sampling.grammar, strlen(g->sampling.grammar));
}

/* Gives out the answer piece by piece, never cutting a character. Answers false when told to end.
 */
static bool give_answer(struct bmoe_session *s, const struct bmoe_generate *g)
{
    const char *text = s->answer != NULL ? s->answer : "";
    size_t piece = (size_t)number_of(s->spec, "piece", 3);

    while (*text != '\0') {
        size_t n = strnlen(text, piece);

        while (((unsigned char)text[n] & 0xC0) == 0x80)
            n++;
        if (has(s->spec, "slow"))
            wait_ms(20);
        if (g->on_logits != NULL)
            g->on_logits(g->user, NULL, 0, text == s->answer);
        if (atomic_load(&s->cancelled) || !g->on_text(g->user, text, n))
            return false;
        if (g->on_token != NULL)
            g->on_token(g->user, 0);
        text += n;
    }
    return true;
}

int bmoe_session_generate(struct bmoe_session *s, const struct bmoe_generate *g,
                          struct bmoe_result *out, struct bmoe_error *err)
{
    long code = number_of(s->spec, "request", 0);

    atomic_store(&s->cancelled, false);
    say_request(s, g);
    if (code != 0)
        return fail(err, code, (enum bmoe_scope)number_of(s->spec, "scope", BMOE_SCOPE_REQUEST),
                    "request");
    g->on_prefill(g->user, 0, 2);
    g->on_prefill(g->user, 1, 2);
    while (has(s->spec, "hang") && !atomic_load(&s->cancelled))
        wait_ms(5);
    out->n_prompt = 10;
    out->n_reused = s->n_requests++ > 0 && g->keep_kv ? 4 : 0;
    s->n_prompt += out->n_prompt - out->n_reused;
    out->prefill_s = 0.5;
    out->first_token_s = 0.75;
    out->decode_s = 2;
    out->n_predicted = 5;
    out->cancelled = atomic_load(&s->cancelled) || !give_answer(s, g);
    return out->cancelled ? fail(err, -BMOE_E_CANCELLED, BMOE_SCOPE_REQUEST, "request") : 0;
}

void bmoe_decide_init(struct bmoe_decide *d)
{
    memset(d, 0, sizeof(*d));
    d->size = sizeof(*d);
}

/* The last choice is the likeliest, and the first has no chance. */
int bmoe_session_decide(struct bmoe_session *s, const struct bmoe_decide *d,
                        struct bmoe_decide_result *out, struct bmoe_error *err)
{
    static double logp[1024];
    long code = number_of(s->spec, "request", 0);

    atomic_store(&s->cancelled, false);
    if (has(s->spec, "echo")) {
        say_text(s, "prefix", d->prefix, d->prefix_bytes);
        say_text(s, "suffix", d->suffix, d->suffix_bytes);
        for (size_t i = 0; i < d->n_choices; i++)
            say_text(s, "choice", d->choices[i], strlen(d->choices[i]));
    }
    if (code != 0)
        return fail(err, code, (enum bmoe_scope)number_of(s->spec, "scope", BMOE_SCOPE_REQUEST),
                    "request");
    d->on_prefill(d->user, 0, 2);
    while (has(s->spec, "hang") && !atomic_load(&s->cancelled))
        wait_ms(5);
    out->cancelled = atomic_load(&s->cancelled);
    if (out->cancelled)
        return fail(err, -BMOE_E_CANCELLED, BMOE_SCOPE_REQUEST, "request");
    for (size_t i = 0; i < d->n_choices; i++)
        logp[i] = i == 0 ? -HUGE_VAL : -1.0 / (double)(i + 2);
    out->best = (uint32_t)d->n_choices - 1;
    out->n_choices = (uint32_t)d->n_choices;
    out->choice_logp = logp;
    out->n_tokens = 9;
    out->n_reused = d->reuse_prefix ? 7 : 0;
    out->n_prefilled = out->n_tokens - out->n_reused;
    return 0;
}

/* A token is a byte. */
int64_t bmoe_session_count_tokens(struct bmoe_session *s, const struct bmoe_generate *g,
                                  struct bmoe_error *err)
{
    (void)s;
    (void)err;
    return (int64_t)g->prompt_bytes;
}

int bmoe_session_perplexity(struct bmoe_session *s, const struct bmoe_perplexity *p,
                            struct bmoe_perplexity_result *out, struct bmoe_error *err)
{
    long code = number_of(s->spec, "request", 0);

    if (code != 0)
        return fail(err, code, BMOE_SCOPE_REQUEST, "request");
    if (has(s->spec, "echo"))
        say_text(s, "text", p->text, p->text_bytes);
    if (has(s->spec, "options"))
        say(s, "chunk %u skip %u step %d", p->chunk, p->skip, p->step);
    p->on_progress(p->user, 1, 1, 1.0);
    char *value = value_of(s->spec, "ppl");
    out->ppl = value != NULL ? strtod(value, NULL) : 1;
    out->nll = 0.5;
    out->n_scored = p->chunk;
    out->n_windows = 1;
    out->seconds = 0.25;
    free(value);
    return 0;
}

void bmoe_session_cancel(struct bmoe_session *s)
{
    atomic_store(&s->cancelled, true);
}

void bmoe_session_clear(struct bmoe_session *s)
{
    say(s, "cleared");
}

int bmoe_devices_visit(const char *backends_dir,
                       void (*on_device)(void *user, const struct bmoe_device *device), void *user,
                       struct bmoe_error *err)
{
    struct bmoe_device device = {sizeof(device),     "CPU",         "cpu",
                                 "A fake processor", 2048ULL << 20, 1024ULL << 20};

    (void)backends_dir;
    (void)err;
    on_device(user, &device);
    return 0;
}

const char *bmoe_version(void)
{
    return "0.0.0-fake";
}
