/*
 * The model's file changes under a running session: fault_files MODEL. Truncated: the request fails
 * where stock mmap would die of SIGBUS, and when all is as before the next one is right. Written
 * to: the requests fail, since old and new bytes make no answer. Replaced by another file: the
 * session goes on with the one it opened.
 */
#include "gate_live.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;

/* A copy of the model that may be harmed. */
struct copy {
    char path[4096];
    char *bytes;
    size_t n_bytes;
    struct timespec times[2];
};

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    assert_int_equal(fsync(fd), 0);
    close(fd);
}

static void copy_make(struct copy *c)
{
    struct stat st;
    int fd = open(model, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    c->n_bytes = (size_t)st.st_size;
    c->bytes = malloc(c->n_bytes);
    assert_non_null(c->bytes);
    assert_int_equal(read(fd, c->bytes, c->n_bytes), c->n_bytes);
    close(fd);
    snprintf(c->path, sizeof c->path, "%s.%d.copy", model, (int)getpid());
    write_bytes(c->path, c->bytes, c->n_bytes);
    assert_int_equal(stat(c->path, &st), 0);
    c->times[0] = st.st_atim;
    c->times[1] = st.st_mtim;
}

/* The bytes and the times it had. */
static void copy_restore(const struct copy *c)
{
    write_bytes(c->path, c->bytes, c->n_bytes);
    assert_int_equal(utimensat(AT_FDCWD, c->path, c->times, 0), 0);
}

static void copy_drop(struct copy *c)
{
    unlink(c->path);
    free(c->bytes);
}

static void make_case(struct gate_case *c, const struct copy *copy, int place)
{
    gate_case_init(c);
    c->model = copy->path;
    c->budget = GATE_BUDGET_FLOOR;
    c->place = (enum bmoe_place)place;
}

static void cut(struct gate_live *live, uint32_t n_rows)
{
    const struct copy *copy = live->user;
    if (n_rows == 5)
        assert_int_equal(truncate(copy->path, (off_t)(copy->n_bytes / 2)), 0);
}

static void a_truncated_file_costs_one_request(void **state)
{
    (void)state;
    struct copy copy;
    struct gate_case c;
    struct gate_live right = {.prompt_bytes = 100, .n_predict = 10};
    copy_make(&copy);
    make_case(&c, &copy, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        make_case(&c, &copy, place);
        struct bmoe_session *s = gate_live_open(&c, true, NULL);
        struct gate_live live = {
            .prompt_bytes = 100, .n_predict = 10, .on_row = cut, .user = &copy};
        gate_live_fail(s, &live, BMOE_E_IO);
        assert_non_null(strstr(live.err.text, copy.path));
        live.on_row = NULL;
        gate_live_fail(s, &live, BMOE_E_IO);
        copy_restore(&copy);
        gate_live_succeed(s, &live);
        gate_live_same(&right, &live);
        gate_live_fini(&live);
        bmoe_session_close(s);
    }
    gate_live_fini(&right);
    copy_drop(&copy);
}

/* Other weights of the same size, in the last half of the file. */
static void overwrite(struct gate_live *live, uint32_t n_rows)
{
    const struct copy *copy = live->user;
    if (n_rows != 5)
        return;
    int fd = open(copy->path, O_WRONLY);
    assert_true(fd >= 0);
    size_t half = copy->n_bytes / 2;
    assert_int_equal(pwrite(fd, copy->bytes + half / 2, half, (off_t)half), half);
    close(fd);
}

static void an_overwritten_file_is_no_answer(void **state)
{
    (void)state;
    struct copy copy;
    copy_make(&copy);
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct gate_case c;
        struct gate_live live = {
            .prompt_bytes = 100, .n_predict = 10, .on_row = overwrite, .user = &copy};
        make_case(&c, &copy, place);
        struct bmoe_session *s = gate_live_open(&c, true, NULL);
        for (int i = 0; i < 2; i++) {
            gate_live_fail(s, &live, BMOE_E_IO);
            assert_non_null(strstr(live.err.text, copy.path));
            assert_non_null(strstr(live.err.text, "was written to while in use"));
            live.on_row = NULL;
        }
        gate_live_fini(&live);
        bmoe_session_close(s);
        copy_restore(&copy);
    }
    copy_drop(&copy);
}

static void replace(struct gate_live *live, uint32_t n_rows)
{
    const struct copy *copy = live->user;
    char other[4200];
    if (n_rows != 5)
        return;
    snprintf(other, sizeof other, "%s.other", copy->path);
    write_bytes(other, "GGUF", 4);
    assert_int_equal(rename(other, copy->path), 0);
}

static void a_replaced_file_is_not_looked_at(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_NONE; place++) {
        struct copy copy;
        struct gate_case c;
        struct gate_live right = {.prompt_bytes = 100, .n_predict = 10};
        struct gate_live live = {
            .prompt_bytes = 100, .n_predict = 10, .on_row = replace, .user = &copy};
        copy_make(&copy);
        make_case(&c, &copy, place);
        gate_live_reference(&c, &right);
        struct bmoe_session *s = gate_live_open(&c, true, NULL);
        for (int i = 0; i < 2; i++) {
            gate_live_succeed(s, &live);
            gate_live_same(&right, &live);
            live.on_row = NULL;
        }
        gate_live_fini(&live);
        gate_live_fini(&right);
        bmoe_session_close(s);
        copy_drop(&copy);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_file_costs_one_request),
        cmocka_unit_test(an_overwritten_file_is_no_answer),
        cmocka_unit_test(a_replaced_file_is_not_looked_at),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
