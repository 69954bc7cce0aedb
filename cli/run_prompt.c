/*
 * The prompt of the command line as one request: as it is, or as one user turn. See run.h.
 */
#include "run.h"

#include <stdlib.h>

int run_prompt(struct run *run, const struct cli_text *prompt, struct bmoe_error *err)
{
    struct bmoe_info info = {.size = sizeof(info)};
    struct chat_message turn = {CHAT_USER, prompt->text, prompt->bytes};
    struct run_request request = {.prompt = prompt->text,
                                  .prompt_bytes = prompt->bytes,
                                  .n_predict = run->options->n_predict};
    struct chat chat;
    struct chat_prompt rendered = {0};
    int rc;

    if (run->options->chatml) {
        bmoe_session_describe(run->session, &info);
        rc = chat_choose(&chat, info.chat_template, run->options->chat_format,
                         !run->options->no_think, err);
        if (rc == 0)
            rc = chat_render(&chat, &turn, 1, &rendered, err);
        if (rc < 0)
            return rc;
        run_request_set_prompt(&request, &rendered);
        request.chat = &chat;
    }
    rc = run_generate(run, &request, NULL, err);
    chat_prompt_fini(&rendered);
    return rc;
}
