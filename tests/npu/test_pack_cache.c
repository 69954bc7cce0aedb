/* The file of packed weights: found again, never found wrong, made anew when damaged, read by two.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pack_cache.h"
#include "pack_hash.h"

enum { ENTRIES = 9, IMAGE = 1000, SCALES = 40 };

static char path[] = "/tmp/pack-cache-XXXXXX";
static int n_said;
static char said[400];

static void speak(const char *sentence)
{
    snprintf(said, sizeof(said), "%s", sentence);
    n_said++;
}

static struct pack_cache *open_it(void)
{
    struct pack_cache *c = NULL;

    n_said = 0;
    assert_int_equal(pack_cache_open(path, speak, &c), 0);
    assert_non_null(c);
    return c;
}

static struct pack_key key_of(uint64_t i)
{
    return pack_cache_key(&i, sizeof(i), (const uint64_t[]){1, 2}, 2);
}

static void image_of(int i, uint8_t *image)
{
    for (int b = 0; b < IMAGE + SCALES; b++)
        image[b] = (uint8_t)(b * 31 + i * 7 + 1);
}

static void add_all(struct pack_cache *c)
{
    uint8_t image[IMAGE + SCALES];

    for (int i = 0; i < ENTRIES; i++) {
        const struct pack_key key = key_of((uint64_t)i);

        image_of(i, image);
        pack_cache_add(c, &key, image, IMAGE, image + IMAGE, SCALES);
    }
}

/* How many are found; each is what was put there. */
static int count_found(struct pack_cache *c)
{
    uint8_t want[IMAGE + SCALES];
    const void *image, *scales;
    int n = 0;

    for (int i = 0; i < ENTRIES + 3; i++) {
        const struct pack_key key = key_of((uint64_t)i);

        image_of(i, want);
        assert_false(pack_cache_find(c, &key, IMAGE - 1, SCALES, &image, &scales));
        if (!pack_cache_find(c, &key, IMAGE, SCALES, &image, &scales))
            continue;
        assert_memory_equal(image, want, IMAGE);
        assert_memory_equal(scales, want + IMAGE, SCALES);
        n++;
    }
    return n;
}

static void make_full(void)
{
    struct pack_cache *c;

    unlink(path);
    c = open_it();
    assert_int_equal(count_found(c), 0);
    add_all(c);
    pack_cache_close(c);
    assert_int_equal(n_said, 0);
}

static void what_was_added_is_found(void **state)
{
    struct pack_cache *c;
    uint64_t found, added;

    (void)state;
    make_full();
    c = open_it();
    assert_int_equal(count_found(c), ENTRIES);
    pack_cache_counts(c, &found, &added);
    assert_int_equal(found, ENTRIES);
    assert_int_equal(added, 0);
    assert_int_equal(n_said, 0);
    pack_cache_close(c);
}

static off_t size_of_file(void)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void change_byte(off_t at)
{
    int fd = open(path, O_RDWR);
    uint8_t b;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= 0x10;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    close(fd);
}

/* Wherever a byte changes: nothing wrong is found, one sentence, and the next start is whole again.
 */
static void damage_is_made_good(void **state)
{
    const off_t bytes = (make_full(), size_of_file());

    (void)state;
    for (off_t at = 0; at < bytes; at += 37) {
        struct pack_cache *c;
        int found;

        make_full();
        change_byte(at);
        c = open_it();
        found = count_found(c);
        assert_true(found <= ENTRIES);
        if (found < ENTRIES) {
            assert_int_equal(n_said, 1);
            assert_non_null(strstr(said, "is made anew"));
        } else {
            assert_int_equal(n_said, 0); /* padding */
        }
        add_all(c);
        pack_cache_close(c);
        c = open_it();
        assert_int_equal(count_found(c), ENTRIES);
        assert_int_equal(n_said, 0);
        pack_cache_close(c);
    }
}

static void a_cut_file_is_made_good(void **state)
{
    (void)state;
    for (off_t bytes = (make_full(), size_of_file()); bytes >= 0; bytes -= 101) {
        struct pack_cache *c;

        make_full();
        assert_int_equal(truncate(path, bytes), 0);
        c = open_it();
        count_found(c);
        assert_true(n_said <= 1);
        add_all(c);
        pack_cache_close(c);
        c = open_it();
        assert_int_equal(count_found(c), ENTRIES);
        pack_cache_close(c);
    }
}

/* The second one reads what is there and leaves the file alone. */
static void two_can_have_it(void **state)
{
    struct pack_cache *first, *second;
    off_t bytes;

    (void)state;
    make_full();
    first = open_it();
    second = open_it();
    assert_int_equal(n_said, 1);
    assert_non_null(strstr(said, "only read here"));
    assert_int_equal(count_found(second), ENTRIES);
    bytes = size_of_file();
    add_all(second);
    assert_int_equal(size_of_file(), bytes);
    pack_cache_close(second);
    assert_int_equal(count_found(first), ENTRIES);
    pack_cache_close(first);
}

static void a_path_that_is_none(void **state)
{
    struct pack_cache *c = NULL;

    (void)state;
    n_said = 0;
    assert_true(pack_cache_open("/no/such/folder/file", speak, &c) < 0);
    assert_null(c);
    assert_int_equal(n_said, 1);
}

/* Every bit of input and of the length changes both halves. */
static void the_hash_sees_every_bit(void **state)
{
    uint8_t data[200];
    uint64_t one[2], other[2];

    (void)state;
    memset(data, 0, sizeof(data));
    pack_hash(data, sizeof(data), 1, one);
    for (size_t bit = 0; bit < 8 * sizeof(data); bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        pack_hash(data, sizeof(data), 1, other);
        assert_true(one[0] != other[0] && one[1] != other[1]);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < sizeof(data); n++) {
        pack_hash(data, n, 1, other);
        assert_true(one[0] != other[0] && one[1] != other[1]);
    }
    pack_hash(data, sizeof(data), 2, other);
    assert_true(one[0] != other[0] && one[1] != other[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found), cmocka_unit_test(damage_is_made_good),
        cmocka_unit_test(a_cut_file_is_made_good), cmocka_unit_test(two_can_have_it),
        cmocka_unit_test(a_path_that_is_none),     cmocka_unit_test(the_hash_sees_every_bit),
    };
    int fd = mkstemp(path);
    int rc;

    if (fd < 0)
        return 77;
    close(fd);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
