/*
 * A load through libllama with its mmap answered by memory of our own reads no tensor data: proved
 * by the page cache, from which the file is evicted before, and by the control, the same load with
 * the real mapping, which reads all of it.
 *
 * Usage: test_rebind MODEL. The model is copied, so that nobody else's use of it fills the cache.
 */
#include "pager/rebind.h"

#include <fcntl.h>
#include <llama.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COPY_PATH "test_rebind.gguf"
/* The header is read through the page cache, and the kernel reads ahead of it. */
#define HEADER_BYTES (2 << 20)

static const char *model_path;

struct answers {
    dev_t dev;
    ino_t ino;
    bool refuse; /* answer NULL: the real mapping */
    unsigned asked, other_files;
};

static void *answer_anonymous(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    struct answers *a = ctx;
    if (dev != a->dev || ino != a->ino) {
        a->other_files++;
        return NULL;
    }
    a->asked++;
    if (a->refuse)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static size_t resident_bytes(int fd, off_t from, off_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n_pages = ((size_t)bytes + page - 1) / page;
    unsigned char *there = malloc(n_pages);
    void *at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, from);
    assert_non_null(there);
    assert_true(at != MAP_FAILED);
    assert_int_equal(mincore(at, (size_t)bytes, there), 0);
    size_t n = 0;
    for (size_t i = 0; i < n_pages; i++)
        n += there[i] & 1;
    munmap(at, (size_t)bytes);
    free(there);
    return n * page;
}

static int open_evicted(struct stat *st)
{
    int fd = open(COPY_PATH, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, st), 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    if (resident_bytes(fd, 0, st->st_size) > 0) {
        close(fd);
        return -1; /* a file system in memory */
    }
    return fd;
}

static struct llama_model *load(void)
{
    struct llama_model_params p = llama_model_default_params();
    p.use_extra_bufts = false;
    p.n_gpu_layers = 0;
    return llama_model_load_from_file(COPY_PATH, p);
}

static void load_through_our_mapping_reads_nothing(void **state)
{
    (void)state;
    struct stat st;
    int fd = open_evicted(&st);
    if (fd < 0)
        skip();
    struct answers a = {.dev = st.st_dev, .ino = st.st_ino};
    struct bmoe_error err = {0};
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, &err) >= 1);
    struct llama_model *model = load();
    assert_int_equal(rebind_end(), 1);
    assert_non_null(model);
    assert_int_equal(a.asked, 1);
    /* Asking the size with fseek makes stdio read the block at the end: one page. */
    assert_in_range(resident_bytes(fd, HEADER_BYTES, st.st_size - HEADER_BYTES), 0,
                    (size_t)sysconf(_SC_PAGESIZE));
    llama_model_free(model);
    close(fd);
}

static void control_real_mapping_reads_all(void **state)
{
    (void)state;
    struct stat st;
    int fd = open_evicted(&st);
    if (fd < 0)
        skip();
    struct answers a = {.dev = st.st_dev, .ino = st.st_ino, .refuse = true};
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, NULL) >= 1);
    struct llama_model *model = load();
    assert_int_equal(rebind_end(), 0);
    assert_non_null(model);
    assert_int_equal(a.asked, 1);
    assert_true(resident_bytes(fd, HEADER_BYTES, st.st_size - HEADER_BYTES) >=
                (size_t)(st.st_size - HEADER_BYTES));
    llama_model_free(model);
    close(fd);
}

static void *load_elsewhere(void *result)
{
    *(struct llama_model **)result = load();
    return NULL;
}

static void another_threads_load_is_left_alone(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(COPY_PATH, &st), 0);
    struct answers a = {.dev = st.st_dev, .ino = st.st_ino};
    struct llama_model *model = NULL;
    pthread_t thread;
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, NULL) >= 1);
    assert_int_equal(pthread_create(&thread, NULL, load_elsewhere, &model), 0);
    pthread_join(thread, NULL);
    assert_int_equal(rebind_end(), 0);
    assert_int_equal(a.asked, 0);
    assert_non_null(model);
    llama_model_free(model);
}

/* The lines of /proc/self/maps that name libllama: addresses and permissions. */
static void llama_maps(char *out, size_t bytes)
{
    char line[512];
    size_t used = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    out[0] = '\0';
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "libllama.so"))
            used += (size_t)snprintf(out + used, bytes - used, "%s", line);
    assert_in_range(used, 1, bytes - 1);
    fclose(maps);
}

static void pages_are_protected_again(void **state)
{
    (void)state;
    char before[4096], after[4096];
    struct answers a = {0};
    llama_maps(before, sizeof before);
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, NULL) >= 1);
    llama_maps(after, sizeof after);
    assert_string_equal(before, after); /* during the load too */
    assert_int_equal(rebind_end(), 0);
    llama_maps(after, sizeof after);
    assert_string_equal(before, after);
}

static void after_the_end_nothing_is_asked(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(COPY_PATH, &st), 0);
    struct answers a = {.dev = st.st_dev, .ino = st.st_ino};
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, NULL) >= 1);
    assert_int_equal(rebind_end(), 0);
    struct llama_model *model = load();
    assert_non_null(model);
    llama_model_free(model);
    assert_int_equal(a.asked + a.other_files, 0);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct answers a = {0};
    struct bmoe_error err = {0};
    assert_int_equal(rebind_end(), 0); /* nothing begun */
    assert_int_equal(rebind_begin("libnothing.so", answer_anonymous, &a, &err), 0);
    assert_int_equal(rebind_end(), 0);
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, &err) >= 1);
    assert_int_equal(rebind_begin("libllama.so", answer_anonymous, &a, &err), BMOE_E_MISUSE);
    assert_true(strlen(err.text) > 0);
    rebind_end();
    assert_true(rebind_begin("libllama.so", answer_anonymous, &a, &err) >= 1);
    rebind_end();
}

struct turns {
    _Atomic int inside;
    _Atomic int overlaps;
};

static void *take_turns(void *arg)
{
    struct turns *t = arg;
    struct answers a = {0};
    for (int i = 0; i < 200; i++) {
        if (rebind_begin("libllama.so", answer_anonymous, &a, NULL) < 1)
            t->overlaps++;
        if (t->inside++ != 0)
            t->overlaps++;
        t->inside--;
        rebind_end();
    }
    return NULL;
}

static void loads_take_turns(void **state)
{
    (void)state;
    struct turns t = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &t), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(t.overlaps, 0);
}

static int copy_model(void **state)
{
    (void)state;
    struct stat st;
    int from = open(model_path, O_RDONLY | O_CLOEXEC);
    int to = open(COPY_PATH, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (from < 0 || to < 0 || fstat(from, &st) != 0)
        return -1;
    off_t at = 0;
    while (at < st.st_size && sendfile(to, from, &at, (size_t)(st.st_size - at)) > 0)
        ;
    close(from);
    close(to);
    return at == st.st_size ? 0 : -1;
}

static int remove_copy(void **state)
{
    (void)state;
    return unlink(COPY_PATH);
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    model_path = argv[1];
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(BMOE_BACKENDS_DIR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_through_our_mapping_reads_nothing),
        cmocka_unit_test(control_real_mapping_reads_all),
        cmocka_unit_test(another_threads_load_is_left_alone),
        cmocka_unit_test(pages_are_protected_again),
        cmocka_unit_test(after_the_end_nothing_is_asked),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(loads_take_turns),
    };
    return cmocka_run_group_tests(tests, copy_model, remove_copy);
}
