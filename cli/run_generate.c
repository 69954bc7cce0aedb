/*
 * One answer: from a prompt to printed text and the summary line. See run.h.
 */
#include "run.h"

#include "chat_split.h"
#include "cli_error.h"
#include "session_args.h"
#include "summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state behind the request's callbacks. */
struct printing {
    struct run *run;
    struct chat_split split;
    bool chat;
    bool thought;              /* something of a thinking span was shown and not yet ended */
    struct run_answer *answer; /* NULL: not wanted */
    bool no_memory;
    struct meter meter;
    uint32_t n_predict;
};

static bool keep_text(struct printing *p, const char *text, size_t bytes)
{
    char *grown;

    if (p->answer == NULL)
        return true;
    grown = realloc(p->answer->text, p->answer->bytes + bytes + 1);
    p->no_memory = grown == NULL;
    if (grown == NULL)
        return false;
    memcpy(grown + p->answer->bytes, text, bytes);
    p->answer->text = grown;
    p->answer->bytes += bytes;
    grown[p->answer->bytes] = '\0';
    return true;
}

static void end_thought(struct printing *p)
{
    if (p->thought)
        terminal_text(p->run->terminal, TERMINAL_PLAIN, "\n", 1);
    p->thought = false;
}

static bool print_part(void *user, bool thinking, const char *text, size_t bytes)
{
    struct printing *p = user;

    if (thinking) {
        terminal_text(p->run->terminal, TERMINAL_DIM, text, bytes);
        p->thought = true;
        return true;
    }
    end_thought(p);
    terminal_clear(p->run->terminal);
    return output_write(p->run->output, text, bytes) && keep_text(p, text, bytes);
}

static bool on_text(void *user, const char *text, size_t bytes)
{
    struct printing *p = user;

    if (cli_signals_pending(p->run->signals))
        return false;
    return p->chat ? chat_split_feed(&p->split, text, bytes) : print_part(p, false, text, bytes);
}

static void on_prefill(void *user, uint32_t tokens_done, uint32_t tokens_total)
{
    struct printing *p = user;

    if (cli_signals_pending(p->run->signals))
        return;
    terminal_progress(p->run->terminal, "reading the prompt: %u of %u tokens", tokens_done,
                      tokens_total);
}

static void on_logits(void *user, const float *logits, uint32_t n_vocab, bool prompt)
{
    struct printing *p = user;

    (void)logits;
    (void)n_vocab;
    meter_logits(&p->meter, prompt);
}

static void on_token(void *user, int32_t token)
{
    struct printing *p = user;
    struct token_costs costs;

    (void)token;
    meter_token(&p->meter, &costs);
    csv_row(p->run->csv, CSV_TOKEN, &p->meter, &costs, p->n_predict);
}

static void begin_measuring(struct printing *p, struct bmoe_generate *g)
{
    p->n_predict = g->n_predict;
    g->on_logits = on_logits;
    g->on_token = on_token;
    meter_begin(&p->meter, p->run->session);
    csv_turn(p->run->csv);
}

/* Stop strings of the command line and of the chat format in one list. */
static size_t collect_stops(const char **stop, const struct cli_options *o, const struct chat *chat)
{
    size_t n = 0;

    for (size_t i = 0; i < o->stop.n; i++)
        stop[n++] = o->stop.item[i];
    for (size_t i = 0; chat != NULL && i < CHAT_STOP_MAX; i++) {
        if (chat->format->stop[i] != NULL)
            stop[n++] = chat->format->stop[i];
    }
    return n;
}

static void print_summary(struct printing *p, const struct bmoe_result *result)
{
    const struct turn turn = {&p->meter, result};
    char line[512];

    summary_write(line, sizeof(line), &turn, p->n_predict);
    terminal_line(p->run->terminal, "%s%s", result->cancelled ? "stopped; " : "", line);
}

/* What the request's answer means for the program. Broken output comes first, because it is what
 * ended the request. */
static int judge(struct printing *p, int rc, struct bmoe_error *err)
{
    int written = p->run->output->errnum != 0 || rc >= 0 || rc == BMOE_E_CANCELLED
                      ? output_end(p->run->output, err)
                      : 0;

    if (written < 0)
        return written;
    if (p->no_memory)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the answer's text");
    return rc;
}

void run_request_set_prompt(struct run_request *request, const struct chat_prompt *prompt)
{
    request->prompt = prompt->text;
    request->prompt_bytes = prompt->bytes;
    request->words = prompt->words;
    request->n_words = prompt->n_words;
    request->stable_bytes = prompt->stable_bytes;
}

int run_generate(struct run *run, const struct run_request *request, struct run_answer *answer,
                 struct bmoe_error *err)
{
    const char *stop[CLI_STOP_MAX + CHAT_STOP_MAX];
    struct printing p = {.run = run, .answer = answer, .chat = request->chat != NULL};
    struct bmoe_result result = {.size = sizeof(result)};
    const struct turn turn = {&p.meter, &result};
    struct bmoe_generate g;
    int rc;

    if (p.chat)
        chat_split_init(&p.split, request->chat, print_part, &p);
    session_args_generate(&g, run->options, run->grammar);
    g.prompt = request->prompt;
    g.prompt_bytes = request->prompt_bytes;
    g.words = request->words;
    g.n_words = request->n_words;
    g.stable_bytes = request->stable_bytes;
    g.n_predict = request->n_predict;
    g.keep_kv = request->keep_kv;
    g.special = p.chat;
    g.stop = stop;
    g.n_stop = collect_stops(stop, run->options, request->chat);
    g.on_text = on_text;
    g.on_prefill = on_prefill;
    g.user = &p;

    if (!cli_signals_request_begin(run->signals))
        return cli_error_set(err, BMOE_E_CANCELLED, "stopped before the answer began");
    begin_measuring(&p, &g);
    rc = bmoe_session_generate(run->session, &g, &result, err);
    cli_signals_request_end(run->signals);
    meter_end(&p.meter);
    csv_trailer(run->csv, &turn);

    if (p.chat && (rc >= 0 || rc == BMOE_E_CANCELLED))
        (void)chat_split_end(&p.split);
    end_thought(&p);
    terminal_clear(run->terminal);
    if (answer != NULL)
        answer->cancelled = rc == BMOE_E_CANCELLED;
    rc = judge(&p, rc, err);
    if (rc >= 0 || rc == BMOE_E_CANCELLED)
        print_summary(&p, &result);
    return rc;
}
