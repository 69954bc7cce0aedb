/*
 * What the index says of good files: it agrees with gguf's own reader tensor by tensor, resolves a
 * split set from any shard, and passes over a large vocabulary quickly. Usage: test_gguf_index
 * MODEL
 */
#include "gguf_build.h"
#include "model/gguf_index.h"

#include <fcntl.h>
#include <ggml.h>
#include <gguf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CUT "cut.gguf"

static const char *model_path;

static struct gguf_index *open_good(const char *path)
{
    struct gguf_index *x = NULL;
    struct bmoe_error err = {0};
    if (gguf_index_open(&x, path, &err) != 0)
        fail_msg("%s", err.text);
    return x;
}

static void agrees_with_ggufs_own_reader(void **state)
{
    (void)state;
    struct gguf_index *x = open_good(model_path);
    struct ggml_context *shapes = NULL;
    struct gguf_init_params p = {.no_alloc = true, .ctx = &shapes};
    struct gguf_context *g = gguf_init_from_file(model_path, p);
    assert_non_null(g);
    assert_int_equal(gguf_index_n_tensors(x), gguf_get_n_tensors(g));
    assert_int_equal(gguf_index_n_shards(x), 1);
    assert_int_equal(gguf_index_shard(x, 0)->data_offset, gguf_get_data_offset(g));
    for (uint32_t i = 0; i < gguf_index_n_tensors(x); i++) {
        const struct gguf_tensor *t = gguf_index_tensor(x, i);
        const struct ggml_tensor *other = ggml_get_tensor(shapes, t->name);
        assert_string_equal(t->name, gguf_get_tensor_name(g, i));
        assert_non_null(other);
        assert_int_equal(t->type, other->type);
        assert_memory_equal(t->ne, other->ne, sizeof t->ne);
        assert_int_equal(t->bytes, ggml_nbytes(other));
        assert_int_equal(t->offset, gguf_get_data_offset(g) + gguf_get_tensor_offset(g, i));
        assert_ptr_equal(gguf_index_find(x, t->name), t);
    }
    assert_null(gguf_index_find(x, "no such tensor"));
    gguf_free(g);
    ggml_free(shapes);
    gguf_index_close(x);
}

static void answers_metadata(void **state)
{
    (void)state;
    struct stat st;
    struct gguf_index *x = open_good(model_path);
    assert_int_equal(stat(model_path, &st), 0);
    assert_string_equal(gguf_index_arch(x), "qwen3moe");
    assert_int_equal(gguf_index_u64(x, "%s.expert_count", 7), 64);
    assert_int_equal(gguf_index_u64(x, "qwen3moe.expert_used_count", 7), 4);
    assert_int_equal(gguf_index_u64(x, "%s.no_such_key", 7), 7);
    assert_int_equal(gguf_index_u64(x, "general.name", 7), 7);
    assert_string_equal(gguf_index_str(x, "tokenizer.ggml.model"), "gpt2");
    assert_null(gguf_index_str(x, "%s.expert_count"));
    assert_null(gguf_index_chat_template(x));
    assert_int_equal(gguf_index_array_len(x, "tokenizer.ggml.tokens"), 2048);
    assert_int_equal(gguf_index_array_len(x, "general.name"), 0);
    assert_int_equal(gguf_index_shard(x, 0)->file_bytes, st.st_size);
    assert_true(gguf_index_shard(x, 0)->ino == st.st_ino);
    gguf_index_close(x);
}

/* Shard i of n (from 0) with one tensor; only the first has the architecture. */
static void write_shard(int i, int n)
{
    struct gguf_build b;
    char path[64], name[16];
    const int64_t ne[] = {32, 4};
    gguf_build_begin(&b);
    if (i == 0)
        gguf_build_key_text(&b, "general.architecture", "toy");
    gguf_build_key_u16(&b, "split.no", (uint16_t)i);
    gguf_build_key_u16(&b, "split.count", (uint16_t)n);
    gguf_build_key_i32(&b, "split.tensors.count", n);
    snprintf(name, sizeof name, "t%d", i);
    gguf_build_tensor(&b, name, 2, ne, GGML_TYPE_F32, 512);
    snprintf(path, sizeof path, "toy-%05d-of-%05d.gguf", i + 1, n);
    gguf_build_write(&b, path);
    gguf_build_free(&b);
}

static void any_shard_names_the_set(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        write_shard(i, 3);
    for (int given = 1; given <= 3; given++) {
        char path[64];
        snprintf(path, sizeof path, "toy-%05d-of-00003.gguf", given);
        struct gguf_index *x = open_good(path);
        assert_int_equal(gguf_index_n_shards(x), 3);
        assert_string_equal(gguf_index_shard(x, 1)->path, "toy-00002-of-00003.gguf");
        assert_string_equal(gguf_index_arch(x), "toy");
        assert_int_equal(gguf_index_n_tensors(x), 3);
        assert_int_equal(gguf_index_find(x, "t2")->shard, 2);
        gguf_index_close(x);
    }
}

/* Cut at a tensor's first byte, behind it and before its last one. */
static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct gguf_index *whole = NULL, *x = NULL;
    struct bmoe_error err = {0};
    assert_int_equal(gguf_index_open(&whole, model_path, &err), 0);
    struct stat st;
    assert_int_equal(stat(model_path, &st), 0);
    int from = open(model_path, O_RDONLY), to = open(CUT, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(sendfile(to, from, NULL, (size_t)st.st_size), st.st_size);
    /* From the end on, so that each cut is a shorter file. */
    for (int64_t i = (int64_t)gguf_index_n_tensors(whole) - 1; i >= 0; i--) {
        const struct gguf_tensor *t = gguf_index_tensor(whole, (uint32_t)i);
        const uint64_t ends[] = {t->offset + t->bytes - 1, t->offset + 1, t->offset};
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            assert_int_equal(ftruncate(to, (off_t)ends[k]), 0);
            assert_int_equal(gguf_index_open(&x, CUT, &err), BMOE_E_MODEL);
            assert_non_null(strstr(err.text, CUT));
            assert_null(x);
        }
    }
    close(from);
    close(to);
    unlink(CUT);
    gguf_index_close(whole);
}

static void links_are_kept_as_given(void **state)
{
    (void)state;
    char path[64], target[64];
    mkdir("links", 0755);
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "links/other-%05d-of-00003.gguf", i);
        snprintf(target, sizeof target, "../toy-%05d-of-00003.gguf", i);
        unlink(path);
        assert_int_equal(symlink(target, path), 0);
    }
    struct gguf_index *x = open_good("links/other-00002-of-00003.gguf");
    assert_string_equal(gguf_index_shard(x, 0)->path, "links/other-00001-of-00003.gguf");
    gguf_index_close(x);
}

static void a_large_vocabulary_is_passed_over(void **state)
{
    (void)state;
    enum { n = 250000 };
    struct gguf_build b;
    char token[32];
    gguf_build_begin(&b);
    gguf_build_key_text(&b, "general.architecture", "toy");
    gguf_build_key_array(&b, "tokenizer.ggml.tokens", 8, n);
    for (int i = 0; i < n; i++) {
        snprintf(token, sizeof token, "token %d", i);
        gguf_build_text(&b, token);
    }
    gguf_build_key_array(&b, "tokenizer.ggml.token_type", 5, n);
    for (int i = 0; i < n; i++)
        gguf_build_u32(&b, 1);
    gguf_build_write(&b, "vocabulary.gguf");
    gguf_build_free(&b);
    clock_t start = clock();
    struct gguf_index *x = open_good("vocabulary.gguf");
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(gguf_index_array_len(x, "tokenizer.ggml.tokens"), n);
    gguf_index_close(x);
    unlink("vocabulary.gguf");
    assert_true(seconds < 2); /* some hundredths; sanitizers and a busy machine allowed for */
}

static void many_tensors_are_found_by_name(void **state)
{
    (void)state;
    enum { n = 20000 };
    struct gguf_build b;
    char name[32];
    const int64_t ne[] = {32};
    gguf_build_begin(&b);
    gguf_build_key_text(&b, "general.architecture", "toy");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "tensor.%d", i);
        gguf_build_tensor(&b, name, 1, ne, GGML_TYPE_F32, 128);
    }
    gguf_build_write(&b, "tensors.gguf");
    gguf_build_free(&b);
    struct gguf_index *x = open_good("tensors.gguf");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "tensor.%d", i);
        assert_ptr_equal(gguf_index_find(x, name), gguf_index_tensor(x, (uint32_t)i));
    }
    gguf_index_close(x);
    unlink("tensors.gguf");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_ggufs_own_reader),
        cmocka_unit_test(answers_metadata),
        cmocka_unit_test(any_shard_names_the_set),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(links_are_kept_as_given),
        cmocka_unit_test(a_large_vocabulary_is_passed_over),
        cmocka_unit_test(many_tensors_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
