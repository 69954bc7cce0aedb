/* The pager tests' file, shim and touching threads. */
#include "pager_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rig_xor(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes)
{
    (void)ctx;
    (void)slice;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)dst)[i] = ((const uint8_t *)src)[i] ^ 0x5a;
}

static void keep_line(void *user, enum bmoe_log_level level, const char *line)
{
    struct rig *r = user;
    if (level < BMOE_LOG_WARN)
        return;
    r->log_lines++;
    size_t used = strlen(r->log);
    snprintf(r->log + used, sizeof r->log - used, "%s\n", line);
}

static int rig_open(void *ctx, const char *path, int flags)
{
    struct rig_shim *s = ctx;
    if ((flags & O_DIRECT) && s->open_fails_direct) {
        errno = EINVAL;
        return -1;
    }
    return open(path, flags);
}

/* One less, unless it is at zero already: true when it was not. */
static bool take(_Atomic int *n)
{
    int v = *n;
    while (v > 0)
        if (atomic_compare_exchange_weak(n, &v, v - 1))
            return true;
    return false;
}

static ssize_t rig_pread(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    struct rig_shim *s = ctx;
    unsigned n = ++s->n_reads;
    if (s->delay_us)
        usleep((useconds_t)s->delay_us);
    if (s->eintr && n % (unsigned)s->eintr == 0) {
        errno = EINTR;
        return -1;
    }
    if (s->einval_direct && (fcntl(fd, F_GETFL) & O_DIRECT) && take(&s->einval_direct)) {
        errno = EINVAL;
        return -1;
    }
    if (s->eio && !take(&s->eio_skip) && take(&s->eio)) {
        errno = EIO;
        return -1;
    }
    if (s->bad_offset && offset <= s->bad_offset && s->bad_offset < offset + (off_t)bytes) {
        errno = EIO;
        return -1;
    }
    if (s->shorten && bytes > (size_t)s->shorten)
        bytes = (size_t)s->shorten;
    return pread(fd, buf, bytes, offset);
}

static void write_file(const char *path, uint64_t bytes)
{
    enum { BLOCK = 1 << 16 };
    static uint8_t block[BLOCK];
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    for (uint64_t at = 0; at < bytes; at += BLOCK) {
        size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        for (size_t i = 0; i < n; i++)
            block[i] = rig_byte(at + i);
        assert_int_equal(write(fd, block, n), n);
    }
    assert_int_equal(fsync(fd), 0);
    close(fd);
}

void rig_init(struct rig *r, uint64_t file_bytes)
{
    memset(r, 0, sizeof *r);
    snprintf(r->path, sizeof r->path, "pager-test-%d.bin", (int)getpid());
    r->file_bytes = file_bytes;
    write_file(r->path, file_bytes);
    r->io = (struct pager_io){.open = rig_open, .pread = rig_pread, .ctx = &r->shim};
    r->config = (struct pager_config){.reserve_bytes = 64 << 20,
                                      .budget_bytes = 16 << 20,
                                      .n_readers = 2,
                                      .n_touchers = 4,
                                      .io = &r->io,
                                      .log = {.fn = keep_line, .user = r},
                                      .skip_page = -1};
}

void rig_create(struct rig *r)
{
    struct bmoe_error err = {0};
    if (pager_create(&r->pager, &r->config, &err) != 0)
        fail_msg("%s", err.text);
    r->file = pager_file_add(r->pager, r->path, &err);
    if (r->file < 0)
        fail_msg("%s", err.text);
}

void rig_matrix(struct rig *r, uint64_t file_offset, uint64_t slice_bytes, uint32_t n_slices,
                pager_carry_fn *carry)
{
    struct rig_matrix *m = &r->matrix[r->n_matrices++];
    struct bmoe_error err = {0};
    m->spec = (struct pager_matrix){.file = r->file,
                                    .file_offset = file_offset,
                                    .slice_bytes = slice_bytes,
                                    .n_slices = n_slices,
                                    .carry = carry};
    if (pager_matrix_add(r->pager, &m->spec, &m->range, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(m->range.first_extent, r->n_extents);
    r->n_extents += n_slices;
}

void rig_odd_matrices(struct rig *r, pager_carry_fn *carry)
{
    rig_matrix(r, 4711, 65824, 40, carry);
    rig_matrix(r, 4711 + 65824 * 40 + 32, 30000, 40, carry);
    rig_matrix(r, 4711 + (65824 + 30000) * 40 + 77, 4097, 40, carry);
}

void rig_start(struct rig *r)
{
    struct bmoe_error err = {0};
    if (pager_start(r->pager, NULL, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

void rig_start_at_floor(struct rig *r)
{
    struct bmoe_error err = {0};
    uint64_t set = 0; /* in NONE every toucher pins one */
    for (unsigned i = 0; i < r->n_matrices; i++)
        if (set < r->config.n_touchers * r->matrix[i].range.stride)
            set = r->config.n_touchers * r->matrix[i].range.stride;
    uint64_t floor = pager_floor_bytes(r->pager, pager_place(r->pager), set);
    if (pager_budget_set(r->pager, floor, &err) != 0)
        fail_msg("%s", err.text);
    if (pager_place(r->pager) != BMOE_PLACE_NONE)
        assert_int_equal(pager_budget_set(r->pager, floor - 1, &err), BMOE_E_MEMORY);
    r->config.budget_bytes = floor;
    rig_start(r);
}

void rig_fini(struct rig *r)
{
    pager_destroy(r->pager);
    r->pager = NULL;
    unlink(r->path);
}

static const struct rig_matrix *matrix_of(const struct rig *r, uint32_t e)
{
    const struct rig_matrix *m = &r->matrix[r->n_matrices - 1];
    while (m->range.first_extent > e)
        m--;
    return m;
}

const uint8_t *rig_extent(const struct rig *r, uint32_t e, uint64_t *bytes)
{
    const struct rig_matrix *m = matrix_of(r, e);
    uint64_t slice = e - m->range.first_extent;
    *bytes = m->spec.slice_bytes;
    if (m->spec.contiguous && m->spec.total_bytes - slice * *bytes < *bytes)
        *bytes = m->spec.total_bytes - slice * *bytes;
    return (const uint8_t *)m->range.base + pager_frame(r->pager, e) * m->range.stride;
}

uint8_t rig_expected(const struct rig *r, uint32_t e, uint64_t i)
{
    const struct rig_matrix *m = matrix_of(r, e);
    uint64_t slice = e - m->range.first_extent;
    uint8_t byte = rig_byte(m->spec.file_offset + slice * m->spec.slice_bytes + i);
    return m->spec.carry ? byte ^ 0x5a : byte;
}

uint64_t rig_check_all(const struct rig *r, uint32_t e)
{
    uint64_t bytes, wrong = 0;
    const volatile uint8_t *at = rig_extent(r, e, &bytes);
    for (uint64_t i = 0; i < bytes; i++)
        wrong += at[i] != rig_expected(r, e, i);
    return wrong;
}

uint64_t rig_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t rig_check_some(const struct rig *r, uint32_t e, unsigned probes, uint64_t *random)
{
    uint64_t bytes, wrong = 0;
    const volatile uint8_t *at = rig_extent(r, e, &bytes);
    for (unsigned k = 0; k < probes; k++) {
        uint64_t i = rig_random(random) % bytes;
        wrong += at[i] != rig_expected(r, e, i);
    }
    return wrong + (at[0] != rig_expected(r, e, 0)) +
           (at[bytes - 1] != rig_expected(r, e, bytes - 1));
}

struct toucher {
    struct rig *rig;
    pthread_t thread;
    unsigned touches;
    uint64_t random, wrong;
};

static void *toucher_main(void *arg)
{
    struct toucher *t = arg;
    bool pin = pager_place(t->rig->pager) == BMOE_PLACE_NONE;
    for (unsigned i = 0; i < t->touches; i++) {
        uint32_t e = (uint32_t)(rig_random(&t->random) % t->rig->n_extents);
        if (pin && pager_pin(t->rig->pager, &e, 1, NULL) != 0) {
            t->wrong++;
            continue;
        }
        t->wrong += i % 16 ? rig_check_some(t->rig, e, 8, &t->random) : rig_check_all(t->rig, e);
        if (pin)
            pager_unpin(t->rig->pager, &e, 1);
    }
    return NULL;
}

uint64_t rig_touch(struct rig *r, unsigned n_threads, unsigned touches)
{
    struct toucher t[16];
    uint64_t wrong = 0;
    assert_true(n_threads <= 16);
    for (unsigned i = 0; i < n_threads; i++) {
        t[i] = (struct toucher){.rig = r, .touches = touches, .random = 88172645463325252ull + i};
        assert_int_equal(pthread_create(&t[i].thread, NULL, toucher_main, &t[i]), 0);
    }
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(t[i].thread, NULL);
        wrong += t[i].wrong;
    }
    return wrong;
}

struct pager_counters rig_counters(const struct rig *r)
{
    struct pager_counters c;
    pager_counters_read(r->pager, &c);
    return c;
}
