/*
 * --session: see run.h and docs/protocol.md. The loop that takes requests in order and answers
 * each.
 */
#include "live.h"

#include "cli_error.h"

#include <string.h>

bool live_interrupted(struct live *l, const struct request *r)
{
    bool wanted = cli_signals_pending(l->run->signals);

    if (atomic_load(&r->cancelled) || l->out.output->errnum != 0) {
        bmoe_session_cancel(l->run->session);
        wanted = true;
    }
    return wanted;
}

/* By the reader thread. */
static void refuse(void *user, const struct request *request)
{
    live_error(user, request->id, "busy", BMOE_SCOPE_REQUEST,
               "256 requests wait already; wait for answers before sending more");
}

/* How thinking can be kept from: see docs/protocol.md. */
static const char *think_ctl(struct live *l)
{
    struct bmoe_error ignored;
    int rc = chat_choose(&l->chat, l->info.chat_template, l->run->options->chat_format,
                         !l->run->options->no_think, &ignored);

    l->can_chat = rc == 0;
    if (rc < 0)
        return "none";
    if (!l->chat.can_think)
        return "template";
    return l->chat.format->begin_no_think != NULL ? "prefill" : "none";
}

/* Answers 0 when the session goes on. */
static int answer(struct live *l, const struct request *r, struct bmoe_error *err)
{
    if (r->code != NULL) {
        live_error(l, r->id, r->code, BMOE_SCOPE_REQUEST, r->wrong);
        return 0;
    }
    switch (r->cmd) {
    case REQUEST_GENERATE:
        return live_generate(l, r, err);
    case REQUEST_DECIDE:
        if (l->run->options->decide)
            return live_decide(l, r, err);
        live_error(l, r->id, "unsupported", BMOE_SCOPE_REQUEST,
                   "decide is off in this session; start it with --decide");
        return 0;
    case REQUEST_CLEAR:
        dialogue_cut(&l->said, 0);
        bmoe_session_clear(l->run->session);
        live_stats(l, r);
        return 0;
    case REQUEST_STATS:
        live_stats(l, r);
        return 0;
    case REQUEST_CANCEL:
    case REQUEST_CLOSE:
    case REQUEST_CMD_COUNT:
        break;
    }
    return 0;
}

static int loop(struct live *l, struct bmoe_error *err)
{
    struct request *r;
    int rc = 0;

    while (rc == 0 && l->out.output->errnum == 0 && (r = session_reader_next(&l->in)) != NULL) {
        rc = answer(l, r, err);
        session_reader_done(&l->in);
        if (atomic_load(&l->run->signals->last) != 0)
            session_reader_end(&l->in); /* what waits is answered as cancelled */
    }
    return rc;
}

void run_session_refuse(struct run *run, const struct bmoe_error *err)
{
    struct live l = {.run = run};

    line_writer_init(&l.out, run->output);
    live_error(&l, 0, cli_error_code_name(err->code), err->scope, err->text);
    line_writer_fini(&l.out);
}

int run_session(struct run *run, struct bmoe_error *err)
{
    struct live l = {.run = run, .info = {.size = sizeof(l.info)}};
    int rc;

    bmoe_session_describe(run->session, &l.info);
    l.think_ctl = think_ctl(&l);
    line_writer_init(&l.out, run->output);
    rc = session_reader_start(&l.in, run->options, run->session, run->signals, refuse, &l, err);
    if (rc == 0) {
        if (live_ready(&l))
            rc = loop(&l, err);
        session_reader_stop(&l.in);
        if (rc == 0 && l.in.errnum != 0) {
            rc = cli_error_set(err, BMOE_E_IO, "reading standard input failed: %s",
                               strerror(l.in.errnum));
            live_error(&l, 0, "io", BMOE_SCOPE_SESSION, err->text);
        }
    }
    run->ended_by = cli_signals_take(run->signals);
    dialogue_fini(&l.said);
    line_writer_fini(&l.out);
    if (rc == 0)
        rc = output_end(run->output, err);
    return rc;
}
