/*
 * --ppl: see run.h. The value is a double printed so that it reads back to the same bits.
 */
#include "run.h"

#include "cli_error.h"
#include "summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void on_window(void *user, uint32_t done, uint32_t total, double ppl)
{
    struct run *run = user;

    if (cli_signals_pending(run->signals))
        return;
    terminal_progress(run->terminal, "window %u of %u, perplexity so far %.4f", done, total, ppl);
}

static int print_value(struct run *run, const struct bmoe_perplexity_result *result,
                       struct bmoe_error *err)
{
    char text[64];
    int bytes = snprintf(text, sizeof(text), "%.17g\n", result->ppl);

    output_write(run->output, text, (size_t)bytes);
    return output_end(run->output, err);
}

static void print_lines(struct run *run, const struct bmoe_perplexity_result *result)
{
    struct bmoe_stats stats = {.size = sizeof(stats)};
    char reads[256];

    bmoe_session_stats(run->session, &stats);
    summary_write_reads(reads, sizeof(reads), &stats);
    terminal_line(run->terminal,
                  "perplexity %.4f (nll %.5f) over %u tokens scored in %u windows, %.2f s%s%s",
                  result->ppl, result->nll, result->n_scored, result->n_windows, result->seconds,
                  reads[0] != '\0' ? "; " : "", reads);
}

int run_perplexity(struct run *run, const struct cli_text *text, struct bmoe_error *err)
{
    struct bmoe_perplexity_result result = {.size = sizeof(result)};
    struct bmoe_perplexity p = {.size = sizeof(p),
                                .text = text->text,
                                .text_bytes = text->bytes,
                                .chunk = run->options->ppl_chunk,
                                .on_window = on_window,
                                .user = run};
    int rc;

    if (!cli_signals_request_begin(run->signals))
        return cli_error_set(err, BMOE_E_CANCELLED, "stopped before the text was read");
    rc = bmoe_session_perplexity(run->session, &p, &result, err);
    cli_signals_request_end(run->signals);
    terminal_clear(run->terminal);
    if (rc < 0)
        return rc;
    if (!isfinite(result.ppl))
        return cli_error_set(err, BMOE_E_MODEL,
                             "the perplexity of %s is not a finite number: the model's logits are "
                             "damaged, or it gives a token of the text no chance at all",
                             run->options->ppl_file);
    rc = print_value(run, &result, err);
    if (rc == 0)
        print_lines(run, &result);
    return rc;
}
