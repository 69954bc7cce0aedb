/*
 * bmoe, the program: reads the command line, opens the model, runs what was asked, and turns what
 * came of it into an exit status. All work is behind include/bmoe.h.
 *
 * The order matters: descriptors and signals first, then everything that can be refused without the
 * model (options, prompt, grammar), then the load.
 */
#include "cli_error.h"
#include "config_json.h"
#include "device_list.h"
#include "help.h"
#include "last_words.h"
#include "omp_spin.h"
#include "options.h"
#include "run.h"
#include "session_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a run works on, read before the model is opened. */
struct texts {
    struct cli_text subject; /* the prompt; empty: a conversation */
    struct cli_text grammar;
    struct ppl_texts scored; /* --ppl, --ppl-list */
};

static void on_note(void *user, const char *line)
{
    terminal_line(user, "%s", line);
}

static void on_load(void *user, float part)
{
    terminal_progress(user, "loading: %.0f %%", 100.0 * (double)part);
}

static int read_texts(struct texts *out, const struct cli_options *o, struct bmoe_error *err)
{
    int rc = 0;

    if (o->ppl_file != NULL || o->ppl_list != NULL)
        rc = ppl_texts_read(&out->scored, o, err);
    else if (o->prompt != NULL)
        rc = cli_text_copy(&out->subject, o->prompt, "the prompt", err);
    else if (o->prompt_file != NULL)
        rc = cli_text_read(&out->subject, o->prompt_file, "the prompt", err);
    else if (!isatty(STDIN_FILENO) && !o->session)
        rc = cli_text_read(&out->subject, "-", "the prompt", err);
    if (rc == 0 && o->grammar_file != NULL)
        rc = cli_text_read(&out->grammar, o->grammar_file, "the grammar", err);
    return rc;
}

static int open_session(struct run *run, struct bmoe_error *err)
{
    struct bmoe_info info = {.size = sizeof(info)};
    struct bmoe_options options;
    int rc;

    session_args_open(&options, run->options);
    traces_attach(run->traces, &options);
    options.log = terminal_log;
    options.log_user = run->terminal;
    options.progress = on_load;
    options.progress_user = run->terminal;
    rc = bmoe_session_open(&run->session, &options, err);
    terminal_clear(run->terminal);
    if (rc < 0)
        return rc;
    cli_signals_attach(run->signals, run->session);
    bmoe_session_describe(run->session, &info);
    terminal_line(run->terminal, "mode: %s", info.mode);
    csv_begin(run->csv, run->options, &info);
    return 0;
}

static int run_model(struct run *run, struct texts *texts, struct csv *csv, struct bmoe_error *err)
{
    int rc = read_texts(texts, run->options, err);

    if (rc < 0)
        return rc;
    run->grammar = texts->grammar.text;
    if (run->options->csv != NULL) {
        rc = csv_open(csv, run->options->csv, run->terminal, err);
        if (rc < 0)
            return rc;
        run->csv = csv;
    }
    rc = traces_open(run->traces, run->options, run->terminal, err);
    if (rc < 0)
        return rc;
    rc = open_session(run, err);
    if (rc < 0 && run->options->session) {
        run_session_refuse(run, err);
        return err->code = BMOE_E_IO; /* a failure to the one who started us, not misuse */
    }
    if (rc < 0)
        return rc;
    if (run->options->session)
        return run_session(run, err);
    if (texts->scored.n > 0)
        return run_perplexity(run, &texts->scored, err);
    if (texts->subject.text != NULL)
        return run_prompt(run, &texts->subject, err);
    return run_chat(run, err);
}

/* A reader that goes away has seen enough of the help. */
static int print_help(struct output *out, struct bmoe_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    int failed = file == NULL || help_print(file) < 0;

    if (file != NULL && fclose(file) != 0)
        failed = 1;
    if (failed) {
        free(text);
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for the help");
    }
    output_write(out, text, bytes);
    free(text);
    return out->errnum == EPIPE ? 0 : output_end(out, err);
}

static int run_action(struct run *run, struct texts *texts, struct csv *csv, struct bmoe_error *err)
{
    switch ((enum cli_action)run->options->action) {
    case CLI_HELP:
        return print_help(run->output, err);
    case CLI_VERSION:
        output_write(run->output, "bmoe ", 5);
        output_write(run->output, bmoe_version(), strlen(bmoe_version()));
        return output_end(run->output, err);
    case CLI_LIST_DEVICES:
        return device_list_print(run->output, err);
    case CLI_DESCRIBE_PARAMS:
        return config_json_describe(run->output, err);
    case CLI_RUN:
        break;
    }
    return run_model(run, texts, csv, err);
}

/* The exit status of a finished run; says what went wrong. */
static int conclude(struct run *run, int rc, const struct bmoe_error *err)
{
    int number = run->ended_by != 0 ? run->ended_by : cli_signals_take(run->signals);

    if (run->ended_by != 0 || (rc == BMOE_E_CANCELLED && number != 0))
        return EXIT_SIGNALLED + number;
    if (rc < 0)
        terminal_line(run->terminal, "%s", err->text);
    return cli_error_exit_status(rc);
}

/* --show-config: the exit status says whether the options are right. */
static int show_config(struct run *run, int rc, const struct bmoe_error *parsed, int argc,
                       char **argv)
{
    struct bmoe_error err = {0};

    if (config_json_show(run->output, run->options, rc, parsed, argc, argv, &err) < 0) {
        terminal_line(run->terminal, "%s", err.text);
        return EXIT_FAILED;
    }
    return rc < 0 ? EXIT_FAILED : EXIT_FINE;
}

int main(int argc, char **argv)
{
    struct cli_options options;
    struct terminal terminal;
    struct output output;
    struct cli_signals signals;
    struct texts texts = {0};
    struct csv csv = {0};
    struct traces traces = {0};
    struct bmoe_error err = {0};
    struct run run = {.options = &options,
                      .terminal = &terminal,
                      .output = &output,
                      .signals = &signals,
                      .traces = &traces};
    int rc, status;

    omp_spin_settle(argv);
    last_words_settle();
    rc = output_init(&output, &err);
    terminal_init(&terminal);
    if (rc == 0)
        rc = options_parse(&options, argc, argv, on_note, &terminal, &err);
    if (config_json_wanted(argc, argv))
        return show_config(&run, rc, &err, argc, argv);
    if (rc == 0)
        rc = cli_signals_start(&signals, &err);
    if (rc < 0) {
        terminal_line(&terminal, "%s", err.text);
        return cli_error_exit_status(rc);
    }
    rc = run_action(&run, &texts, &csv, &err);
    status = conclude(&run, rc, &err);
    cli_signals_detach(&signals);
    bmoe_session_close(run.session);
    cli_signals_stop(&signals);
    bool whole = csv_close(&csv);

    whole &= traces_close(&traces);
    cli_text_free(&texts.subject);
    cli_text_free(&texts.grammar);
    ppl_texts_fini(&texts.scored);
    return status == 0 && !whole ? cli_error_exit_status(BMOE_E_IO) : status;
}
