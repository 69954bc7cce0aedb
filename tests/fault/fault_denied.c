/*
 * A container whose system call filter denies userfaultfd, as Docker's default does: fault_denied
 * MODEL. The filter is laid on this process itself. A session that leaves the choice to us waits
 * for its reads instead and gives the same rows; one that asks for userfaultfd by name is refused.
 */
#include "gate_live.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;

static int deny_userfaultfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
               ? 0
               : -1;
}

static void make_case(struct gate_case *c, enum bmoe_place place)
{
    gate_case_init(c);
    c->model = model;
    c->repack = true;
    c->budget = GATE_BUDGET_FLOOR;
    c->place = place;
}

static void the_graph_waits_instead(void **state)
{
    (void)state;
    struct gate_case c;
    struct gate_live right = {.prompt_bytes = 100, .n_predict = 10}, live = right;
    struct bmoe_info info = {.size = sizeof info};
    struct bmoe_stats stats = {.size = sizeof stats};
    make_case(&c, BMOE_PLACE_AUTO);
    gate_live_reference(&c, &right);
    struct bmoe_session *s = gate_live_open(&c, true, NULL);
    bmoe_session_describe(s, &info);
    assert_int_equal(info.place, BMOE_PLACE_NONE);
    gate_live_succeed(s, &live);
    gate_live_same(&right, &live);
    bmoe_session_stats(s, &stats);
    assert_true(stats.hook_wait_us > 0 && stats.faults == 0);
    bmoe_session_close(s);
    gate_live_fini(&live);
    gate_live_fini(&right);
}

static void asked_for_by_name_it_is_refused(void **state)
{
    (void)state;
    for (int place = BMOE_PLACE_MOVE; place <= BMOE_PLACE_COPY; place++) {
        struct gate_case c;
        struct bmoe_options o;
        struct bmoe_session *s = NULL;
        struct bmoe_error err = {0};
        make_case(&c, (enum bmoe_place)place);
        gate_case_options(&c, true, &o);
        assert_int_equal(bmoe_session_open(&s, &o, &err), BMOE_E_MISUSE);
        assert_true(err.text[0] != '\0');
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graph_waits_instead),
        cmocka_unit_test(asked_for_by_name_it_is_refused),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    if (deny_userfaultfd() < 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
