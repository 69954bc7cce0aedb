/*
 * One mutation is one to three changes, each from a list of kinds; the last kinds work on the
 * written bytes, the others on the model in pieces.
 */
#include "mutate_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- random numbers ---- */

struct random {
    uint64_t state;
};

/* splitmix64 */
static uint64_t draw(struct random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t draw_below(struct random *r, uint64_t n)
{
    return draw(r) % n;
}

/* Numbers at which checks go wrong. */
static uint64_t draw_number(struct random *r, uint64_t old)
{
    static const uint64_t edges[] = {0,          1,
                                     2,          3,
                                     5,          7,
                                     8,          16,
                                     31,         33,
                                     63,         64,
                                     127,        128,
                                     255,        256,
                                     511,        512,
                                     513,        1000,
                                     1023,       1024,
                                     1025,       4096,
                                     8191,       32768,
                                     65535,      65536,
                                     100000,     1u << 20,
                                     0x7fffffff, 0x80000000,
                                     0xffffffff, 1ull << 32,
                                     1ull << 62, 1ull << 63,
                                     UINT64_MAX, UINT64_MAX - 31};
    switch (draw_below(r, 6)) {
    case 0:
        return old + 1;
    case 1:
        return old - 1;
    case 2:
        return old * 2;
    case 3:
        return old / 2;
    default:
        return edges[draw_below(r, sizeof edges / sizeof *edges)];
    }
}

/* ---- changes ---- */

struct mutation {
    struct mutate_model m;
    struct random r;
    uint64_t n_values_off, n_tensors_off; /* added to the counts that are written */
    bool keep_offsets;                    /* else tensors are laid out anew */
    char *said;
    size_t said_bytes;
};

static void say(struct mutation *x, const char *what, const struct bytes *name, uint64_t value)
{
    size_t n = strlen(x->said);
    snprintf(x->said + n, x->said_bytes - n, "%s %.*s %llx; ", what, name ? (int)name->n : 0,
             name ? (const char *)name->at : "", (unsigned long long)value);
}

static struct mutate_value *any_value(struct mutation *x)
{
    return x->m.n_values ? &x->m.values[draw_below(&x->r, x->m.n_values)] : NULL;
}

static struct mutate_tensor *any_tensor(struct mutation *x)
{
    return x->m.n_tensors ? &x->m.tensors[draw_below(&x->r, x->m.n_tensors)] : NULL;
}

static uint64_t number_in(const unsigned char *at, unsigned n)
{
    uint64_t v = 0;
    memcpy(&v, at, n);
    return v;
}

/* Another number in a scalar, or in one element of an array. */
static void change_number(struct mutation *x)
{
    struct mutate_value *v = any_value(x);
    if (!v || v->item_type >= N_TYPES || !mutate_width[v->item_type] || v->payload.n == 0)
        return;
    unsigned w = mutate_width[v->item_type];
    unsigned char *at = v->payload.at + draw_below(&x->r, v->payload.n / w) * w;
    uint64_t value = draw_number(&x->r, number_in(at, w));
    if (v->item_type == F32 || v->item_type == F64)
        value = draw(&x->r);
    memcpy(at, &value, w);
    say(x, "number", &v->key, value);
}

static void change_type(struct mutation *x)
{
    struct mutate_value *v = any_value(x);
    if (!v)
        return;
    uint32_t type = (uint32_t)draw_below(&x->r, N_TYPES + 1);
    if (v->type == ARR && draw_below(&x->r, 2))
        v->item_type = type;
    else
        v->type = type;
    say(x, "type", &v->key, type);
}

/* The same number under another type, or as an array of n. */
static void retype_number(struct mutation *x)
{
    static const uint32_t kinds[] = {U8, I8, U16, I16, U32, I32, F32, BOOL, U64, I64, F64};
    struct mutate_value *v = any_value(x);
    if (!v || v->type >= N_TYPES || !mutate_width[v->type])
        return;
    uint64_t value = number_in(v->payload.at, mutate_width[v->type]);
    uint64_t n = draw_below(&x->r, 3) ? 1 : draw_below(&x->r, 600);
    v->item_type = draw_below(&x->r, 2) ? v->item_type : kinds[draw_below(&x->r, 11)];
    v->type = n == 1 && draw_below(&x->r, 4) ? v->item_type : ARR;
    v->n = n;
    free(v->payload.at);
    v->payload = bytes_copy("", 0);
    for (uint64_t i = 0; i < n; i++)
        bytes_append(&v->payload, &value, mutate_width[v->item_type]);
    say(x, v->type == ARR ? "array" : "retype", &v->key, n);
}

static void array_length(struct mutation *x)
{
    struct mutate_value *v = any_value(x);
    if (!v || v->type != ARR)
        return;
    /* Half of the time the elements follow: a shorter array that is well-formed. */
    if (draw_below(&x->r, 2) && mutate_width[v->item_type]) {
        v->n = draw_below(&x->r, v->n + 1);
        v->payload.n = (size_t)v->n * mutate_width[v->item_type];
    } else {
        v->n = draw_number(&x->r, v->n);
    }
    say(x, "length", &v->key, v->n);
}

static void remove_value(struct mutation *x)
{
    struct mutate_value *v = any_value(x);
    if (!v)
        return;
    say(x, "remove", &v->key, 0);
    free(v->key.at);
    free(v->payload.at);
    *v = x->m.values[--x->m.n_values];
}

static void append_random_item(struct mutation *x, struct bytes *to, uint32_t type)
{
    if (type == STR) {
        const char *text = mutate_texts[draw_below(&x->r, mutate_n_texts)];
        bytes_append_u64(to, strlen(text));
        bytes_append(to, text, strlen(text));
        return;
    }
    uint64_t value = draw_number(&x->r, 4);
    float f = (float)(int64_t)value;
    if (type == F32)
        memcpy(&value, &f, 4);
    bytes_append(to, &value, mutate_width[type]);
}

/* A key libllama may ask for, with a value it may not expect; replaces the one that is there. */
static void add_value(struct mutation *x)
{
    static const uint32_t kinds[] = {U32, U32, U32, U32, F32, F32, BOOL, STR, I32, U64, U16};
    struct mutate_model *m = &x->m;
    char key[128];
    const char *arch = "qwen3moe";
    for (size_t i = 0; i < m->n_values; i++)
        if (m->values[i].type == STR && m->values[i].payload.n > 8 &&
            strcmp((char *)m->values[i].key.at, "general.architecture") == 0)
            arch = (char *)m->values[i].payload.at + 8;
    if (draw_below(&x->r, 4))
        snprintf(key, sizeof key, "%.60s.%s", arch,
                 mutate_suffixes[draw_below(&x->r, mutate_n_suffixes)]);
    else
        snprintf(key, sizeof key, "%s", mutate_keys[draw_below(&x->r, mutate_n_keys)]);
    struct mutate_value *v = &m->values[m->n_values];
    for (size_t i = 0; i < m->n_values; i++)
        if (strcmp((char *)m->values[i].key.at, key) == 0)
            v = &m->values[i];
    if (v == &m->values[m->n_values]) {
        m->n_values++;
        v->key = bytes_copy(key, strlen(key));
        v->payload = bytes_copy("", 0);
    }
    v->item_type = v->type = kinds[draw_below(&x->r, sizeof kinds / sizeof *kinds)];
    v->n = 1;
    if (draw_below(&x->r, 4) == 0) {
        v->type = ARR;
        v->n = draw_below(&x->r, 3) ? draw_below(&x->r, 10) : 2048;
    }
    v->payload.n = 0;
    for (uint64_t i = 0; i < v->n; i++)
        append_random_item(x, &v->payload, v->item_type);
    say(x, v->type == ARR ? "add array" : "add", &v->key,
        mutate_width[v->item_type] ? number_in(v->payload.at, mutate_width[v->item_type])
                                   : v->item_type);
}

static void change_text(struct mutation *x)
{
    struct mutate_value *v = any_value(x);
    if (!v || v->type != STR)
        return;
    v->payload.n = 0;
    append_random_item(x, &v->payload, STR);
    say(x, "text", &v->key, 0);
}

static void change_counts(struct mutation *x)
{
    uint64_t *which = draw_below(&x->r, 2) ? &x->n_values_off : &x->n_tensors_off;
    *which = draw_number(&x->r, 0);
    say(x, "count", NULL, *which);
}

static void change_tensor(struct mutation *x)
{
    struct mutate_tensor *t = any_tensor(x), *other = any_tensor(x);
    if (!t)
        return;
    uint64_t which = draw_below(&x->r, 7), dim = draw_below(&x->r, 4);
    if (which == 0)
        t->ne[dim] = draw_number(&x->r, t->ne[dim]);
    else if (which == 1)
        t->type = (uint32_t)draw_below(&x->r, 45);
    else if (which == 2)
        t->n_dims = (uint32_t)draw_below(&x->r, 6);
    else if (which == 3)
        t->offset = draw_number(&x->r, t->offset);
    else if (which == 4) {
        struct bytes name = t->name;
        t->name = other->name;
        other->name = name;
    } else if (which == 5 && t->n_dims > 1) {
        uint64_t ne = t->ne[0];
        t->ne[0] = t->ne[1];
        t->ne[1] = ne;
    } else {
        t->name.at[draw_below(&x->r, t->name.n)] ^= 1;
    }
    x->keep_offsets |= which == 3 || draw_below(&x->r, 4) == 0;
    say(x, "tensor", &t->name, which << 8 | dim);
}

static void remove_tensor(struct mutation *x)
{
    struct mutate_tensor *t = any_tensor(x);
    if (!t)
        return;
    say(x, "remove tensor", &t->name, 0);
    free(t->name.at);
    memmove(t, t + 1, (size_t)(&x->m.tensors[--x->m.n_tensors] - t) * sizeof *t);
}

/* ---- writing ---- */

static void flip_bytes(struct mutation *x, struct bytes *header)
{
    for (uint64_t n = 1 + draw_below(&x->r, 3); n > 0; n--) {
        size_t at = (size_t)draw_below(&x->r, header->n);
        header->at[at] ^= (unsigned char)(1 + draw_below(&x->r, 255));
        say(x, "flip", NULL, at);
    }
}

typedef void change_fn(struct mutation *x);

static void change(struct mutation *x)
{
    static change_fn *const kinds[] = {change_number, change_number, change_number, change_number,
                                       add_value,     add_value,     add_value,     add_value,
                                       retype_number, change_type,   array_length,  remove_value,
                                       change_text,   change_text,   change_tensor, change_tensor,
                                       change_tensor, remove_tensor, change_counts};
    kinds[draw_below(&x->r, sizeof kinds / sizeof *kinds)](x);
}

bool mutate_write(const struct mutate_model *m, uint64_t seed, const char *path, char *said,
                  size_t said_bytes)
{
    struct mutation *x = calloc(1, sizeof *x);
    if (!x)
        return false;
    x->r.state = seed;
    x->said = said;
    x->said_bytes = said_bytes;
    said[0] = '\0';
    mutate_copy(&x->m, m);
    bool bytewise = draw_below(&x->r, 6) == 0;
    for (uint64_t n = 1 + draw_below(&x->r, 3); n > 0 && !bytewise; n--)
        change(x);
    struct bytes header = mutate_header(&x->m, x->n_tensors_off, x->n_values_off, x->keep_offsets);
    uint64_t size = m->file_bytes + header.n;
    if (bytewise)
        flip_bytes(x, &header);
    if (draw_below(&x->r, 40) == 0) {
        size = draw_below(&x->r, size);
        say(x, "cut", NULL, size);
    }
    bool ok = mutate_write_file(path, &header, size);
    free(header.at);
    mutate_free(&x->m);
    free(x);
    return ok;
}
