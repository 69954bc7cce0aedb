/*
 * A run of the program on one open model: its parts, and the requests it can make. Each run_*
 * answers 0 or a negative enum bmoe_code with the sentence in *err; BMOE_E_CANCELLED means that a
 * signal ended it and that what was there has been printed.
 */
#ifndef BMOE_CLI_RUN_H
#define BMOE_CLI_RUN_H

#include "bmoe.h"
#include "chat_format.h"
#include "cli_signals.h"
#include "cli_text.h"
#include "csv.h"
#include "options.h"
#include "output.h"
#include "ppl_texts.h"
#include "terminal.h"
#include "traces.h"

/* Everything is borrowed from main. */
struct run {
    const struct cli_options *options;
    struct terminal *terminal;
    struct output *output;
    struct cli_signals *signals;
    struct bmoe_session *session;
    struct traces *traces;
    struct csv *csv;     /* NULL: no table */
    const char *grammar; /* NULL: none */
    int ended_by;        /* the signal that ended the conversation, 0: none */
};

/* What is asked of an answer. */
struct run_request {
    const char *prompt;
    size_t prompt_bytes;
    const struct bmoe_span *words; /* n_words of them */
    size_t n_words;
    size_t stable_bytes;
    uint32_t n_predict;
    const struct chat *chat; /* NULL: the text is printed as it comes */
    bool keep_kv;
};

/* Points the request at a rendered conversation, which must outlive it. */
void run_request_set_prompt(struct run_request *request, const struct chat_prompt *prompt);

/* An answer without its thinking span; heap, NUL-terminated, NULL when nothing came. */
struct run_answer {
    char *text;
    size_t bytes;
    bool cancelled;
};

/* Generates one answer: prints it to standard output, a thinking span to standard error, and the
 * summary line. With answer not NULL the text is also given out, for the caller to free, even when
 * the request was cancelled. */
int run_generate(struct run *run, const struct run_request *request, struct run_answer *answer,
                 struct bmoe_error *err);

/* The prompt of the command line as one request. */
int run_prompt(struct run *run, const struct cli_text *prompt, struct bmoe_error *err);

/* The conversation on a terminal. */
int run_chat(struct run *run, struct bmoe_error *err);

/* --session: requests of another program, line by line, until it closes. */
int run_session(struct run *run, struct bmoe_error *err);
/* Tells it that the session did not open. */
void run_session_refuse(struct run *run, const struct bmoe_error *err);

/* --ppl, --ppl-list: the values to standard output in full precision, lines for people. */
int run_perplexity(struct run *run, const struct ppl_texts *texts, struct bmoe_error *err);

#endif
