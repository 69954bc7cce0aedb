/* Keys and values of a GGUF header. Nothing a file says is allocated before the file is known to
 * hold that many bytes. */
#include "model/gguf_meta.h"

#include "base/checked.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libllama compares every key with every other; this bounds its time too. */
#define MAX_VALUES    16384
#define MAX_KEY_BYTES 1024
#define MAX_TEXT      (16u << 20)

static const struct {
    const char *text;
    uint32_t bytes; /* of one element; 0: has a length of its own */
} types[GGUF_N_TYPES] = {
    [GGUF_U8] = {"u8", 1},     [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},   [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},   [GGUF_BOOL] = {"bool", 1}, [GGUF_STR] = {"string", 0},
    [GGUF_ARR] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_text(uint32_t type)
{
    return type < GGUF_N_TYPES ? types[type].text : "unknown type";
}

static int no_memory(struct bmoe_error *err)
{
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a model's metadata");
}

/* The numbers of a value, bits widened to 64. */
static int read_numbers(struct gguf_meta *m, struct gguf_file *f, struct gguf_value *v,
                        struct bmoe_error *err)
{
    uint32_t size = types[v->item_type].bytes;
    uint64_t bytes;
    if (!checked_mul_u64(v->n, size, &bytes) || bytes > f->bytes - f->at)
        return gguf_refuse(err, f->path, "key '%s' claims %llu elements, more than the file holds",
                           v->key, (unsigned long long)v->n);
    if (v->n > GGUF_KEPT_ELEMENTS)
        return gguf_file_skip(f, bytes, err);
    uint64_t *bits = (uint64_t *)(void *)strings_alloc(m->strings, (size_t)v->n * sizeof *bits);
    if (!bits)
        return no_memory(err);
    for (uint64_t i = 0; i < v->n; i++) {
        unsigned char b[8] = {0};
        int rc = gguf_file_read(f, b, size, err);
        if (rc < 0)
            return rc;
        bits[i] = 0;
        for (int k = 7; k >= 0; k--)
            bits[i] = bits[i] << 8 | b[k];
    }
    v->bits = bits;
    return 0;
}

static int skip_strings(struct gguf_file *f, const struct gguf_value *v, struct bmoe_error *err)
{
    if (v->n > (f->bytes - f->at) / 8)
        return gguf_refuse(err, f->path, "key '%s' claims %llu strings, more than the file holds",
                           v->key, (unsigned long long)v->n);
    for (uint64_t i = 0; i < v->n; i++) {
        int rc = gguf_file_skip_string(f, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_value(struct gguf_meta *m, struct gguf_file *f, struct gguf_value *v,
                      struct bmoe_error *err)
{
    int rc = gguf_file_string(f, m->strings, MAX_KEY_BYTES, "a metadata key", &v->key, err);
    if (rc < 0 || (rc = gguf_file_u32(f, &v->type, err)) < 0)
        return rc;
    v->item_type = v->type;
    v->n = 1;
    if (v->type == GGUF_ARR) {
        if ((rc = gguf_file_u32(f, &v->item_type, err)) < 0 ||
            (rc = gguf_file_u64(f, &v->n, err)) < 0)
            return rc;
        if (v->item_type == GGUF_ARR)
            return gguf_refuse(err, f->path, "key '%s' is an array of arrays", v->key);
    }
    if (v->type >= GGUF_N_TYPES || v->item_type >= GGUF_N_TYPES)
        return gguf_refuse(err, f->path, "key '%s' has a value of the unknown type %u", v->key,
                           v->type >= GGUF_N_TYPES ? v->type : v->item_type);
    v->file_offset = f->at;
    if (v->item_type != GGUF_STR)
        return read_numbers(m, f, v, err);
    if (v->type == GGUF_ARR)
        return skip_strings(f, v, err);
    return gguf_file_string(f, m->strings, MAX_TEXT, "a metadata value", &v->text, err);
}

static const char *key_at(const void *owner, uint32_t i)
{
    return ((const struct gguf_meta *)owner)->values[i].key;
}

int gguf_meta_read(struct gguf_meta *m, struct gguf_file *f, uint64_t n_values,
                   struct strings *strings, struct bmoe_error *err)
{
    *m = (struct gguf_meta){.strings = strings};
    if (n_values > MAX_VALUES)
        return gguf_refuse(err, f->path, "claims %llu metadata keys, at most %u are read",
                           (unsigned long long)n_values, MAX_VALUES);
    m->values = calloc(n_values ? (size_t)n_values : 1, sizeof *m->values);
    if (!m->values || !names_init(&m->by_key, n_values))
        return no_memory(err);
    for (uint32_t i = 0; i < n_values; i++) {
        m->values[i].entry_offset = f->at;
        int rc = read_value(m, f, &m->values[i], err);
        if (rc < 0)
            return rc;
        m->values[i].end_offset = f->at;
        if (!*m->values[i].key)
            return gguf_refuse(err, f->path, "has a metadata key without a name");
        if (!names_add(&m->by_key, i, key_at, m))
            return gguf_refuse(err, f->path, "has the metadata key '%s' twice", m->values[i].key);
        m->n_values = i + 1;
    }
    return 0;
}

void gguf_meta_fini(struct gguf_meta *m)
{
    free(m->values);
    names_fini(&m->by_key);
    *m = (struct gguf_meta){0};
}

const struct gguf_value *gguf_meta_find(const struct gguf_meta *m, const char *key)
{
    uint32_t i = names_find(&m->by_key, key, key_at, m);
    return i == NAMES_NONE ? NULL : &m->values[i];
}

const struct gguf_value *gguf_meta_find_arch(const struct gguf_meta *m, const char *arch,
                                             const char *suffix)
{
    char key[MAX_KEY_BYTES];
    int n = snprintf(key, sizeof key, "%s.%s", arch, suffix);
    return n < 0 || (size_t)n >= sizeof key ? NULL : gguf_meta_find(m, key);
}

bool gguf_value_i64(const struct gguf_value *v, uint64_t i, int64_t *out)
{
    if (!v->bits || i >= v->n)
        return false;
    uint64_t bits = v->bits[i];
    switch (v->item_type) {
    case GGUF_I8:
        *out = (int8_t)bits;
        return true;
    case GGUF_I16:
        *out = (int16_t)bits;
        return true;
    case GGUF_I32:
        *out = (int32_t)bits;
        return true;
    case GGUF_I64:
        *out = (int64_t)bits;
        return true;
    case GGUF_BOOL:
        *out = bits != 0;
        return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        if (bits > INT64_MAX)
            return false;
        *out = (int64_t)bits;
        return true;
    default:
        return false;
    }
}

bool gguf_value_u64(const struct gguf_value *v, uint64_t i, uint64_t *out)
{
    int64_t x;
    if (v->item_type == GGUF_U64 && v->bits && i < v->n) {
        *out = v->bits[i];
        return true;
    }
    if (!gguf_value_i64(v, i, &x) || x < 0)
        return false;
    *out = (uint64_t)x;
    return true;
}
