/*
 * The logit rows of one run, as bytes in an anonymous file: the child that runs appends them, the
 * parent reads them. They are kept out of the running process's memory, whose peak is measured.
 */
#ifndef GATE_ROWS_H
#define GATE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate_rows {
    int fd; /* -1: none */
    uint32_t n_rows, n_vocab;
};

bool gate_rows_open(struct gate_rows *r);
void gate_rows_close(struct gate_rows *r);

/* Appends n_vocab logits; all rows have the same number. */
bool gate_rows_add(struct gate_rows *r, const float *logits, uint32_t n_vocab);

/* Whether both hold the same bytes. Else `said` tells the first row and token that differ, by how
 * much at most, and in how many rows. Row 0 is the prompt's last. */
bool gate_rows_equal(const struct gate_rows *a, const struct gate_rows *b, char *said,
                     size_t bytes);

/* A number that names the rows' bytes; *n_distinct how many rows differ from all others. */
uint64_t gate_rows_hash(const struct gate_rows *r, uint32_t *n_distinct);

#endif
