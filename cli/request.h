/*
 * One line of a program that drives a session: from JSON to a checked struct request. A table per
 * command says which fields there are; anything else in the line is refused by naming it. What is
 * wrong with a line is kept in the request, so that it is answered in its turn.
 *
 * Texts are borrowed from the request's JSON and live as long as it does.
 */
#ifndef BMOE_CLI_REQUEST_H
#define BMOE_CLI_REQUEST_H

#include "options.h"

#include <jansson.h>
#include <stdatomic.h>

enum request_cmd {
    REQUEST_GENERATE,
    REQUEST_DECIDE,
    REQUEST_CANCEL,
    REQUEST_STATS,
    REQUEST_CLEAR,
    REQUEST_CLOSE,
    REQUEST_CMD_COUNT
};

struct request_text {
    const char *text; /* NULL: not given */
    size_t bytes;
};

struct request_sampling {
    int64_t top_k, seed;
    double temp, top_p, min_p, repeat_penalty;
};

struct request {
    struct request *next; /* in the queue */
    json_t *object;
    enum request_cmd cmd;
    int64_t id;
    bool has_id;
    const char *code;      /* what is wrong with the line: the `code` of its error; NULL: nothing */
    char wrong[256];       /* and its sentence */
    atomic_bool cancelled; /* set by the reader thread, polled by the request's callbacks */

    struct request_text prompt;
    const json_t *messages; /* [{role, content}], checked */
    int64_t n_predict;
    bool think, clear_kv, ignore_eos, fit_ctx;
    struct request_sampling sampling;
    const json_t *stop; /* [text], checked; NULL: none */
    struct request_text grammar;

    struct request_text prefix, suffix;
    const json_t *choices;
    bool reuse_prefix;
};

/* Parses one line, without its line end. `options` has the defaults. NULL only without memory. */
struct request *request_parse(const char *line, size_t bytes, const struct cli_options *options);

/* A request that is only an error. */
struct request *request_wrong(const char *code, const char *text);

void request_free(struct request *r);

/* "system", "user" or "assistant" to enum chat_role; -1. */
int request_role(const char *name);

/* The fields of a command, for its documentation and its schema: calls print for each. */
struct request_field_doc {
    const char *cmd, *name, *type, *fallback, *meaning;
    bool required;
};
void request_fields_visit(void (*visit)(void *user, const struct request_field_doc *doc),
                          void *user);

#endif
