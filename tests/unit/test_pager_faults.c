/*
 * What goes wrong, and what the pager makes of it: failed reads in the middle and recovery, lost
 * pages, the page that placing leaves out (the test of these tests), mappings, pinned ranges,
 * userfaultfd denied, replay.
 */
#include "pager_rig.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pager's mmap goes through here (linked with --wrap): the readers' buffers may be refused. */
static atomic_bool no_buffers;
static pthread_t main_thread;
void *__real_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (atomic_load(&no_buffers) && !pthread_equal(pthread_self(), main_thread)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, bytes, prot, flags, fd, offset);
}

static void setup(struct rig *r, enum bmoe_place place)
{
    rig_init(r, 5 << 20);
    r->config.place = place;
    rig_create(r);
    rig_odd_matrices(r, rig_xor);
}

/* Every extent in turn, as a graph would: pinned where there is no userfaultfd, until the error. */
static uint64_t walk(struct rig *r)
{
    uint64_t wrong = 0;
    for (uint32_t e = 0; e < r->n_extents && !pager_failed(r->pager); e++) {
        bool pin = pager_place(r->pager) == BMOE_PLACE_NONE;
        if (pin && pager_pin(r->pager, &e, 1, NULL) != 0)
            break;
        wrong += rig_check_all(r, e);
        if (pin)
            pager_unpin(r->pager, &e, 1);
    }
    return wrong;
}

static void a_failed_read_is_recovered(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        setup(&r, place);
        rig_start(&r);
        for (int slice = 0; slice < 40; slice += 13) {
            uint32_t hint[] = {100, 101, 102};
            pager_drop_all(r.pager);
            r.shim.bad_offset = 4711 + 65824 * slice + 30000;
            pager_hint(r.pager, PAGER_ROUTED, hint, 3, false);
            uint64_t wrong = walk(&r);
            assert_true(pager_failed(r.pager));
            assert_true(place == BMOE_PLACE_NONE || wrong > 0);
            r.shim.bad_offset = 0;
            assert_int_equal(pager_recover(r.pager, &err), BMOE_E_IO);
            assert_non_null(strstr(err.text, r.path));
            assert_non_null(strstr(err.text, strerror(EIO)));
            assert_int_equal(pager_recover(r.pager, &err), 0);
            assert_int_equal(walk(&r), 0);
        }
        struct pager_counters c = rig_counters(&r);
        assert_int_equal(c.failed_reads, 4);
        assert_int_equal(c.retries, 4);
        assert_int_equal(c.lost_pages, 0);
        rig_fini(&r);
    }
}

static void a_failed_guess_is_no_error(void **state)
{
    struct rig r;
    uint32_t e = 80;
    (void)state;
    setup(&r, BMOE_PLACE_AUTO);
    rig_start(&r);
    r.shim.bad_offset = 4711 + (65824 + 30000) * 40 + 77 + 100;
    pager_hint(r.pager, PAGER_AHEAD, &e, 1, false);
    for (int i = 0; i < 2000 && rig_counters(&r).failed_reads == 0; i++)
        usleep(1000);
    assert_int_equal(rig_counters(&r).failed_reads, 1);
    assert_false(pager_failed(r.pager));
    assert_false(pager_extent_resident(r.pager, e));
    r.shim.bad_offset = 0;
    assert_int_equal(rig_check_all(&r, e), 0);
    rig_fini(&r);
}

/* Pages that vanish from a resident extent come back, and are counted. */
static void lost_pages_come_back(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct rig r;
        uint64_t bytes;
        setup(&r, place);
        rig_start(&r);
        assert_int_equal(walk(&r), 0);
        assert_true(pager_extent_resident(r.pager, 5));
        char *at = (char *)r.matrix[0].range.base + 5 * r.matrix[0].range.stride;
        assert_ptr_equal(at, rig_extent(&r, 5, &bytes));
        assert_int_equal(madvise(at + 8192, 4096, MADV_DONTNEED), 0);
        assert_int_equal(rig_check_all(&r, 5), 0);
        assert_int_equal(rig_counters(&r).lost_pages, 1);
        rig_fini(&r);
    }
}

/* The content check sees a page that placing leaves out. */
static void a_skipped_page_is_seen(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        rig_init(&r, 5 << 20);
        r.config.place = place;
        r.config.skip_page = 300;
        rig_create(&r);
        rig_odd_matrices(&r, rig_xor);
        rig_start(&r);
        uint64_t wrong = walk(&r);
        assert_true(wrong > 0 && wrong <= 4096);
        rig_fini(&r);
    }
}

static void a_mapping_answers_from_the_file(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        setup(&r, place);
        uint64_t bytes = r.file_bytes - 12345; /* ends within a page, and within the file */
        volatile uint8_t *m = pager_mapping_create(r.pager, r.file, bytes, &err);
        assert_non_null(m);
        assert_int_equal(m[1234567], rig_byte(1234567)); /* before start */
        rig_start(&r);
        uint64_t random = 3;
        for (int i = 0; i < 400; i++) {
            uint64_t at = rig_random(&random) % bytes;
            assert_int_equal(m[at], rig_byte(at));
        }
        assert_int_equal(m[bytes - 1], rig_byte(bytes - 1));
        assert_true(rig_counters(&r).mapping_faults > 10);
        assert_null(pager_mapping_create(r.pager, 9, 4096, &err));
        assert_int_equal(munmap((void *)(uintptr_t)m, bytes), 0);
        rig_fini(&r);
    }
}

static void a_mapping_without_userfaultfd_is_the_file(void **state)
{
    struct rig r;
    (void)state;
    setup(&r, BMOE_PLACE_NONE);
    volatile uint8_t *m = pager_mapping_create(r.pager, r.file, 100000, NULL);
    assert_non_null(m);
    for (uint64_t at = 0; at < 100000; at += 777)
        assert_int_equal(m[at], rig_byte(at));
    assert_int_equal(munmap((void *)(uintptr_t)m, 100000), 0);
    rig_fini(&r);
}

/* In NONE matrices of one stride share their memory: a slice lies wherever a frame was free. */
static void frames_are_shared(void **state)
{
    struct rig r;
    struct bmoe_error err;
    (void)state;
    setup(&r, BMOE_PLACE_NONE);
    rig_matrix(&r, 100, 5000, 20, NULL);
    rig_matrix(&r, 200100, 5100, 20, NULL);
    rig_start(&r);
    const struct pager_range *a = &r.matrix[r.n_matrices - 2].range;
    const struct pager_range *b = &r.matrix[r.n_matrices - 1].range;
    assert_int_equal(a->stride, b->stride);
    assert_ptr_equal(a->base, b->base);
    uint32_t first[] = {a->first_extent + 3, a->first_extent + 19};
    uint32_t second[] = {b->first_extent + 5, b->first_extent + 19};
    assert_int_equal(pager_pin(r.pager, first, 2, &err), 0);
    assert_int_equal(pager_pin(r.pager, second, 2, &err), 0);
    uint32_t frames[] = {pager_frame(r.pager, first[0]), pager_frame(r.pager, first[1]),
                         pager_frame(r.pager, second[0]), pager_frame(r.pager, second[1])};
    for (int i = 0; i < 4; i++) {
        assert_true(frames[i] < 4 + r.config.n_readers);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(frames[i], frames[k]);
        assert_int_equal(rig_check_all(&r, i < 2 ? first[i] : second[i - 2]), 0);
    }
    pager_unpin(r.pager, first, 2);
    pager_unpin(r.pager, second, 2);
    pager_drop_all(r.pager);
    assert_int_equal(rig_counters(&r).resident_extents, 0);
    rig_fini(&r);
}

/* Two pools that lend each other memory, in huge pages where the system has them, under a budget
 * that goes down and up again. */
static void frames_of_two_sizes(void **state)
{
    static const uint64_t budgets[] = {132 << 20, 40 << 20, 132 << 20};
    struct rig r;
    struct bmoe_error err;
    (void)state;
    rig_init(&r, 40 << 20);
    r.config.place = BMOE_PLACE_NONE;
    r.config.reserve_bytes = 256 << 20;
    r.config.budget_bytes = budgets[0];
    rig_create(&r);
    for (int i = 0; i < 2; i++) {
        rig_matrix(&r, 1000, 300000, 139, NULL);
        rig_matrix(&r, 2000, 420000, 99, rig_xor);
    }
    rig_start(&r);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pager_budget_set(r.pager, budgets[i], &err), 0);
        assert_int_equal(rig_touch(&r, 2, 800), 0);
        struct pager_counters c = rig_counters(&r);
        assert_true(c.evictions > 20);
        assert_true(c.resident_bytes + c.staging_bytes <= budgets[i]);
    }
    rig_fini(&r);
}

static float last_part;

static void note_progress(void *user, float part)
{
    (void)user;
    assert_true(part >= last_part && part <= 1.0f);
    last_part = part;
}

static void check_pinned(const uint8_t *at, uint64_t offset, uint64_t bytes, uint8_t mask)
{
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(at[i], rig_byte(offset + i) ^ mask);
}

static void pinned_ranges_are_there(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        void *plain, *carried, *late;
        setup(&r, place);
        struct pager_pinned a = {.file = r.file, .file_offset = 33, .bytes = 3000001};
        struct pager_pinned b = {.file = r.file,
                                 .file_offset = 70001,
                                 .bytes = 2000000,
                                 .chunk_bytes = 777777,
                                 .carry = rig_xor};
        assert_int_equal(pager_pinned_add(r.pager, &a, &plain, &err), 0);
        assert_int_equal(pager_pinned_add(r.pager, &b, &carried, &err), 0);
        last_part = 0;
        assert_int_equal(pager_start(r.pager, note_progress, NULL, &err), 0);
        assert_true(last_part == 1.0f);
        assert_int_equal(walk(&r), 0);
        b.file_offset++;
        assert_int_equal(pager_pinned_add(r.pager, &b, &late, &err), 0);
        check_pinned(plain, 33, a.bytes, 0);
        check_pinned(carried, 70001, b.bytes, 0x5a);
        check_pinned(late, 70002, b.bytes, 0x5a);
        assert_int_equal(rig_counters(&r).pinned_bytes, a.bytes + 2 * b.bytes);
        a.bytes = r.file_bytes;
        assert_int_equal(pager_pinned_add(r.pager, &a, &late, &err), BMOE_E_MODEL);
        assert_int_equal(walk(&r), 0);
        rig_fini(&r);
    }
}

static void a_failed_pinned_read_fails_the_start(void **state)
{
    struct rig r;
    struct bmoe_error err = {0};
    void *base;
    (void)state;
    setup(&r, BMOE_PLACE_AUTO);
    struct pager_pinned a = {.file = r.file, .bytes = 3000000};
    assert_int_equal(pager_pinned_add(r.pager, &a, &base, &err), 0);
    r.shim.eio = 1000;
    assert_int_equal(pager_start(r.pager, NULL, NULL, &err), BMOE_E_IO);
    assert_non_null(strstr(err.text, r.path));
    rig_fini(&r);
}

/* Nobody reads then, and nobody waits for ever. */
static void readers_without_buffers_fail_the_start(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        void *base;
        setup(&r, place);
        struct pager_pinned a = {.file = r.file, .bytes = 3000000};
        assert_int_equal(pager_pinned_add(r.pager, &a, &base, &err), 0);
        atomic_store(&no_buffers, true);
        assert_int_equal(pager_start(r.pager, NULL, NULL, &err), BMOE_E_MEMORY);
        atomic_store(&no_buffers, false);
        rig_fini(&r);
    }
}

/* Larger slices that come late: buffers grow, and the floor is held to. */
static void a_matrix_may_come_late(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        setup(&r, place);
        rig_start(&r);
        assert_int_equal(walk(&r), 0);
        rig_matrix(&r, 99, 700001, 5, rig_xor);
        assert_int_equal(walk(&r), 0);
        struct pager_matrix huge = {
            .file = r.file, .slice_bytes = 5 << 20, .n_slices = 1, .file_offset = 0};
        struct pager_range range;
        assert_int_equal(pager_matrix_add(r.pager, &huge, &range, &err), BMOE_E_MEMORY);
        assert_int_equal(walk(&r), 0);
        rig_fini(&r);
    }
}

static void a_table_is_contiguous(void **state)
{
    (void)state;
    /* AUTO: frames are chosen after userfaultfd was opened. */
    for (int place = BMOE_PLACE_AUTO; place <= BMOE_PLACE_NONE; place++) {
        struct rig r;
        struct bmoe_error err = {0};
        rig_init(&r, 5 << 20);
        r.config.place = place;
        rig_create(&r);
        if (place == BMOE_PLACE_AUTO)
            assert_int_equal(pager_place_frames(r.pager), BMOE_OK);
        struct rig_matrix *m = &r.matrix[r.n_matrices++];
        m->spec = (struct pager_matrix){.file = r.file,
                                        .file_offset = 12345,
                                        .slice_bytes = 65536,
                                        .n_slices = 31,
                                        .contiguous = true,
                                        .total_bytes = 30 * 65536 + 777};
        assert_int_equal(pager_matrix_add(r.pager, &m->spec, &m->range, &err), 0);
        assert_int_equal(m->range.stride, 65536);
        r.n_extents = 31;
        rig_start(&r);
        assert_int_equal(walk(&r), 0);
        if (pager_place(r.pager) == BMOE_PLACE_NONE)
            assert_int_equal(rig_counters(&r).faults, 0);
        rig_fini(&r);
    }
}

static void reads_can_be_replayed(void **state)
{
    struct rig r;
    struct bmoe_error err = {0};
    struct pager_read_record *records;
    (void)state;
    setup(&r, BMOE_PLACE_AUTO);
    rig_start(&r);
    pager_trace_reads(r.pager, true);
    assert_int_equal(walk(&r), 0);
    assert_int_equal(pager_recover(r.pager, NULL), 0); /* waits until all is counted */
    pager_trace_reads(r.pager, false);
    size_t n = pager_trace_take(r.pager, &records);
    assert_int_equal(n, rig_counters(&r).reads);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += records[i].bytes;
    struct pager_counters c = rig_counters(&r);
    assert_int_equal(bytes, c.bytes_useful + c.bytes_widened);
    unsigned before = r.shim.n_reads;
    assert_true(pager_replay(r.pager, records, n, &err) > 0);
    assert_int_equal(r.shim.n_reads - before, n);
    records[0].file = 3;
    assert_int_equal(pager_replay(r.pager, records, n, &err), BMOE_E_MISUSE);
    free(records);
    rig_fini(&r);
}

static void misuse_is_refused(void **state)
{
    struct rig r;
    struct bmoe_error err = {0};
    struct pager *p;
    (void)state;
    rig_init(&r, 4096);
    struct pager_config c = r.config;
    c.n_readers = 17;
    assert_int_equal(pager_create(&p, &c, &err), BMOE_E_MISUSE);
    c = r.config;
    c.n_touchers = 0;
    assert_int_equal(pager_create(&p, &c, &err), BMOE_E_MISUSE);
    c = r.config;
    c.page_bytes = 5000;
    assert_int_equal(pager_create(&p, &c, &err), BMOE_E_MISUSE);
    r.config.budget_bytes = 10;
    rig_create(&r);
    rig_matrix(&r, 0, 4096, 1, NULL);
    assert_int_equal(pager_start(r.pager, NULL, NULL, &err), BMOE_E_MEMORY);
    rig_fini(&r);
    pager_destroy(NULL);
}

/* In a child: the kernel answers EPERM to userfaultfd, as a container's filter does. */
static int deny_userfaultfd(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int denied_child(void)
{
    struct rig r;
    struct bmoe_error err = {0};
    if (deny_userfaultfd() != 0)
        return 77;
    setup(&r, BMOE_PLACE_AUTO);
    rig_start(&r);
    bool fine = pager_place(r.pager) == BMOE_PLACE_NONE && r.log_lines == 1 && walk(&r) == 0;
    rig_fini(&r);
    r.config.place = BMOE_PLACE_MOVE;
    fine = fine && pager_create(&r.pager, &r.config, &err) == BMOE_E_MISUSE;
    return fine ? 0 : 1;
}

static void userfaultfd_denied(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(denied_child());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    main_thread = pthread_self();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(userfaultfd_denied),
        cmocka_unit_test(a_mapping_without_userfaultfd_is_the_file),
        cmocka_unit_test(frames_are_shared),
        cmocka_unit_test(frames_of_two_sizes),
        cmocka_unit_test(a_failed_read_is_recovered),
        cmocka_unit_test(a_failed_guess_is_no_error),
        cmocka_unit_test(lost_pages_come_back),
        cmocka_unit_test(a_skipped_page_is_seen),
        cmocka_unit_test(a_mapping_answers_from_the_file),
        cmocka_unit_test(pinned_ranges_are_there),
        cmocka_unit_test(a_failed_pinned_read_fails_the_start),
        cmocka_unit_test(readers_without_buffers_fail_the_start),
        cmocka_unit_test(a_matrix_may_come_late),
        cmocka_unit_test(a_table_is_contiguous),
        cmocka_unit_test(reads_can_be_replayed),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
