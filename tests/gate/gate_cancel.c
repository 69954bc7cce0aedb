/*
 * How long a cancel takes, in layers: gate_cancel MODEL. A read of the running graph cancels from a
 * reader's thread, while the graph computes or waits for that very read; afterwards at most one
 * more layer may ask for its experts. Counted, not timed, so that a busy machine changes nothing.
 */
#include "gate_live.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

static const char *model;

/* Cancels at the read number `at` after it was armed. */
struct trap {
    struct pager_io io;
    struct bmoe_session *s;
    unsigned wanted; /* becomes `at` when the request is under way */
    atomic_uint n_reads;
    atomic_uint at;             /* 0: not armed */
    _Atomic uint64_t asked_for; /* experts' matrices when it cancelled */
};

static uint64_t asked_for(struct bmoe_session *s)
{
    struct pager_counters c;
    pager_counters_read(session_pager(s), &c);
    return c.hits + c.misses;
}

static int trap_open(void *ctx, const char *path, int flags)
{
    (void)ctx;
    return open(path, flags);
}

static ssize_t trap_read(void *ctx, int fd, void *buf, size_t bytes, off_t offset)
{
    struct trap *t = ctx;
    unsigned at = atomic_load(&t->at);
    if (at && atomic_fetch_add(&t->n_reads, 1) + 1 == at) {
        atomic_store(&t->asked_for, asked_for(t->s));
        bmoe_session_cancel(t->s);
    }
    return pread(fd, buf, bytes, offset);
}

static void arm(struct gate_live *live, uint32_t n)
{
    (void)n;
    struct trap *t = live->user;
    if (atomic_load(&t->at) == 0)
        atomic_store(&t->at, t->wanted);
}

/* Matrices that one layer asks for: of a decoded token exactly, of a ubatch at most. */
static uint64_t matrices_of_layer(struct bmoe_session *s, const struct bmoe_info *info,
                                  bool prefill)
{
    struct gate_live live = {.prompt_bytes = 40, .n_predict = 2};
    uint64_t before;
    gate_live_succeed(s, &live);
    before = asked_for(s);
    live.keep_kv = true; /* one token of prompt, one decoded */
    gate_live_succeed(s, &live);
    uint64_t used = (asked_for(s) - before) / 2 / info->n_layer;
    assert_int_equal(used % info->n_expert_used, 0);
    gate_live_fini(&live);
    return prefill ? used / info->n_expert_used * info->n_expert : used;
}

static void cancel_at(struct trap *t, unsigned read, bool prefill, uint64_t layer)
{
    struct gate_live cut = {.prompt_bytes = prefill ? 300 : 40, .n_predict = 12, .user = t};
    cut.on_prefill = prefill ? arm : NULL;
    cut.on_row = prefill ? NULL : arm;
    t->wanted = read;
    atomic_store(&t->n_reads, 0);
    atomic_store(&t->at, 0);
    gate_live_fail(t->s, &cut, BMOE_E_CANCELLED);
    uint64_t more = asked_for(t->s) - atomic_load(&t->asked_for);
    assert_true(atomic_load(&t->n_reads) >= read);
    if (more > layer)
        fail_msg("%s, read %u: %llu matrices asked for after the cancel, a layer has %llu",
                 prefill ? "prefill" : "decode", read, (unsigned long long)more,
                 (unsigned long long)layer);
    gate_live_fini(&cut);
}

static void a_cancel_waits_for_one_layer_at_most(void **state)
{
    static const enum bmoe_place places[] = {BMOE_PLACE_MOVE, BMOE_PLACE_COPY, BMOE_PLACE_NONE};
    (void)state;
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        struct trap t = {.io = {.open = trap_open, .pread = trap_read, .ctx = &t}};
        struct session_hooks hooks = {.io = &t.io};
        struct bmoe_info info = {.size = sizeof info};
        struct gate_case c;
        gate_case_init(&c);
        c.model = model;
        c.budget = GATE_BUDGET_FLOOR;
        c.n_ubatch = 64;
        c.place = places[p];
        t.s = gate_live_open(&c, true, &hooks);
        bmoe_session_describe(t.s, &info);
        for (int prefill = 0; prefill < 2; prefill++) {
            uint64_t layer = matrices_of_layer(t.s, &info, prefill);
            for (unsigned read = 1; read <= 9; read += 4)
                cancel_at(&t, read, prefill, layer);
        }
        bmoe_session_close(t.s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cancel_waits_for_one_layer_at_most)};
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
