/*
 * The conversation on a terminal: see run.h. The whole history is rendered for every turn and given
 * with keep_kv, so that the library computes only what is new. Ctrl-C stops an answer, a second one
 * in a row ends the program; what was said of a stopped answer stays in the history.
 */
#include "run.h"

#include "cli_error.h"
#include "dialogue.h"
#include "line_input.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char chat_help[] = "type a message and press Enter; a line that ends with \\ goes on "
                                "in the next; /clear forgets the conversation, /help prints this; "
                                "Ctrl-C stops an answer, twice or Ctrl-D ends";

struct conversation {
    struct run *run;
    struct chat chat;
    struct dialogue said;
    struct line_input input;
    bool interrupted; /* the last thing that happened was Ctrl-C */
};

/* Takes text, a heap string, even when it fails. */
static int append(struct conversation *c, enum chat_role role, char *text, struct bmoe_error *err)
{
    int rc = dialogue_append(&c->said, role, text != NULL ? text : "",
                             text != NULL ? strlen(text) : 0, err);

    free(text);
    return rc;
}

static void drop_last(struct conversation *c)
{
    dialogue_cut(&c->said, c->said.n - 1);
}

/* True when the error ends the conversation. */
static bool is_fatal(const struct conversation *c, const struct bmoe_error *err)
{
    return err->scope != BMOE_SCOPE_REQUEST || c->run->output->errnum != 0;
}

/* One user turn and its answer. Answers 0 also when only this turn failed. */
static int take_turn(struct conversation *c, char *text, struct bmoe_error *err)
{
    struct run_request request = {.chat = &c->chat, .keep_kv = true};
    struct run_answer answer = {0};
    struct chat_prompt rendered = {0};
    int rc = append(c, CHAT_USER, text, err);

    if (rc < 0)
        return rc;
    request.n_predict = c->run->options->typed[OPT_N_PREDICT] ? c->run->options->n_predict : 0;
    rc = chat_render(&c->chat, c->said.messages, c->said.n, &rendered, err);
    if (rc < 0)
        return rc;
    run_request_set_prompt(&request, &rendered);
    rc = run_generate(c->run, &request, &answer, err);
    chat_prompt_fini(&rendered);
    if (rc >= 0 || rc == BMOE_E_CANCELLED) {
        if (answer.bytes > 0)
            return append(c, CHAT_ASSISTANT, answer.text, err);
        drop_last(c);
        return 0;
    }
    free(answer.text);
    drop_last(c);
    if (is_fatal(c, err))
        return rc;
    terminal_line(c->run->terminal, "%s%s", err->text,
                  rc == BMOE_E_CONTEXT ? " (/clear begins a new conversation)" : "");
    return 0;
}

static int take_line(struct conversation *c, char *text, struct bmoe_error *err)
{
    size_t bytes = strlen(text);

    if (text[0] == '\0' || cli_text_utf8_prefix(text, bytes) < bytes) {
        if (text[0] != '\0')
            terminal_line(c->run->terminal, "that was not UTF-8 text; nothing was sent");
    } else if (strcmp(text, "/clear") == 0) {
        dialogue_cut(&c->said, 0);
        bmoe_session_clear(c->run->session);
        terminal_line(c->run->terminal, "the conversation begins anew");
    } else if (text[0] == '/' && strchr(text, ' ') == NULL && strchr(text + 1, '/') == NULL) {
        terminal_line(c->run->terminal, "%s%s",
                      strcmp(text, "/help") == 0 ? "" : "no such command; ", chat_help);
    } else {
        return take_turn(c, text, err);
    }
    free(text);
    return 0;
}

/* A signal while nothing runs. Answers true when it ends the conversation. */
static bool take_signal(struct conversation *c, int number)
{
    if (number != 0 && (number != SIGINT || c->interrupted)) {
        c->run->ended_by = number;
        return true;
    }
    c->interrupted = number != 0;
    terminal_text(c->run->terminal, TERMINAL_PLAIN, "\n", 1);
    terminal_line(c->run->terminal, "Ctrl-C again, or Ctrl-D, ends");
    return false;
}

/* Joins a line to what was typed before it. Answers true when the message is whole. */
static bool join_line(char **message, const char *line, bool *failed)
{
    size_t have = *message != NULL ? strlen(*message) : 0;
    size_t bytes = strlen(line);
    bool more = bytes > 0 && line[bytes - 1] == '\\';
    char *grown = realloc(*message, have + bytes + 1);

    *failed = grown == NULL;
    if (grown == NULL)
        return true;
    memcpy(grown + have, line, bytes + 1);
    if (more)
        grown[have + bytes - 1] = '\n';
    *message = grown;
    return !more;
}

/* Waits for a whole message; NULL in *message: the conversation ends. */
static int next_message(struct conversation *c, char **message, struct bmoe_error *err)
{
    bool whole = false, failed = false;

    *message = NULL;
    terminal_text(c->run->terminal, TERMINAL_MARK, "> ", 2);
    while (!whole) {
        char *line = NULL;
        enum line_event event = line_input_next(&c->input, &line);

        if (event == LINE_READY) {
            c->interrupted = false;
            whole = join_line(message, line, &failed);
            continue;
        }
        free(*message);
        *message = NULL;
        if (event == LINE_WOKEN && !take_signal(c, cli_signals_take(c->run->signals))) {
            line_input_drop(&c->input);
            terminal_text(c->run->terminal, TERMINAL_MARK, "> ", 2);
            continue;
        }
        terminal_text(c->run->terminal, TERMINAL_PLAIN, "\n", 1);
        if (event == LINE_FAILED)
            return cli_error_set(err, BMOE_E_IO, "reading from the terminal failed");
        return 0;
    }
    if (failed) {
        free(*message);
        *message = NULL;
        return cli_error_set(err, BMOE_E_MEMORY, "there is no memory for what was typed");
    }
    return 0;
}

int run_chat(struct run *run, struct bmoe_error *err)
{
    struct conversation c = {.run = run};
    struct bmoe_info info = {.size = sizeof(info)};
    char *message = NULL;
    int rc;

    bmoe_session_describe(run->session, &info);
    rc = chat_choose(&c.chat, info.chat_template, run->options->chat_format,
                     !run->options->no_think, err);
    if (rc < 0)
        return rc;
    line_input_init(&c.input, STDIN_FILENO, run->signals->wake[0]);
    terminal_line(run->terminal, "chat format %s; /help lists the commands", c.chat.format->name);
    rc = next_message(&c, &message, err);
    while (rc == 0 && message != NULL) {
        int number;

        rc = take_line(&c, message, err);
        message = NULL;
        number = cli_signals_take(run->signals);
        c.interrupted = number == SIGINT;
        run->ended_by = number != SIGINT ? number : 0;
        if (rc == 0 && run->ended_by == 0)
            rc = next_message(&c, &message, err);
    }
    dialogue_fini(&c.said);
    line_input_fini(&c.input);
    return rc;
}
