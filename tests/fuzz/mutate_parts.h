/*
 * What the files of the mutator share: bytes, random numbers, the lists of names.
 */
#ifndef FUZZ_MUTATE_PARTS_H
#define FUZZ_MUTATE_PARTS_H

#include "mutate.h"

/* The format's value types. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64, N_TYPES };

/* Bytes of a number of a type; 0: strings and arrays. */
extern const unsigned mutate_width[N_TYPES];

/* Names libllama asks metadata by, behind "<arch>." and alone; texts it compares values with. */
extern const char *const mutate_suffixes[], *const mutate_keys[], *const mutate_texts[];
extern const size_t mutate_n_suffixes, mutate_n_keys, mutate_n_texts;

struct bytes bytes_copy(const void *at, size_t n);
void bytes_append(struct bytes *b, const void *at, size_t n);
void bytes_append_u32(struct bytes *b, uint32_t value);
void bytes_append_u64(struct bytes *b, uint64_t value);
void bytes_append_text(struct bytes *b, const struct bytes *text);

/* The header in its written form. The counts get what is added to them; offsets: as they are said
 * in the tensors, else laid out anew. */
struct bytes mutate_header(const struct mutate_model *m, uint64_t add_tensors, uint64_t add_values,
                           bool keep_offsets);
/* Header (cut when it is longer) and a hole up to size. */
bool mutate_write_file(const char *path, const struct bytes *header, uint64_t size);

void mutate_copy(struct mutate_model *to, const struct mutate_model *from);

#endif
