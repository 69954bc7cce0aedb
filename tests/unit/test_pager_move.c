/*
 * UFFDIO_MOVE that does not do what it says: pages moved that it does not tell of (Linux 6.18 under
 * memory compaction), none moved because they stay busy. The kernel's answers are made here, around
 * the real call (linked with --wrap), and every byte is checked.
 */
#include "pager/uffd_abi.h"
#include "pager_rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

enum lie { SHORT_OF_A_BATCH, NOTHING_SAID, STAYS_BUSY, N_LIES };

static enum lie lie;
static atomic_uint n_moves, n_lies;

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

static int answer(struct uffdio_move *m, int64_t moved, int errnum)
{
    m->move = moved;
    errno = errnum;
    return -1;
}

/* Every seventh MOVE lies. One that stays busy does so for all its tries. */
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    enum { EVERY = 7, PAGE = 4096, TRIES = 17 };
    static _Thread_local unsigned busy;
    if (request != UFFDIO_MOVE)
        return __real_ioctl(fd, request, arg);
    struct uffdio_move *m = arg;
    if (busy > 0 && busy--)
        return answer(m, -EBUSY, EBUSY);
    if (atomic_fetch_add(&n_moves, 1) % EVERY != EVERY - 1 || m->len <= PAGE)
        return __real_ioctl(fd, request, arg);
    atomic_fetch_add(&n_lies, 1);
    if (lie == STAYS_BUSY) {
        busy = TRIES - 1;
        return answer(m, -EBUSY, EBUSY);
    }
    int rc = __real_ioctl(fd, request, arg);
    if (rc != 0)
        return rc;
    return lie == SHORT_OF_A_BATCH ? answer(m, PAGE, EAGAIN) : answer(m, -ENOENT, ENOENT);
}

static void every_byte_is_right_all_the_same(void **state)
{
    (void)state;
    for (lie = 0; lie < N_LIES; lie++) {
        struct rig r;
        rig_init(&r, 5 << 20);
        r.config.place = BMOE_PLACE_MOVE;
        rig_create(&r);
        if (pager_place(r.pager) != BMOE_PLACE_MOVE) {
            rig_fini(&r);
            skip();
        }
        rig_odd_matrices(&r, rig_xor);
        rig_start_at_floor(&r);
        atomic_store(&n_lies, 0);
        assert_int_equal(rig_touch(&r, 4, 150), 0);
        assert_false(pager_failed(r.pager));
        struct pager_counters c = rig_counters(&r);
        assert_true(atomic_load(&n_lies) > 10);
        assert_true(c.move_fallbacks > 4); /* the others were moves home, into a slot */
        assert_int_equal(c.lost_pages, 0);
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_is_right_all_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
