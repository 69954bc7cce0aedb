/* Rows are compared as bytes, so that -0 and 0, or two kinds of NaN, are told apart. */
#include "gate_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool gate_rows_open(struct gate_rows *r)
{
    *r = (struct gate_rows){.fd = memfd_create("gate rows", MFD_CLOEXEC)};
    return r->fd >= 0;
}

void gate_rows_close(struct gate_rows *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

bool gate_rows_add(struct gate_rows *r, const float *logits, uint32_t n_vocab)
{
    size_t bytes = n_vocab * sizeof *logits;
    if (!logits || (r->n_rows > 0 && r->n_vocab != n_vocab))
        return false;
    r->n_vocab = n_vocab;
    return pwrite(r->fd, logits, bytes, (off_t)(r->n_rows++ * bytes)) == (ssize_t)bytes;
}

static float *read_all(const struct gate_rows *r)
{
    size_t bytes = (size_t)r->n_rows * r->n_vocab * sizeof(float);
    float *all = malloc(bytes + 1);
    if (all && pread(r->fd, all, bytes, 0) != (ssize_t)bytes) {
        free(all);
        return NULL;
    }
    return all;
}

struct difference {
    uint32_t first_row, first_token, n_rows;
    double first_by, most_by; /* in the first row; in all */
};

static void compare_row(struct difference *d, const float *a, const float *b, uint32_t n,
                        uint32_t row)
{
    if (memcmp(a, b, n * sizeof *a) == 0)
        return;
    double by = 0;
    uint32_t first = n;
    for (uint32_t i = 0; i < n; i++) {
        if (first == n && memcmp(&a[i], &b[i], sizeof *a) != 0)
            first = i;
        by = fmax(by, fabs((double)a[i] - (double)b[i]));
    }
    if (d->n_rows++ == 0) {
        d->first_row = row;
        d->first_token = first;
        d->first_by = by;
    }
    d->most_by = fmax(d->most_by, by);
}

bool gate_rows_equal(const struct gate_rows *a, const struct gate_rows *b, char *said, size_t bytes)
{
    if (a->n_rows != b->n_rows || a->n_vocab != b->n_vocab || a->n_rows == 0) {
        snprintf(said, bytes, "%u rows of %u logits and %u rows of %u", a->n_rows, a->n_vocab,
                 b->n_rows, b->n_vocab);
        return false;
    }
    float *x = read_all(a), *y = read_all(b);
    struct difference d = {0};
    bool ok = x && y;
    for (uint32_t row = 0; ok && row < a->n_rows; row++) {
        size_t at = (size_t)row * a->n_vocab;
        compare_row(&d, x + at, y + at, a->n_vocab, row);
    }
    free(x);
    free(y);
    if (!ok)
        snprintf(said, bytes, "the rows cannot be read back");
    else if (d.n_rows)
        snprintf(said, bytes,
                 "%u of %u rows differ, first row %u (%s) at token %u, there by at most %g, in all "
                 "rows by at most %g",
                 d.n_rows, a->n_rows, d.first_row, d.first_row ? "decode" : "prompt", d.first_token,
                 d.first_by, d.most_by);
    else
        snprintf(said, bytes, "%u rows equal", a->n_rows);
    return ok && d.n_rows == 0;
}

static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    for (const unsigned char *p = bytes; n--; p++)
        h = (h ^ *p) * 1099511628211u; /* FNV-1a */
    return h;
}

uint64_t gate_rows_hash(const struct gate_rows *r, uint32_t *n_distinct)
{
    const uint64_t basis = 14695981039346656037u;
    uint64_t all = basis;
    uint64_t *each = calloc(r->n_rows + 1, sizeof *each);
    float *x = read_all(r);
    *n_distinct = 0;
    for (uint32_t row = 0; x && each && row < r->n_rows; row++) {
        each[row] = hash(basis, x + (size_t)row * r->n_vocab, r->n_vocab * sizeof *x);
        all = hash(all, &each[row], sizeof each[row]);
        uint32_t k = 0;
        while (each[k] != each[row])
            k++;
        *n_distinct += k == row;
    }
    free(x);
    free(each);
    return all;
}
