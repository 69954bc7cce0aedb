/*
 * Adding files and matrices: all numbers here come from a model file, so they are checked against
 * the file's real size and multiplied with care before they become addresses.
 */
#include "pager/pager_internal.h"

#include "base/checked.h"
#include "base/error.h"

#include <stdlib.h>

int pager_file_add(struct pager *p, const char *path, struct bmoe_error *err)
{
    struct pager_file *f;
    pthread_mutex_lock(p->lock);
    int rc = file_open(&f, (int)p->n_files, path, p->config.buffered, &p->io, &p->config.log, err);
    if (rc == 0) {
        struct pager_file **more = realloc(p->files, (p->n_files + 1) * sizeof *more);
        if (more) {
            p->files = more;
            p->files[p->n_files] = f;
            rc = (int)p->n_files++;
        } else {
            file_close(f);
            rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
        }
    }
    pthread_mutex_unlock(p->lock);
    return rc;
}

static int matrix_misuse(struct bmoe_error *err, const char *what)
{
    return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "a matrix %s", what);
}

/* Checks m and fills what follows from it: its file, total and stride. */
static int matrix_measure(const struct pager *p, const struct pager_matrix *m, struct matrix *out,
                          struct bmoe_error *err)
{
    uint64_t whole, end;
    if (m->file < 0 || (uint32_t)m->file >= p->n_files)
        return matrix_misuse(err, "names no file of this pager");
    if (m->n_slices == 0 || m->slice_bytes == 0)
        return matrix_misuse(err, "without slices or bytes");
    if (m->contiguous && m->slice_bytes % p->page)
        return matrix_misuse(err, "that is contiguous needs slices of whole pages");
    out->file = p->files[m->file];
    if (!checked_mul_u64(m->slice_bytes, m->n_slices, &whole))
        return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION, "a matrix of %s overflows",
                         out->file->path);
    if (m->contiguous && (m->total_bytes > whole || m->total_bytes <= whole - m->slice_bytes))
        return matrix_misuse(err, "whose total bytes do not go with its slices");
    out->total_bytes = m->contiguous ? m->total_bytes : whole;
    if (!checked_add_u64(m->file_offset, out->total_bytes, &end) || end > out->file->size)
        return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                         "%s ends before the %llu bytes at %llu", out->file->path,
                         (unsigned long long)out->total_bytes, (unsigned long long)m->file_offset);
    if (!checked_align_u64(m->slice_bytes, p->page, &out->stride))
        return matrix_misuse(err, "whose slices overflow");
    return 0;
}

/* Makes room in the tables; nothing is visible yet. */
static bool matrix_reserve(struct pager *p, uint32_t n_slices)
{
    struct matrix **more = realloc(p->matrices, (p->n_matrices + 1) * sizeof *more);
    if (!more)
        return false;
    p->matrices = more;
    return order_ring_reserve(&p->order, 2ull * (p->extents.n + n_slices)) &&
           extent_table_grow(&p->extents, n_slices, p->n_matrices) && policy_reserve(&p->policy);
}

/* A late, larger slice raises the floor. */
static int matrix_floor(struct pager *p, uint64_t stride, struct bmoe_error *err)
{
    uint64_t before = p->largest_bytes;
    if (stride > p->largest_bytes)
        p->largest_bytes = stride;
    uint64_t floor = sizes_floor(p, p->place, 0);
    if (!p->started || floor <= p->budget_bytes)
        return 0;
    p->largest_bytes = before;
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                     "with slices of %llu bytes the floor is %llu, above the budget of %llu",
                     (unsigned long long)stride, (unsigned long long)floor,
                     (unsigned long long)p->budget_bytes);
}

static int matrix_place(struct pager *p, const struct pager_matrix *m, struct matrix *k,
                        struct bmoe_error *err)
{
    uint64_t bytes;
    if (!checked_mul_u64(k->stride, m->n_slices, &bytes) ||
        bytes > p->pinned_begin - p->paged_bytes)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                         "the store has no room for %u slices of %llu bytes", m->n_slices,
                         (unsigned long long)k->stride);
    int rc = matrix_floor(p, k->stride, err);
    if (rc)
        return rc;
    k->first_extent = p->extents.n;
    if (!matrix_reserve(p, m->n_slices))
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
    k->file_offset = m->file_offset;
    k->slice_bytes = m->slice_bytes;
    k->n_slices = m->n_slices;
    k->carry = m->carry;
    k->carry_ctx = m->carry_ctx;
    k->base = p->base + p->paged_bytes;
    if (!m->contiguous)
        k->pool = pool_for(p, k->stride);
    p->paged_bytes += bytes;
    p->any_carry |= m->carry != NULL;
    p->matrices[p->n_matrices++] = k;
    if (!p->started)
        return 0;
    sizes_update(p);
    return store_register(p, err);
}

/* Readers look the extents of their group up without the lock, so the tables must not move under
 * them: they finish what they read and take nothing. Reads end by themselves (pager_room.c). */
static void readers_hold(struct pager *p)
{
    p->growing = true;
    while (p->n_reading)
        wait_done(p);
}

static void readers_go_on(struct pager *p)
{
    p->growing = false;
    readers_wake(p);
}

int pager_matrix_add(struct pager *p, const struct pager_matrix *m, struct pager_range *out,
                     struct bmoe_error *err)
{
    struct matrix *k = calloc(1, sizeof *k);
    if (!k)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "out of memory");
    pthread_mutex_lock(p->lock);
    readers_hold(p);
    uint32_t before = p->n_matrices;
    int rc = matrix_measure(p, m, k, err);
    if (rc == 0)
        rc = matrix_place(p, m, k, err);
    if (rc == 0)
        *out = (struct pager_range){.base = k->pool ? k->pool->base : k->base,
                                    .stride = k->stride,
                                    .first_extent = k->first_extent};
    else if (p->n_matrices == before)
        free(k);
    readers_go_on(p);
    pthread_mutex_unlock(p->lock);
    return rc;
}
