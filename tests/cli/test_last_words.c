/*
 * A ggml that gives up ends the program with one sentence and status 1, however many threads meet
 * the assertion.
 */
#include "last_words.h"

#include <ggml.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_THREADS = 4 };

static pthread_barrier_t together;

static void *give_up(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&together);
    GGML_ASSERT(1 > 2);
    return NULL;
}

static void be_program(int to)
{
    pthread_t thread[N_THREADS];
    dup2(to, STDERR_FILENO);
    last_words_settle();
    pthread_barrier_init(&together, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&thread[i], NULL, give_up, NULL);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    _exit(0);
}

static void one_sentence_is_said(void **state)
{
    int words[2], status;
    char text[2048];
    size_t n = 0;
    ssize_t got;
    (void)state;
    assert_int_equal(pipe(words), 0);
    pid_t pid = fork();
    if (pid == 0)
        be_program(words[1]);
    close(words[1]);
    while ((got = read(words[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(words[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_memory_equal(text, "bmoe: libllama cannot go on", 27);
    assert_non_null(strstr(text, "GGML_ASSERT(1 > 2) failed)\n"));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_sentence_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
