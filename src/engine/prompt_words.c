/*
 * Prompts with somebody's words in them, such as the turns of a conversation. Where the words spell
 * a special token, libllama would take it for one, and they could open a turn of their own. Each
 * such place is cut after its first character and the parts are tokenized one by one, so that it
 * is read as plain text. A prompt without such a place is tokenized whole: words and the marks
 * around them may share a token, as in the texts the model was trained on.
 */
#include "engine/session.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

struct special {
    const char *text; /* the vocabulary's */
    size_t bytes;
};

struct words {
    const struct prompt_text *p;
    const struct llama_vocab *vocab;
    struct special *special; /* what must not be recognised in the words */
    size_t n_special;
    bool begins[256];   /* one of them begins with this byte */
    size_t at;          /* in p->words: the first one that ends behind the place looked at */
    llama_token *token; /* room tokens */
    int32_t n_token, room;
};

/* ---- what the words must not spell ---- */

static bool is_blank(const char *text)
{
    return text[strspn(text, " \n\r\t")] == '\0';
}

/* Whether the text stands in the prompt outside of the words. */
static bool in_marks(const struct prompt_text *p, const char *text, size_t bytes)
{
    size_t from = 0;
    for (size_t i = 0; i <= p->n_words; i++) {
        size_t end = i < p->n_words ? p->words[i].begin : p->bytes;
        if (end > from && memmem(p->text + from, end - from, text, bytes))
            return true;
        from = i < p->n_words ? p->words[i].end : end;
    }
    return false;
}

/* Control tokens, and those of a model's maker that stand in the marks: some files have the marks
 * of their format as such. */
static bool is_special(const struct words *w, llama_token token, const char *text)
{
    enum llama_token_attr attr = llama_vocab_get_attr(w->vocab, token);
    if (text[0] == '\0')
        return false;
    if (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN))
        return true;
    return (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) && !is_blank(text) &&
           in_marks(w->p, text, strlen(text));
}

static bool collect(struct words *w)
{
    int32_t n = llama_vocab_n_tokens(w->vocab);
    w->special = calloc((size_t)n + 1, sizeof *w->special);
    if (!w->special)
        return false;
    for (int32_t i = 0; i < n; i++) {
        const char *text = llama_vocab_get_text(w->vocab, i);
        if (!is_special(w, i, text))
            continue;
        w->special[w->n_special++] = (struct special){text, strlen(text)};
        w->begins[(unsigned char)text[0]] = true;
    }
    return true;
}

/* The bytes of the longest special text at this place that touches the words, or 0. */
static size_t spelled_at(struct words *w, size_t place)
{
    const struct prompt_text *p = w->p;
    size_t longest = 0;
    while (w->at < p->n_words && p->words[w->at].end <= place)
        w->at++;
    if (w->at == p->n_words || !w->begins[(unsigned char)p->text[place]])
        return 0;
    for (size_t i = 0; i < w->n_special; i++) {
        const struct special *s = &w->special[i];
        if (s->bytes > longest && s->bytes <= p->bytes - place &&
            p->words[w->at].begin < place + s->bytes &&
            memcmp(p->text + place, s->text, s->bytes) == 0)
            longest = s->bytes;
    }
    return longest;
}

/* ---- tokens ---- */

static int add_part(struct words *w, size_t from, size_t to, bool special, struct bmoe_error *err)
{
    bool first = from == 0 && w->p->add_special;
    if (from == to && !first)
        return 0;
    int n = llama_tokenize(w->vocab, w->p->text + from, (int32_t)(to - from), w->token + w->n_token,
                           w->room - w->n_token, first, special);
    if (n < 0)
        return error_set(err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST,
                         "libllama makes %d tokens of %zu bytes", -n, to - from);
    w->n_token += n;
    /* A token for the text's end would come after its first part. */
    if (first && to < w->p->bytes && n > 0 && llama_vocab_get_add_eos(w->vocab))
        w->n_token--;
    return 0;
}

static size_t character_bytes(const char *text, size_t most)
{
    size_t n = 1;
    while (n < most && ((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static int add_parts(struct words *w, struct bmoe_error *err)
{
    const struct prompt_text *p = w->p;
    size_t from = 0;
    int rc = 0;
    for (size_t i = 0; i < p->bytes && rc == 0; i++) {
        size_t spelled = spelled_at(w, i);
        if (spelled == 0)
            continue;
        size_t cut = i + character_bytes(p->text + i, spelled);
        if (cut == i + spelled) { /* one character: nothing to cut */
            rc = add_part(w, from, i, true, err);
            from = i;
        }
        if (rc == 0)
            rc = add_part(w, from, cut, cut != i + spelled, err);
        from = cut;
    }
    return rc == 0 ? add_part(w, from, p->bytes, true, err) : rc;
}

static int check(const struct prompt_text *p, struct bmoe_error *err)
{
    size_t from = 0;
    for (size_t i = 0; i < p->n_words; i++) {
        const struct bmoe_span *span = &p->words[i];
        if (span->begin < from || span->end < span->begin || span->end > p->bytes)
            return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                             "words %zu of the prompt, bytes %zu to %zu, do not lie behind the "
                             "ones before within its %zu bytes",
                             i, span->begin, span->end, p->bytes);
        from = span->end;
    }
    if (p->bytes > INT32_MAX / 2)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "a text of %zu bytes is more than libllama tokenizes at once", p->bytes);
    return 0;
}

int prompt_words_tokenize(const struct bmoe_session *s, const struct prompt_text *p,
                          llama_token **out, struct bmoe_error *err)
{
    struct words w = {.p = p, .vocab = s->vocab};
    int rc = check(p, err);
    if (rc < 0)
        return rc;
    w.room = (int32_t)p->bytes + 8;
    w.token = malloc((size_t)w.room * sizeof *w.token);
    if (!w.token || (p->n_words && !collect(&w)))
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the tokens");
    if (rc == 0)
        rc = add_parts(&w, err);
    free(w.special);
    if (rc < 0) {
        free(w.token);
        return rc;
    }
    *out = w.token;
    return w.n_token;
}
