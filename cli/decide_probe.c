/*
 * See decide_probe.h.
 */
#include "decide_probe.h"

#include "cli_error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int decide_probe_open(struct decide_probe *p, const char *path, struct terminal *terminal,
                      struct bmoe_error *err)
{
    *p = (struct decide_probe){.path = path, .terminal = terminal, .file = fopen(path, "we")};
    if (p->file == NULL)
        return cli_error_set(err, BMOE_E_IO, "%s cannot be written: %s", path, strerror(errno));
    return 0;
}

static void fail(struct decide_probe *p, const char *why)
{
    if (!p->failed)
        terminal_line(p->terminal, "warning: %s: %s; the probe is not whole", p->path, why);
    p->failed = true;
}

static void forget(struct decide_probe *p)
{
    for (uint32_t i = 0; i < p->n_layers; i++) {
        free(p->layers[i].counts);
        free(p->layers[i].weights);
    }
    free(p->layers);
    p->layers = NULL;
    p->n_layers = 0;
    json_decref(p->lens);
    p->lens = NULL;
}

void decide_probe_begin(struct decide_probe *p)
{
    p->active = p->file != NULL && !p->failed;
}

/* The layer's sums, made when it is met first; NULL without memory. */
static struct probe_layer *layer_of(struct decide_probe *p, const struct bmoe_route *r)
{
    struct probe_layer *l;

    if (r->layer >= p->n_layers) {
        struct probe_layer *more = realloc(p->layers, (r->layer + 1) * sizeof(*more));

        if (more == NULL)
            return NULL;
        memset(more + p->n_layers, 0, (r->layer + 1 - p->n_layers) * sizeof(*more));
        p->layers = more;
        p->n_layers = r->layer + 1;
    }
    l = &p->layers[r->layer];
    if (l->counts == NULL) {
        l->n_expert = r->n_expert;
        l->expert_bytes = r->expert_bytes;
        l->counts = calloc(r->n_expert, sizeof(*l->counts));
        l->weights = calloc(r->n_expert, sizeof(*l->weights));
    }
    return l->counts != NULL && l->weights != NULL ? l : NULL;
}

void decide_probe_route(struct decide_probe *p, const struct bmoe_route *r)
{
    struct probe_layer *l;

    if (!p->active)
        return;
    l = layer_of(p, r);
    if (l == NULL) {
        fail(p, "there is no memory for its sums");
        return;
    }
    l->counts[r->expert]++;
    l->weights[r->expert] += isnan(r->weight) ? 0 : (double)r->weight;
}

void decide_probe_lens(struct decide_probe *p, const struct bmoe_lens *l)
{
    json_t *logits;

    if (!p->active)
        return;
    logits = json_array();
    for (uint32_t i = 0; i < l->n_choices; i++)
        json_array_append_new(logits, json_real((double)l->logits[i]));
    if (p->lens == NULL)
        p->lens = json_array();
    while (json_array_size(p->lens) < l->layer && json_array_append_new(p->lens, json_null()) == 0)
        ;
    json_array_append_new(p->lens, logits);
}

static json_t *layer_json(const struct probe_layer *l)
{
    json_t *counts = json_array(), *weights = json_array();
    json_int_t used = 0;

    for (uint32_t e = 0; e < l->n_expert; e++) {
        json_array_append_new(counts, json_integer((json_int_t)l->counts[e]));
        json_array_append_new(weights, json_real(l->weights[e]));
        used += l->counts[e] > 0;
    }
    return json_pack("{s:o, s:o, s:I, s:I}", "cnt", counts, "wsum", weights, "nu", used,
                     "expert_bytes", (json_int_t)l->expert_bytes);
}

static json_t *line_of(const struct decide_probe *p, const struct request *r,
                       const struct bmoe_decide_result *d)
{
    json_t *line;
    json_t *logp = json_array(), *layers = json_array(), *choices = json_array();

    for (uint32_t i = 0; i < d->n_choices; i++)
        json_array_append_new(logp, isinf(d->choice_logp[i]) ? json_null()
                                                             : json_real(d->choice_logp[i]));
    for (size_t i = 0; i < json_array_size(r->choices); i++)
        json_array_append_new(choices,
                              json_string(json_string_value(json_array_get(r->choices, i))));
    for (uint32_t i = 0; i < p->n_layers; i++)
        json_array_append_new(layers, layer_json(&p->layers[i]));
    line = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:I, s:o, s:I, s:o}", "seq",
                     (json_int_t)p->n_decisions, "id", (json_int_t)r->id, "n_tokens",
                     (json_int_t)d->n_tokens, "n_reused", (json_int_t)d->n_reused, "n_prefilled",
                     (json_int_t)d->n_prefilled, "prefill_s", d->prefill_s, "choices", choices,
                     "best", (json_int_t)d->best, "logp", logp, "prefix_state_bytes",
                     (json_int_t)d->prefix_state_bytes, "layers", layers);
    if (line != NULL && p->lens != NULL && json_object_set(line, "lens", p->lens) != 0) {
        json_decref(line);
        line = NULL;
    }
    return line;
}

void decide_probe_end(struct decide_probe *p, const struct request *r,
                      const struct bmoe_decide_result *result)
{
    json_t *line = NULL;

    if (p->active && !p->failed && result != NULL) {
        p->n_decisions++;
        line = line_of(p, r, result);
        if (line == NULL)
            fail(p, "there is no memory for its line");
        else if (json_dumpf(line, p->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0 ||
                 fputc('\n', p->file) == EOF || fflush(p->file) != 0)
            fail(p, strerror(errno));
    }
    json_decref(line);
    forget(p);
    p->active = false;
}

void decide_probe_close(struct decide_probe *p)
{
    if (p->file != NULL && fclose(p->file) != 0)
        fail(p, strerror(errno));
    forget(p);
    p->file = NULL;
}
