/*
 * ggml asserts what it assumes of a model's numbers. Most files that break an assumption are
 * refused when they are opened; for the others ggml offers a callback. It is found by name, since
 * the program otherwise knows nothing below bmoe.h. It runs on whatever thread met the assertion,
 * so it only writes and ends.
 */
#include "last_words.h"

#include "cli_error.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void abort_fn(const char *message);
typedef abort_fn *set_abort_fn(abort_fn *callback);

/* The mutable global: the process ends once, whichever threads meet an assertion. */
static atomic_flag ending = ATOMIC_FLAG_INIT;

static void say_and_end(const char *message)
{
    char line[700];

    while (atomic_flag_test_and_set(&ending))
        pause();
    snprintf(line, sizeof(line),
             "bmoe: libllama cannot go on: the model's file is damaged or of a kind that it does "
             "not know, or memory has run out (%.400s",
             message);
    size_t n = strcspn(line, "\n");
    n += (size_t)snprintf(line + n, sizeof(line) - n, ")\n");
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
    _exit(cli_error_exit_status(BMOE_E_MODEL));
}

void last_words_settle(void)
{
    set_abort_fn *set = NULL;

    *(void **)&set = dlsym(RTLD_DEFAULT, "ggml_set_abort_callback");
    if (set != NULL)
        set(say_and_end);
}
