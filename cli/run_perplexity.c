/*
 * --ppl and --ppl-list: see run.h. Values are doubles printed so that they read back to the same
 * bits. On standard output: the value (and after it the path, where there is a list), then a line
 * "choice VALUE TEXT" per choice.
 */
#include "run.h"

#include "cli_error.h"
#include "summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state behind the callbacks of one text or decision. */
struct scoring {
    struct run *run;
    struct meter meter;
};

static void begin(struct scoring *s, struct run *run)
{
    s->run = run;
    meter_begin(&s->meter, run->session);
    csv_turn(run->csv);
}

/* The figures are of seconds spent on prompts only. */
static void end(struct scoring *s, double seconds, uint32_t n_reused, char *said, size_t bytes)
{
    struct bmoe_result result = {
        .size = sizeof(result), .prefill_s = seconds, .n_reused = n_reused};
    const struct turn turn = {&s->meter, &result};

    meter_end(&s->meter);
    csv_trailer(s->run->csv, &turn);
    summary_write(said, bytes, &turn, 0);
}

static void on_window(void *user, uint32_t done, uint32_t total, double ppl)
{
    struct scoring *s = user;

    (void)done;
    (void)ppl;
    csv_span(s->run->csv, CSV_WINDOW, &s->meter, total);
}

static void on_progress(void *user, uint32_t tokens_done, uint32_t tokens_total, double ppl)
{
    const struct scoring *s = user;
    struct run *run = s->run;

    if (cli_signals_pending(run->signals))
        return;
    if (ppl > 0)
        terminal_progress(run->terminal, "token %u of %u, perplexity so far %.4f", tokens_done,
                          tokens_total, ppl);
    else
        terminal_progress(run->terminal, "token %u of %u", tokens_done, tokens_total);
}

static void on_choices_progress(void *user, uint32_t tokens_done, uint32_t tokens_total)
{
    on_progress(user, tokens_done, tokens_total, 0);
}

static int print_value(struct run *run, const struct bmoe_perplexity_result *result,
                       const struct ppl_text *text, struct bmoe_error *err)
{
    char value[64];
    int bytes = snprintf(value, sizeof(value), "%.17g", result->ppl);

    output_write(run->output, value, (size_t)bytes);
    if (run->options->ppl_list != NULL) {
        output_write(run->output, " ", 1);
        output_write(run->output, text->path, strlen(text->path));
    }
    return output_end(run->output, err);
}

static void print_lines(struct scoring *s, const struct bmoe_perplexity_result *result)
{
    char said[512];

    end(s, result->seconds, 0, said, sizeof(said));
    terminal_line(s->run->terminal,
                  "perplexity %.4f (nll %.5f) over %u tokens scored in %u windows, %.2f s%s%s",
                  result->ppl, result->nll, result->n_scored, result->n_windows, result->seconds,
                  said[0] != '\0' ? "; " : "", said);
}

/* ---- choices ---- */

/* Takes the list apart, in place; answers how many. */
static size_t split_choices(char *list, const char **choices, size_t room)
{
    size_t n = 0;

    for (char *comma = list; comma != NULL && n < room; list = comma + 1) {
        comma = strchr(list, ',');
        if (comma != NULL)
            *comma = '\0';
        choices[n++] = list;
        if (comma == NULL)
            break;
    }
    return n;
}

static int print_choices(struct run *run, const char *const *choices,
                         const struct bmoe_decide_result *result, struct bmoe_error *err)
{
    for (uint32_t i = 0; i < result->n_choices; i++) {
        char value[64];
        int bytes = snprintf(value, sizeof(value), "choice %.17g ", result->choice_logp[i]);

        output_write(run->output, value, (size_t)bytes);
        output_write(run->output, choices[i], strlen(choices[i]));
        output_write(run->output, "\n", 1);
    }
    return output_end(run->output, err);
}

static int score_choices(struct run *run, const struct ppl_text *text, struct bmoe_error *err)
{
    const char *choices[256];
    struct bmoe_decide_result result = {.size = sizeof(result)};
    struct scoring s;
    struct bmoe_decide d;
    char *list = strdup(run->options->ppl_choices), said[512];
    int rc;

    if (list == NULL)
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the choices");
    bmoe_decide_init(&d);
    d.prefix = text->text.text;
    d.prefix_bytes = text->text.bytes;
    d.choices = choices;
    d.n_choices = split_choices(list, choices, sizeof(choices) / sizeof(choices[0]));
    d.on_prefill = on_choices_progress;
    d.user = &s;
    begin(&s, run);
    rc = bmoe_session_decide(run->session, &d, &result, err);
    terminal_clear(run->terminal);
    if (rc == 0) {
        csv_span(run->csv, CSV_DECISION, &s.meter, 1);
        end(&s, result.prefill_s, result.n_reused, said, sizeof(said));
        rc = print_choices(run, choices, &result, err);
    }
    free(list);
    return rc;
}

/* ---- the texts ---- */

static int score(struct run *run, const struct ppl_text *text, struct bmoe_error *err)
{
    const struct cli_options *o = run->options;
    struct bmoe_perplexity_result result = {.size = sizeof(result)};
    struct scoring s;
    struct bmoe_perplexity p = {.size = sizeof(p),
                                .text = text->text.text,
                                .text_bytes = text->text.bytes,
                                .chunk = o->ppl_chunk,
                                .skip = o->ppl_skip,
                                .step = o->ppl_step,
                                .on_progress = on_progress,
                                .on_window = on_window,
                                .user = &s};
    int rc;

    begin(&s, run);
    rc = bmoe_session_perplexity(run->session, &p, &result, err);

    terminal_clear(run->terminal);
    if (rc < 0)
        return rc;
    if (!isfinite(result.ppl))
        return cli_error_set(err, BMOE_E_MODEL,
                             "the perplexity of %s is not a finite number: the model's logits are "
                             "damaged, or it gives a token of the text no chance at all",
                             text->path);
    rc = print_value(run, &result, text, err);
    if (rc == 0)
        print_lines(&s, &result);
    return rc == 0 && o->ppl_choices != NULL ? score_choices(run, text, err) : rc;
}

int run_perplexity(struct run *run, const struct ppl_texts *texts, struct bmoe_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < texts->n && rc == 0; i++) {
        if (!cli_signals_request_begin(run->signals))
            return cli_error_set(err, BMOE_E_CANCELLED, "stopped before the text was read");
        rc = score(run, &texts->at[i], err);
        cli_signals_request_end(run->signals);
    }
    return rc;
}
