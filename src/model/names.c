/* Strings with one owner, and names hashed with FNV-1a from a seed. */
#include "model/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BLOCK_BYTES 32768

struct strings_block {
    struct strings_block *next;
    size_t used, bytes;
    char data[];
};

char *strings_alloc(struct strings *s, size_t bytes)
{
    struct strings_block *b = s->first;
    bytes = (bytes + 7) & ~(size_t)7; /* numbers are kept here too */
    if (!b || b->bytes - b->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        *b = (struct strings_block){.next = s->first, .bytes = size};
        s->first = b;
    }
    char *at = b->data + b->used;
    b->used += bytes;
    return at;
}

void strings_fini(struct strings *s)
{
    while (s->first) {
        struct strings_block *next = s->first->next;
        free(s->first);
        s->first = next;
    }
}

bool names_init(struct names *t, uint64_t n)
{
    size_t n_slots = 16;
    while (n_slots < 2 * n)
        n_slots *= 2;
    *t = (struct names){.slots = calloc(n_slots, sizeof *t->slots), .n_slots = n_slots};
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) < 0)
        t->seed = (uintptr_t)t->slots;
    return t->slots != NULL;
}

void names_fini(struct names *t)
{
    free(t->slots);
    *t = (struct names){0};
}

/* The slot that holds the name, or the free one where it would go. */
static size_t slot_of(const struct names *t, const char *name, names_at_fn *at, const void *owner)
{
    uint64_t h = 0xcbf29ce484222325 ^ t->seed;
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        h = (h ^ *s) * 0x100000001b3;
    size_t i = (size_t)(h ^ h >> 32) & (t->n_slots - 1);
    while (t->slots[i] && strcmp(at(owner, t->slots[i] - 1), name) != 0)
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

uint32_t names_find(const struct names *t, const char *name, names_at_fn *at, const void *owner)
{
    if (!t->slots)
        return NAMES_NONE;
    uint32_t held = t->slots[slot_of(t, name, at, owner)];
    return held ? held - 1 : NAMES_NONE;
}

bool names_add(struct names *t, uint32_t i, names_at_fn *at, const void *owner)
{
    size_t slot = slot_of(t, at(owner, i), at, owner);
    if (t->slots[slot])
        return false;
    t->slots[slot] = i + 1;
    return true;
}
