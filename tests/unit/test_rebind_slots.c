/*
 * The import slots of a library bound at once under RELRO, lazily, or without a PLT, opened
 * RTLD_LOCAL: each is found, changed, passes on what is not ours, and is put back.
 *
 * Usage: test_rebind_slots LIBRARY
 */
#include "pager/rebind.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_BYTES 4096

static const char *library_path;
static void *(*map)(int fd, size_t bytes);
static int (*advise)(void *at, size_t bytes);
static void *(*allocate)(size_t bytes);
static char ours[FILE_BYTES];

struct known {
    dev_t dev;
    ino_t ino;
};

static void *answer_ours(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    const struct known *k = ctx;
    return dev == k->dev && ino == k->ino && bytes == FILE_BYTES ? ours : NULL;
}

static int memory_file(struct known *out)
{
    struct stat st;
    int fd = memfd_create("test_rebind_slots", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
    assert_int_equal(fstat(fd, &st), 0);
    if (out)
        *out = (struct known){st.st_dev, st.st_ino};
    return fd;
}

static void expect_real(int fd)
{
    void *at = map(fd, FILE_BYTES);
    assert_true(at != MAP_FAILED);
    assert_ptr_not_equal(at, ours);
    assert_int_equal(advise(at, FILE_BYTES), EINVAL);
    assert_int_equal(munmap(at, FILE_BYTES), 0);
}

static void ours_is_answered_and_the_rest_passed_on(void **state)
{
    (void)state;
    struct known k;
    int fd = memory_file(&k), other = memory_file(NULL);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(rebind_begin(strrchr(library_path, '/') + 1, answer_ours, &k, NULL), 2);
        for (int call = 0; call < 2; call++) {
            assert_ptr_equal(map(fd, FILE_BYTES), ours);
            assert_int_equal(advise(ours + 8, 16), 0);
            expect_real(other);
        }
        assert_true(map(-1, FILE_BYTES) == MAP_FAILED);
        assert_int_equal(rebind_end(), 2);
        expect_real(fd);
    }
    close(fd);
    close(other);
}

/* Whether the kernel was asked for huge pages in the mapping that holds the address: "hg" among its
 * flags. */
static bool asks_for_huge_pages(const void *at)
{
    char line[512];
    bool here = false, huge = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            huge = strstr(line, " hg") != NULL;
    }
    fclose(f);
    return huge;
}

static bool have_huge_pages(void)
{
    return sysconf(_SC_PAGESIZE) == 4096 &&
           access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0;
}

static void allocations_are_counted_bounded_and_huge(void **state)
{
    (void)state;
    const size_t large = (size_t)40 << 20, small = (size_t)1 << 20;
    struct rebind_memory memory = {.limit_bytes = large + small};
    rebind_memory_begin(strrchr(library_path, '/') + 1, &memory);
    char *a = allocate(large), *b = allocate(small);
    assert_int_equal(rebind_begin("x", answer_ours, NULL, NULL), BMOE_E_MISUSE);
    assert_false(memory.refused);
    assert_int_equal(memory.asked_bytes, large + small);
    assert_null(allocate(1));
    assert_true(memory.refused);
    rebind_end();
    char *c = allocate(large);
    assert_true(a && b && c);
    assert_int_equal(asks_for_huge_pages(a + large / 2), have_huge_pages());
    assert_false(asks_for_huge_pages(b + small / 2));
    assert_false(asks_for_huge_pages(c + large / 2));
    free(a);
    free(b);
    free(c);
    rebind_memory_begin("no such library", &memory);
    assert_int_equal(rebind_end(), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    library_path = argv[1];
    void *library = dlopen(library_path, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return 1;
    *(void **)&map = dlsym(library, "slots_map");
    *(void **)&advise = dlsym(library, "slots_advise");
    *(void **)&allocate = dlsym(library, "slots_allocate");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_is_answered_and_the_rest_passed_on),
        cmocka_unit_test(allocations_are_counted_bounded_and_huge),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dlclose(library);
    return failed;
}
