/* libllama's own samplers in libllama's usual order; greedy when the temperature is 0, or so low
 * that a logit divided by it could be infinite, where sampling is the same in the limit. */
#include "engine/session.h"

#include "base/error.h"

#include <stdlib.h>

#define PENALTY_WINDOW                                                                             \
    64 /* tokens the repeat penalty looks back over, as in libllama's programs                     \
        */

#define GREEDY_BELOW  1e-5f /* temperatures */
#define PENALTY_LEAST 1e-3f /* a logit is divided by it */

static bool add(struct llama_sampler *chain, struct llama_sampler *one)
{
    if (one)
        llama_sampler_chain_add(chain, one);
    return one != NULL;
}

static int check(const struct bmoe_sampling *p, struct bmoe_error *err)
{
    const char *wrong = NULL;
    if (!(p->temp >= 0))
        wrong = "the temperature is 0 or more";
    else if (p->top_k < 0)
        wrong = "top-k is 0 or more";
    else if (!(p->top_p > 0 && p->top_p <= 1))
        wrong = "top-p is above 0 and at most 1";
    else if (!(p->min_p >= 0 && p->min_p <= 1))
        wrong = "min-p is 0 to 1";
    else if (!(p->repeat_penalty >= PENALTY_LEAST))
        wrong = "the repeat penalty is 0.001 or more";
    return wrong ? error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST, "%s", wrong) : BMOE_OK;
}

static bool add_choice(struct llama_sampler *chain, const struct bmoe_sampling *p)
{
    if (p->temp < GREEDY_BELOW)
        return add(chain, llama_sampler_init_greedy());
    return (p->top_k <= 0 || add(chain, llama_sampler_init_top_k(p->top_k))) &&
           (p->top_p >= 1 || add(chain, llama_sampler_init_top_p(p->top_p, 1))) &&
           (p->min_p <= 0 || add(chain, llama_sampler_init_min_p(p->min_p, 1))) &&
           add(chain, llama_sampler_init_temp(p->temp)) &&
           add(chain, llama_sampler_init_dist(p->seed));
}

struct llama_sampler *sampler_create(const struct bmoe_session *s, const struct bmoe_sampling *p,
                                     struct bmoe_error *err)
{
    if (check(p, err) < 0 || (p->grammar && grammar_check(s->vocab, p->grammar, err) < 0))
        return NULL;
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (!chain)
        goto no_memory;
    if (p->grammar && !add(chain, llama_sampler_init_grammar(s->vocab, p->grammar, "root")))
        goto no_memory;
    if (p->repeat_penalty != 1 &&
        !add(chain, llama_sampler_init_penalties((int32_t)s->n_vocab, PENALTY_WINDOW,
                                                 p->repeat_penalty, 0, 0)))
        goto no_memory;
    if (!add_choice(chain, p))
        goto no_memory;
    return chain;
no_memory:
    if (chain)
        llama_sampler_free(chain);
    error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the samplers");
    return NULL;
}
