/* A table of words is the parser; what a word may be is listed in its row. */
#include "gate_case.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_TEXT, KIND_NUMBER, KIND_CHOICE, KIND_BOOL };

static const struct word {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *choices[5]; /* KIND_CHOICE, in the order of the enum; KIND_BOOL: false, true */
} words[] = {
#define AT(member) offsetof(struct gate_case, member)
    {"model", KIND_TEXT, AT(model), {0}},
    {"repack", KIND_BOOL, AT(repack), {"off", "on"}},
    {"used", KIND_NUMBER, AT(n_expert_used), {0}},
    {"threads", KIND_NUMBER, AT(n_threads), {0}},
    {"ubatch", KIND_NUMBER, AT(n_ubatch), {0}},
    {"ctx", KIND_NUMBER, AT(n_ctx), {0}},
    {"fa", KIND_BOOL, AT(flash_attn), {"off", "on"}},
    {"prompt", KIND_NUMBER, AT(n_prompt), {0}},
    {"decode", KIND_NUMBER, AT(n_decode), {0}},
    {"sampling", KIND_BOOL, AT(greedy), {"seeded", "greedy"}},
    {"budget", KIND_CHOICE, AT(budget), {"all", "half", "eighth", "floor"}},
    {"io", KIND_BOOL, AT(buffered), {"direct", "buffered"}},
    {"experts", KIND_BOOL, AT(load_all), {"routed", "all"}},
    {"place", KIND_CHOICE, AT(place), {"auto", "move", "copy", "none"}},
    {"dense", KIND_CHOICE, AT(dense), {"anon", "mmap", "warm"}},
    {"readers", KIND_NUMBER, AT(n_readers), {0}},
    {"stock", KIND_BOOL, AT(stock), {"no", "yes"}},
#undef AT
};

enum { N_WORDS = sizeof words / sizeof words[0] };

void gate_case_init(struct gate_case *c)
{
    *c = (struct gate_case){.n_threads = 2,
                            .n_ubatch = 512,
                            .n_ctx = 1024,
                            .flash_attn = true,
                            .n_prompt = 600,
                            .n_decode = 160,
                            .n_readers = 4,
                            .stock = true};
}

static bool store(struct gate_case *c, const struct word *w, const char *value)
{
    void *at = (char *)c + w->offset;
    char *end;
    if (w->kind == KIND_TEXT) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    if (w->kind == KIND_NUMBER) {
        unsigned long n = strtoul(value, &end, 10);
        *(uint32_t *)at = (uint32_t)n;
        return end != value && !*end && n <= UINT32_MAX;
    }
    for (unsigned i = 0; i < 5 && w->choices[i]; i++) {
        if (strcmp(w->choices[i], value) != 0)
            continue;
        if (w->kind == KIND_BOOL)
            *(bool *)at = i != 0;
        else
            memcpy(at, &i, sizeof i);
        return true;
    }
    return false;
}

bool gate_case_word(struct gate_case *c, const char *word)
{
    const char *equals = strchr(word, '=');
    for (unsigned i = 0; equals && i < N_WORDS; i++)
        if (strlen(words[i].name) == (size_t)(equals - word) &&
            strncmp(words[i].name, word, (size_t)(equals - word)) == 0 &&
            store(c, &words[i], equals + 1))
            return true;
    fprintf(stderr, "'%s' is no word of a gate case\n", word);
    return false;
}

void gate_case_print(const struct gate_case *c, char *out, size_t bytes)
{
    size_t n = 0;
    for (unsigned i = 0; i < N_WORDS && n < bytes; i++) {
        const void *at = (const char *)c + words[i].offset;
        unsigned choice = 0;
        int wrote = 0;
        switch (words[i].kind) {
        case KIND_TEXT:
            wrote = snprintf(out + n, bytes - n, "%s=%s ", words[i].name, c->model);
            break;
        case KIND_NUMBER:
            wrote = snprintf(out + n, bytes - n, "%s=%u ", words[i].name, *(const uint32_t *)at);
            break;
        case KIND_BOOL:
            choice = *(const bool *)at;
            break;
        case KIND_CHOICE:
            memcpy(&choice, at, sizeof choice);
            break;
        }
        if (wrote == 0)
            wrote = snprintf(out + n, bytes - n, "%s=%s ", words[i].name, words[i].choices[choice]);
        n += (size_t)wrote;
    }
    if (n > 0 && n < bytes)
        out[n - 1] = '\0';
}

void gate_case_options(const struct gate_case *c, bool streamed, struct bmoe_options *o)
{
    bmoe_options_init(o);
    o->model = c->model;
    o->n_ctx = c->n_ctx;
    o->n_ubatch = c->n_ubatch;
    o->n_threads = c->n_threads;
    o->flash_attn = c->flash_attn ? BMOE_ON : BMOE_OFF;
    o->cpu_repack = c->repack ? BMOE_ON : BMOE_OFF;
    o->dense = c->dense;
    o->n_expert_used = c->n_expert_used;
    o->stream = streamed ? BMOE_ON : BMOE_OFF;
    o->n_readers = c->n_readers;
    o->buffered = c->buffered;
    o->load_all = c->load_all;
    o->place = c->place;
    o->prefill_ubatch = c->prefill_ubatch;
    o->prefill_loaders = c->n_loaders;
    o->prefill_whole = c->prefill_whole;
    o->prefill_routed_full = c->prefill_full;
    o->prefill_dense = c->prefill_dense;
    /* The engine takes no more than is useful. */
    o->cache_bytes = c->budget_bytes ? c->budget_bytes : BMOE_CACHE_AUTO - 1;
}

uint64_t gate_case_budget(const struct gate_case *c, uint64_t expert_bytes, uint64_t floor_bytes)
{
    static const unsigned part[] = {[GATE_BUDGET_HALF] = 2, [GATE_BUDGET_EIGHTH] = 8};
    if (c->budget == GATE_BUDGET_ALL)
        return 0;
    /* Left to itself, the next session may measure other page costs and place otherwise. */
    if (c->place == BMOE_PLACE_AUTO)
        floor_bytes += floor_bytes / 2;
    uint64_t bytes = c->budget == GATE_BUDGET_FLOOR ? 0 : expert_bytes / part[c->budget];
    return bytes > floor_bytes ? bytes : floor_bytes;
}
