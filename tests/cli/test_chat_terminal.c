/*
 * The conversation, on a terminal of our own (a pty): what is typed, what is
 * shown, what Ctrl-C and Ctrl-D do. Usage: test_chat_terminal BMOE-FAKE.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SHOWN_MAX = 65536, PATIENCE_MS = 10000 };

static const char *program;

struct talk {
    int fd; /* the terminal's other end */
    pid_t pid;
    char shown[SHOWN_MAX];
    size_t n_shown;
    size_t n_seen; /* how far expect has come */
};

/* Starts the program with its three descriptors on a new terminal that is its
 * controlling one. */
static void start(struct talk *t, const char *model)
{
    const char *name;

    memset(t, 0, sizeof(*t));
    t->fd = posix_openpt(O_RDWR | O_NOCTTY);
    if (t->fd < 0) {
        print_message("no terminal can be made here (is /dev/pts mounted?)\n");
        exit(77);
    }
    assert_int_equal(grantpt(t->fd) | unlockpt(t->fd), 0);
    name = ptsname(t->fd);
    assert_non_null(name);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        int fd;

        setsid();
        fd = open(name, O_RDWR);
        ioctl(fd, TIOCSCTTY, 0);
        dup2(fd, 0);
        dup2(fd, 1);
        dup2(fd, 2);
        close(fd);
        close(t->fd);
        setenv("TERM", "xterm", 1);
        setenv("NO_COLOR", "1", 1);
        execl(program, "bmoe", "-m", model, (char *)NULL);
        _exit(99);
    }
}

/* Waits until text is shown after what the last call found. */
static void expect(struct talk *t, const char *text)
{
    for (;;) {
        struct pollfd p = {t->fd, POLLIN, 0};
        char *at = strstr(t->shown + t->n_seen, text);
        ssize_t n;

        if (at != NULL) {
            t->n_seen = (size_t)(at - t->shown) + strlen(text);
            return;
        }
        if (poll(&p, 1, PATIENCE_MS) <= 0)
            fail_msg("'%s' was not shown; shown was: %s", text, t->shown);
        n = read(t->fd, t->shown + t->n_shown, SHOWN_MAX - 1 - t->n_shown);
        if (n <= 0)
            fail_msg("the program ended before '%s'; shown was: %s", text, t->shown);
        t->n_shown += (size_t)n;
        t->shown[t->n_shown] = '\0';
    }
}

static void type(struct talk *t, const char *text)
{
    assert_int_equal(write(t->fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Reads what is left and answers the exit status. */
static int finish(struct talk *t)
{
    char rest[256];
    int status;

    while (read(t->fd, rest, sizeof(rest)) > 0)
        continue;
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    close(t->fd);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_history_and_commands(void **state)
{
    struct talk t;

    (void)state;
    start(&t, "fake:echo;options;answer=<think>hm</"
              "think>Hello!;template=<|im_start|><think>");
    expect(&t, "chat format chatml; /help lists the commands");
    expect(&t, "> ");
    type(&t, "Hi\n");
    expect(&t, "prompt [<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n]");
    expect(&t, "n 0 ");
    expect(&t, "keep 1 special 1");
    expect(&t, "hm");
    expect(&t, "Hello!");
    expect(&t, "bmoe: prompt 10 tokens");
    type(&t, "two \\\nlines\n");
    expect(&t, "assistant\\nHello!<|im_end|>\\n<|im_start|>user\\ntwo "
               "\\nlines<|im_end|>");
    expect(&t, "prompt 6 tokens at 12.00 tok/s, 4 reused");
    type(&t, "/help\n");
    expect(&t, "/clear forgets the conversation");
    type(&t, "/nothing\n");
    expect(&t, "no such command");
    type(&t, "/clear\n");
    expect(&t, "cleared");
    expect(&t, "the conversation begins anew");
    type(&t, "Bye\n");
    expect(&t, "prompt [<|im_start|>user\\nBye<|im_end|>\\n<|im_start|>assistant\\n]");
    expect(&t, "bmoe: prompt");
    expect(&t, "> ");
    type(&t, "\004");
    assert_int_equal(finish(&t), 0);
}

static void test_interrupted_answer(void **state)
{
    struct talk t;

    (void)state;
    start(&t, "fake:echo;slow;piece=1;answer="
              "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz;"
              "template=<|im_start|>");
    expect(&t, "> ");
    type(&t, "Hi\n");
    expect(&t, "abc");
    type(&t, "\003");
    expect(&t, "bmoe: stopped; ");
    expect(&t, "> ");
    type(&t, "More\n");
    /* What was said of the stopped answer is part of the conversation. */
    expect(&t, "<|im_start|>assistant\\nabc");
    expect(&t, "<|im_end|>\\n<|im_start|>user\\nMore");
    expect(&t, "abc");
    type(&t, "\003");
    expect(&t, "bmoe: stopped; ");
    expect(&t, "> ");
    type(&t, "\003");
    assert_int_equal(finish(&t), 130);
}

static void test_interrupt_twice_at_prompt(void **state)
{
    struct talk t;

    (void)state;
    start(&t, "fake:template=<start_of_turn>");
    expect(&t, "> ");
    type(&t, "half a line\003");
    expect(&t, "Ctrl-C again, or Ctrl-D, ends");
    expect(&t, "> ");
    type(&t, "\n");
    expect(&t, "> ");
    type(&t, "\003");
    expect(&t, "Ctrl-C again");
    type(&t, "\003");
    assert_int_equal(finish(&t), 130);
}

static void test_prefill_is_stopped(void **state)
{
    struct talk t;

    (void)state;
    start(&t, "fake:hang;template=<start_of_turn>");
    expect(&t, "loading: ");
    expect(&t, "> ");
    type(&t, "Hi\n");
    expect(&t, "reading the prompt: 1 of 2 tokens");
    type(&t, "\003");
    expect(&t, "bmoe: stopped; ");
    expect(&t, "> ");
    kill(t.pid, SIGTERM);
    assert_int_equal(finish(&t), 143);
}

/* A request that failed costs one turn. */
static void test_failed_turn(void **state)
{
    struct talk t;

    (void)state;
    start(&t, "fake:request=5;template=<start_of_turn>");
    expect(&t, "> ");
    type(&t, "Hi\n");
    expect(&t, "the fake request fails (/clear begins a new conversation)");
    expect(&t, "> ");
    type(&t, "\004");
    assert_int_equal(finish(&t), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_and_commands),
        cmocka_unit_test(test_interrupted_answer),
        cmocka_unit_test(test_interrupt_twice_at_prompt),
        cmocka_unit_test(test_prefill_is_stopped),
        cmocka_unit_test(test_failed_turn),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: test_chat_terminal BMOE-FAKE\n");
        return 1;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
