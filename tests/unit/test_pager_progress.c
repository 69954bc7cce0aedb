/* A progress callback that takes longer than the reads must not make the load wait for ever: the
 * last chunk then ends while nobody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pager/pager.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)256 << 10)

static void slow_progress(void *user, float part)
{
    float *last = user;
    *last = part;
    usleep(50000);
}

static void test_slow_progress(void **state)
{
    (void)state;
    char path[] = "/tmp/bmoe-progress-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char *data = malloc(BYTES);
    memset(data, 0x5a, BYTES);
    assert_int_equal(write(fd, data, BYTES), BYTES);
    struct pager_config c = {.reserve_bytes = 2 * BYTES,
                             .budget_bytes = (uint64_t)16 << 20,
                             .n_readers = 2,
                             .n_touchers = 1,
                             .skip_page = -1};
    struct pager *p;
    struct bmoe_error err;
    assert_int_equal(pager_create(&p, &c, &err), 0);
    struct pager_pinned r = {.file = pager_file_add(p, path, &err), .bytes = BYTES};
    void *base;
    assert_int_equal(pager_pinned_add(p, &r, &base, &err), 0);
    float last = 0;
    alarm(20);
    assert_int_equal(pager_start(p, slow_progress, &last, &err), 0);
    alarm(0);
    assert_true(last == 1.0f);
    assert_memory_equal(base, data, BYTES);
    pager_destroy(p);
    free(data);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slow_progress)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
