/*
 * A grammar that somebody wrote, before libllama takes it. Its parser prints what it does not like
 * to standard error, and recurses and multiplies as deep as it is asked to: a hundred thousand
 * brackets end a process, three thousand optional letters keep it busy for ever. So it is tried
 * in a child first, whose words are the reason.
 */
#include "engine/session.h"

#include "base/error.h"
#include "engine/guarded_child.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CPU_SECONDS 5 /* one of some hundred rules takes some hundredths */

struct source {
    const struct llama_vocab *vocab;
    const char *text;
};

/* Whether a first token can be chosen under it: that is where many ways through a grammar cost. */
static bool choose(struct llama_sampler *grammar, const struct llama_vocab *vocab)
{
    int32_t n = llama_vocab_n_tokens(vocab);
    llama_token_data *tokens = calloc((size_t)n, sizeof *tokens);
    llama_token_data_array all = {.data = tokens, .size = (size_t)n, .selected = -1};
    if (!tokens)
        return false;
    for (int32_t i = 0; i < n; i++)
        tokens[i].id = i;
    llama_sampler_apply(grammar, &all);
    for (size_t i = 0; i < all.size; i++)
        if (all.data[i].logit > -INFINITY) {
            llama_sampler_accept(grammar, all.data[i].id);
            break;
        }
    free(tokens);
    return true;
}

static void try_grammar(const void *ctx, int tell)
{
    const struct source *source = ctx;
    struct llama_sampler *grammar = llama_sampler_init_grammar(source->vocab, source->text, "root");
    if (grammar && choose(grammar, source->vocab))
        guarded_child_tell(tell);
}

/* The first line of what the parser said, without who says it. */
static const char *reason(char *words)
{
    static const char *const prefixes[] = {
        "parse: ", "error parsing grammar: ", "llama_grammar_init_impl: "};
    words[strcspn(words, "\n")] = '\0';
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(words, prefixes[i], strlen(prefixes[i])) == 0)
            words += strlen(prefixes[i]);
    size_t n = strlen(words);
    while (n > 0 && words[n - 1] == ' ')
        words[--n] = '\0';
    return words;
}

int grammar_check(const struct llama_vocab *vocab, const char *text, struct bmoe_error *err)
{
    struct source source = {vocab, text};
    char words[4096];
    struct guarded_child *c = guarded_child_begin(try_grammar, &source, CPU_SECONDS);
    if (!c)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST,
                         "no process could be made that tries the grammar");
    enum guarded_child_end end = guarded_child_wait(c, 1);
    guarded_child_words(c, words, sizeof words);
    guarded_child_end(c);
    if (end == GUARDED_CHILD_CAME_THROUGH)
        return BMOE_OK;
    if (end == GUARDED_CHILD_DIED)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "the grammar nests too deep, or has too many ways through it");
    const char *why = reason(words);
    return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                     "the grammar is not GBNF with a rule named root%s%s", why[0] ? ": " : "", why);
}
