/*
 * The trial passes a good model, and refuses, with libllama's own assertion in the sentence, one
 * that the index cannot know to be bad; with a second thread in the process too.
 *
 * Usage: test_trial MODEL (a qwen3moe whose heads are 64 wide)
 */
#include "engine/session.h"
#include "engine/trial.h"
#include "mutate.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COPY "trial-copy.gguf"

static const char *model_path;
static char variant[64];

/* The model with its rope made narrower than its heads: asserted in the graph of qwen3moe. */
static void write_bad_model(void)
{
    struct mutate_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_true(mutate_load(m, model_path));
    assert_true(mutate_add_u32(m, "qwen3moe.rope.dimension_count", 32));
    assert_true(mutate_save(m, COPY));
    mutate_free(m);
    free(m);
}

static int try_file(const char *path, struct bmoe_error *err)
{
    struct gguf_index *x = NULL;
    assert_int_equal(gguf_index_open(&x, path, err), 0);
    int rc = trial_load(x, err);
    gguf_index_close(x);
    return rc;
}

static void a_good_model_passes(void **state)
{
    (void)state;
    struct bmoe_error err = {0};
    assert_int_equal(try_file(model_path, &err), 0);
}

static void what_libllama_asserts_is_said(void **state)
{
    (void)state;
    struct bmoe_error err = {0};
    write_bad_model();
    int rc = try_file(COPY, &err);
    assert_int_equal(rc, BMOE_E_MODEL);
    assert_non_null(strstr(err.text, "GGML_ASSERT(n_embd_head == n_rot)"));
    assert_null(strchr(err.text, '\n'));
    unlink(COPY);
}

static void *wait_for(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

static void a_second_thread_does_not_matter(void **state)
{
    (void)state;
    struct bmoe_error err = {0};
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    write_bad_model();
    pthread_mutex_lock(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for, &lock), 0);
    assert_int_equal(try_file(COPY, &err), BMOE_E_MODEL);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    unlink(COPY);
}

int main(int argc, char **argv)
{
    if (argc != 2 || backend_load_cpu(BMOE_BACKENDS_DIR, variant, sizeof variant, NULL) != 0)
        return 2;
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_model_passes),
        cmocka_unit_test(what_libllama_asserts_is_said),
        cmocka_unit_test(a_second_thread_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
