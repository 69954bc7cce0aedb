/*
 * decide: see live.h.
 */
#include "live.h"

#include <stdlib.h>
#include <time.h>

struct deciding {
    struct live *live;
    const struct request *request;
    struct timespec begun;
};

static void on_prefill(void *user, uint32_t tokens_done, uint32_t tokens_total)
{
    struct deciding *d = user;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    live_prefill(d->live, d->request, tokens_done, tokens_total,
                 (double)(now.tv_sec - d->begun.tv_sec) * 1e3 +
                     (double)(now.tv_nsec - d->begun.tv_nsec) / 1e6);
    live_interrupted(d->live, d->request);
}

static int run(struct deciding *d, const char **choices, struct bmoe_decide_result *result,
               struct bmoe_error *err)
{
    const struct request *r = d->request;
    struct run *run = d->live->run;
    struct bmoe_decide decide;
    int rc;

    bmoe_decide_init(&decide);
    decide.prefix = r->prefix.text;
    decide.prefix_bytes = r->prefix.bytes;
    decide.suffix = r->suffix.text != NULL ? r->suffix.text : "";
    decide.suffix_bytes = r->suffix.bytes;
    decide.choices = choices;
    decide.n_choices = json_array_size(r->choices);
    decide.reuse_prefix = r->reuse_prefix;
    decide.on_prefill = on_prefill;
    decide.user = d;
    for (size_t i = 0; i < decide.n_choices; i++)
        choices[i] = json_string_value(json_array_get(r->choices, i));
    if (atomic_load(&r->cancelled) || !cli_signals_request_begin(run->signals)) {
        result->cancelled = true;
        return BMOE_E_CANCELLED;
    }
    rc = bmoe_session_decide(run->session, &decide, result, err);
    cli_signals_request_end(run->signals);
    return rc;
}

/* A row and a trailer, also of a decision that was cancelled or failed. */
static void tabulate(struct csv *csv, struct meter *meter, const struct bmoe_decide_result *d)
{
    struct bmoe_result result = {.size = sizeof(result),
                                 .prefill_s = d->prefill_s,
                                 .n_reused = d->n_reused,
                                 .n_past = d->n_reused + d->n_prefilled};
    const struct turn turn = {meter, &result};

    csv_span(csv, CSV_DECISION, meter, 1);
    meter_end(meter);
    csv_trailer(csv, &turn);
}

int live_decide(struct live *l, const struct request *r, struct bmoe_error *err)
{
    struct deciding d = {.live = l, .request = r};
    struct bmoe_decide_result result = {.size = sizeof(result)};
    struct meter meter;
    const char **choices = calloc(json_array_size(r->choices), sizeof(*choices));
    int rc;

    if (choices == NULL || !live_begin(l, r)) {
        free(choices);
        return 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &d.begun);
    meter_begin(&meter, l->run->session);
    csv_turn(l->run->csv);
    decide_probe_begin(&l->run->traces->probe);
    rc = run(&d, choices, &result, err);
    decide_probe_end(&l->run->traces->probe, r, rc == 0 ? &result : NULL);
    tabulate(l->run->csv, &meter, &result);
    free(choices);
    if (rc < 0 && rc != BMOE_E_CANCELLED) {
        live_failed(l, r, err);
        return err->scope != BMOE_SCOPE_REQUEST ? rc : 0;
    }
    live_write_decide(l, r, &result, &meter.before, &meter.after);
    return 0;
}
