/* Good headers taken apart into values and tensors, and written again. */
#include "mutate_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- byte strings ---- */

struct bytes bytes_copy(const void *at, size_t n)
{
    struct bytes b = {malloc(n + 8), n};
    if (!b.at)
        abort();
    memcpy(b.at, at, n);
    memset(b.at + n, 0, 8);
    return b;
}

void bytes_append(struct bytes *b, const void *at, size_t n)
{
    b->at = realloc(b->at, b->n + n + 8);
    if (!b->at)
        abort();
    memcpy(b->at + b->n, at, n);
    b->n += n;
}

void bytes_append_u32(struct bytes *b, uint32_t value)
{
    bytes_append(b, &value, 4);
}

void bytes_append_u64(struct bytes *b, uint64_t value)
{
    bytes_append(b, &value, 8);
}

void bytes_append_text(struct bytes *b, const struct bytes *text)
{
    bytes_append_u64(b, text->n);
    bytes_append(b, text->at, text->n);
}

/* ---- taking apart ---- */

struct cursor {
    const unsigned char *at, *end;
    bool failed;
};

static const unsigned char *take(struct cursor *c, uint64_t n)
{
    static const unsigned char nothing[16];
    if (c->failed || n > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return nothing;
    }
    c->at += n;
    return c->at - n;
}

static uint32_t take_u32(struct cursor *c)
{
    uint32_t v;
    memcpy(&v, take(c, 4), 4);
    return v;
}

static uint64_t take_u64(struct cursor *c)
{
    uint64_t v;
    memcpy(&v, take(c, 8), 8);
    return v;
}

static struct bytes take_text(struct cursor *c)
{
    uint64_t n = take_u64(c);
    const unsigned char *at = take(c, n);
    return bytes_copy(at, c->failed ? 0 : (size_t)n);
}

static void take_value(struct cursor *c, struct mutate_value *v)
{
    *v = (struct mutate_value){.key = take_text(c), .type = take_u32(c), .n = 1};
    v->item_type = v->type;
    if (v->type == ARR) {
        v->item_type = take_u32(c);
        v->n = take_u64(c);
    }
    const unsigned char *start = c->at;
    if (v->item_type >= N_TYPES)
        c->failed = true;
    for (uint64_t i = 0; i < v->n && !c->failed; i++)
        take(c, v->item_type == STR ? take_u64(c) : mutate_width[v->item_type]);
    v->payload = bytes_copy(start, (size_t)(c->at - start));
}

static void take_tensor(struct cursor *c, struct mutate_tensor *t)
{
    *t = (struct mutate_tensor){.name = take_text(c), .n_dims = take_u32(c)};
    for (uint32_t i = 0; i < t->n_dims && i < 4; i++)
        t->ne[i] = take_u64(c);
    t->type = take_u32(c);
    t->offset = take_u64(c);
}

static unsigned char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        rewind(f);
        data = malloc((size_t)size + 1);
        *n = data ? fread(data, 1, (size_t)size, f) : 0;
    }
    if (f)
        fclose(f);
    return data;
}

bool mutate_load(struct mutate_model *m, const char *path)
{
    size_t n = 0;
    unsigned char *data = read_file(path, &n);
    *m = (struct mutate_model){.file_bytes = n};
    if (!data)
        return false;
    struct cursor c = {data, data + n, false};
    take(&c, 8);
    uint64_t n_tensors = take_u64(&c), n_values = take_u64(&c);
    c.failed |= n_tensors > 1024 || n_values > 200;
    for (uint64_t i = 0; i < n_values && !c.failed; i++)
        take_value(&c, &m->values[m->n_values++]);
    for (uint64_t i = 0; i < n_tensors && !c.failed; i++)
        take_tensor(&c, &m->tensors[m->n_tensors++]);
    uint64_t data_at = ((uint64_t)(c.at - data) + 31) / 32 * 32;
    for (size_t i = 0; i < m->n_tensors; i++) {
        uint64_t next = i + 1 < m->n_tensors ? m->tensors[i + 1].offset : n - data_at;
        m->tensors[i].bytes = next - m->tensors[i].offset;
    }
    free(data);
    return !c.failed;
}

void mutate_free(struct mutate_model *m)
{
    for (size_t i = 0; i < m->n_values; i++) {
        free(m->values[i].key.at);
        free(m->values[i].payload.at);
    }
    for (size_t i = 0; i < m->n_tensors; i++)
        free(m->tensors[i].name.at);
}

void mutate_copy(struct mutate_model *to, const struct mutate_model *from)
{
    *to = *from;
    for (size_t i = 0; i < to->n_values; i++) {
        to->values[i].key = bytes_copy(from->values[i].key.at, from->values[i].key.n);
        to->values[i].payload = bytes_copy(from->values[i].payload.at, from->values[i].payload.n);
    }
    for (size_t i = 0; i < to->n_tensors; i++)
        to->tensors[i].name = bytes_copy(from->tensors[i].name.at, from->tensors[i].name.n);
}

/* ---- writing ---- */

struct bytes mutate_header(const struct mutate_model *m, uint64_t add_tensors, uint64_t add_values,
                           bool keep_offsets)
{
    struct bytes out = bytes_copy("GGUF\3\0\0", 8);
    uint64_t at = 0;
    bytes_append_u64(&out, m->n_tensors + add_tensors);
    bytes_append_u64(&out, m->n_values + add_values);
    for (size_t i = 0; i < m->n_values; i++) {
        bytes_append_text(&out, &m->values[i].key);
        bytes_append_u32(&out, m->values[i].type);
        if (m->values[i].type == ARR) {
            bytes_append_u32(&out, m->values[i].item_type);
            bytes_append_u64(&out, m->values[i].n);
        }
        bytes_append(&out, m->values[i].payload.at, m->values[i].payload.n);
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct mutate_tensor *t = &m->tensors[i];
        bytes_append_text(&out, &t->name);
        bytes_append_u32(&out, t->n_dims);
        for (uint32_t k = 0; k < t->n_dims && k < 8; k++)
            bytes_append_u64(&out, t->ne[k]);
        bytes_append_u32(&out, t->type);
        bytes_append_u64(&out, keep_offsets ? t->offset : at);
        at += t->bytes;
    }
    return out;
}

bool mutate_write_file(const char *path, const struct bytes *header, uint64_t size)
{
    FILE *f = fopen(path, "wb");
    size_t n = header->n < size ? header->n : (size_t)size;
    bool ok = f && fwrite(header->at, 1, n, f) == n && fflush(f) == 0 &&
              ftruncate(fileno(f), (off_t)size) == 0;
    if (f)
        fclose(f);
    return ok;
}

bool mutate_save(const struct mutate_model *m, const char *path)
{
    struct bytes header = mutate_header(m, 0, 0, false);
    bool ok = mutate_write_file(path, &header, m->file_bytes + header.n);
    free(header.at);
    return ok;
}

bool mutate_add_u32(struct mutate_model *m, const char *key, uint32_t value)
{
    if (m->n_values >= sizeof m->values / sizeof *m->values)
        return false;
    m->values[m->n_values++] = (struct mutate_value){.key = bytes_copy(key, strlen(key)),
                                                     .type = U32,
                                                     .item_type = U32,
                                                     .n = 1,
                                                     .payload = bytes_copy(&value, 4)};
    return true;
}
