/*
 * The metadata of one GGUF file: keys and values. Strings and short arrays of numbers are kept;
 * of long arrays and arrays of strings (a vocabulary) only their place and length.
 */
#ifndef BMOE_MODEL_GGUF_META_H
#define BMOE_MODEL_GGUF_META_H

#include "model/gguf_file.h"
#include "model/names.h"

#include <stdbool.h>

/* The numbers the format gives its types (enum gguf_type in gguf.h). */
enum gguf_value_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STR = 8,
    GGUF_ARR = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
    GGUF_N_TYPES = 13
};

/* Arrays of numbers up to this many elements are kept. */
#define GGUF_KEPT_ELEMENTS 4096

struct gguf_value {
    const char *key;
    uint32_t type;         /* enum gguf_value_type */
    uint32_t item_type;    /* of an array's elements, else as type */
    uint64_t n;            /* elements; 1 when not an array */
    uint64_t entry_offset; /* in the file: of the key's length */
    uint64_t file_offset;  /* of the first element's bytes */
    uint64_t end_offset;   /* behind the last */
    const char *text;      /* a string, else NULL */
    const uint64_t *bits;  /* numbers as their little-endian bits, zero-extended; NULL: not kept */
};

struct gguf_meta {
    struct gguf_value *values; /* owned */
    uint32_t n_values;
    struct names by_key;
    struct strings *strings; /* borrowed: the index's */
};

/* Reads n_values keys and values from the file's position on. Refuses what the format does not
 * allow: unknown types, arrays of arrays, a key twice, an empty key. */
int gguf_meta_read(struct gguf_meta *m, struct gguf_file *f, uint64_t n_values,
                   struct strings *strings, struct bmoe_error *err);
void gguf_meta_fini(struct gguf_meta *m);

/* NULL when absent. */
const struct gguf_value *gguf_meta_find(const struct gguf_meta *m, const char *key);
/* By "<arch>.<suffix>". */
const struct gguf_value *gguf_meta_find_arch(const struct gguf_meta *m, const char *arch,
                                             const char *suffix);

/* Element i as an integer; false when it is not kept, not an integer or bool, or does not fit. */
bool gguf_value_i64(const struct gguf_value *v, uint64_t i, int64_t *out);
bool gguf_value_u64(const struct gguf_value *v, uint64_t i, uint64_t *out);
/* "u32", "string", ... */
const char *gguf_type_text(uint32_t type);

#endif
