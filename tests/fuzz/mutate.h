/*
 * GGUF headers in pieces: a good file's header is taken apart, changed in ways a damaged or hostile
 * file would differ, and written again. Everything follows from the seed.
 */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *at; /* owned */
    size_t n;
};

struct mutate_value {
    struct bytes key;
    uint32_t type, item_type; /* item_type and n: of an array */
    uint64_t n;
    struct bytes payload; /* the value, or the array's elements, as in the file */
};

struct mutate_tensor {
    struct bytes name;
    uint32_t n_dims, type;
    uint64_t ne[8];
    uint64_t bytes, offset;
};

struct mutate_model {
    struct mutate_value values[256];
    size_t n_values;
    struct mutate_tensor tensors[1024];
    size_t n_tensors;
    uint64_t file_bytes;
};

/* Takes a good file apart; false when it cannot. Little-endian hosts only. */
bool mutate_load(struct mutate_model *m, const char *path);
void mutate_free(struct mutate_model *m);

/* Adds one value of type u32; false when there is no room. */
bool mutate_add_u32(struct mutate_model *m, const char *key, uint32_t value);
/* Writes the model as it is now, the data as a hole. */
bool mutate_save(const struct mutate_model *m, const char *path);

/* Writes a changed copy of the model to path: its header, and a sparse tail in the place of the
 * data. said gets a line that tells what was changed. */
bool mutate_write(const struct mutate_model *m, uint64_t seed, const char *path, char *said,
                  size_t said_bytes);

#endif
