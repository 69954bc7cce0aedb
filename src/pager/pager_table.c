/*
 * Intrusive lists over the extent table, and the order ring. Every operation is O(1) but growing,
 * which happens only when a matrix is added.
 */
#include "pager/pager_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void list_init(struct list *l)
{
    *l = (struct list){.head = EXTENT_NONE, .tail = EXTENT_NONE};
}

void list_push_tail(struct extent_table *t, struct list *l, uint32_t e)
{
    t->at[e].prev = l->tail;
    t->at[e].next = EXTENT_NONE;
    if (l->tail == EXTENT_NONE)
        l->head = e;
    else
        t->at[l->tail].next = e;
    l->tail = e;
    l->n++;
}

void list_push_head(struct extent_table *t, struct list *l, uint32_t e)
{
    t->at[e].prev = EXTENT_NONE;
    t->at[e].next = l->head;
    if (l->head == EXTENT_NONE)
        l->tail = e;
    else
        t->at[l->head].prev = e;
    l->head = e;
    l->n++;
}

void list_remove(struct extent_table *t, struct list *l, uint32_t e)
{
    struct extent *x = &t->at[e];
    assert(l->n > 0);
    if (x->prev == EXTENT_NONE)
        l->head = x->next;
    else
        t->at[x->prev].next = x->next;
    if (x->next == EXTENT_NONE)
        l->tail = x->prev;
    else
        t->at[x->next].prev = x->prev;
    x->prev = x->next = EXTENT_NONE;
    l->n--;
}

/* A model adds its matrices one by one, some hundred; what is kept in advance stays for good. */
static uint64_t with_some_more(uint64_t n)
{
    return n + n / 8;
}

bool extent_table_grow(struct extent_table *t, uint32_t n, uint32_t matrix)
{
    if (n >= EXTENT_NONE - t->n)
        return false;
    if (t->n + n > t->cap) {
        uint64_t cap = with_some_more((uint64_t)t->n + n);
        if (cap >= EXTENT_NONE)
            cap = t->n + n;
        struct extent *at = realloc(t->at, cap * sizeof *at);
        if (!at)
            return false;
        t->at = at;
        t->cap = (uint32_t)cap;
    }
    memset(t->at + t->n, 0, n * sizeof *t->at);
    for (uint32_t i = 0; i < n; i++) {
        struct extent *x = &t->at[t->n + i];
        x->matrix = matrix;
        x->prev = x->next = EXTENT_NONE;
    }
    t->n += n;
    return true;
}

bool order_ring_reserve(struct order_ring *r, uint64_t n)
{
    if (!r->next)
        r->next = r->passed = 1;
    if (n <= r->cap)
        return true;
    uint64_t cap = with_some_more(n < 64 ? 64 : n);
    uint32_t *at = calloc(cap, sizeof *at);
    if (!at)
        return false;
    for (uint64_t i = r->passed; i < r->next; i++)
        at[i % cap] = r->at[i % r->cap];
    free(r->at);
    r->at = at;
    r->cap = cap;
    return true;
}
