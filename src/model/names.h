/*
 * Two small helpers of the index: strings that live as long as it (one allocator, freed at once),
 * and a hash table from a name to a number. The table stores numbers only; names are looked at
 * through the caller's function, so that keys and tensors share it.
 */
#ifndef BMOE_MODEL_NAMES_H
#define BMOE_MODEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strings_block;

struct strings {
    struct strings_block *first; /* owned */
};

/* bytes of memory, aligned to 8, that strings_fini frees; NULL when there is none. */
char *strings_alloc(struct strings *s, size_t bytes);
void strings_fini(struct strings *s);

typedef const char *names_at_fn(const void *owner, uint32_t i);

/* Open addressing; slots hold number + 1, 0 is free; at most half of them are taken. */
struct names {
    uint32_t *slots; /* owned */
    size_t n_slots;  /* a power of two */
    uint64_t seed;   /* so that a file cannot choose its collisions */
};

/* Room for n names; false without memory. */
bool names_init(struct names *t, uint64_t n);
void names_fini(struct names *t);

#define NAMES_NONE UINT32_MAX

/* The number of a name, or NAMES_NONE. */
uint32_t names_find(const struct names *t, const char *name, names_at_fn *at, const void *owner);
/* Enters number i, whose name at(owner, i) is; false when that name is there already. */
bool names_add(struct names *t, uint32_t i, names_at_fn *at, const void *owner);

#endif
