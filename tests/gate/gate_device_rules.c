/*
 * What holds of a session with a prefill device beside its answers: gate_device_rules MODEL. When
 * the device is opened and how often, what is never given to it, what a graph that comes back to a
 * layer costs, whose threads fill it, and what memory its graphs take.
 */
#include "gate_fake.h"
#include "gate_live.h"

#include "engine/session.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *model;
static ggml_backend_dev_t device;

static struct {
    bool begun;
    unsigned opened; /* devices, when it did */
} load;

static void on_progress(void *user, float part)
{
    (void)user;
    (void)part;
    if (!load.begun)
        load.opened = fake_counts.opened;
    load.begun = true;
}

static struct bmoe_session *open_case(const struct gate_case *c, const struct session_hooks *hooks)
{
    struct bmoe_options o;
    struct bmoe_error err;
    struct bmoe_session *s = NULL;
    gate_case_options(c, true, &o);
    o.cache_bytes = 24 << 20;
    o.log = gate_fake_log;
    o.progress = on_progress;
    gate_fake_hush();
    load.begun = false;
    if (session_open_hooked(&s, &o, hooks, &err) < 0)
        fail_msg("open: %s", err.text);
    return s;
}

static struct bmoe_session *open_there(struct session_hooks hooks)
{
    struct gate_case c;
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = GATE_FAKE_UBATCH;
    hooks.device = device;
    return open_case(&c, &hooks);
}

/* Scratch buffers that graphs were seen to use. */
struct scratch {
    ggml_backend_buffer_t seen[16];
    unsigned n;
    double mib[2]; /* the host's, the device's */
};

static void note(struct scratch *sc, const struct ggml_tensor *t)
{
    ggml_backend_buffer_t b = t->view_src ? t->view_src->buffer : t->buffer;
    if (!b || ggml_backend_buffer_get_usage(b) != GGML_BACKEND_BUFFER_USAGE_COMPUTE)
        return;
    for (unsigned i = 0; i < sc->n; i++)
        if (sc->seen[i] == b)
            return;
    bool there = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(b)) == device;
    sc->seen[sc->n++] = b;
    sc->mib[there] += (double)ggml_backend_buffer_get_size(b) / (1 << 20);
}

static bool note_node(void *user, enum session_moment m, const struct ggml_tensor *node)
{
    struct scratch *sc = user;
    if (m == MOMENT_GRAPH_BEGINS)
        *sc = (struct scratch){0};
    if (m == MOMENT_NODE_ASKED) {
        note(sc, node);
        for (int i = 0; i < GGML_MAX_SRC; i++)
            if (node->src[i])
                note(sc, node->src[i]);
    }
    return false;
}

/* Made anew with the layers there, most of it is the device's; all that it takes was planned. */
static void scratch_is_the_devices(void **state)
{
    (void)state;
    struct gate_case c;
    struct scratch sc = {0};
    struct prefill_counters count;
    struct session_hooks hooks = {.device = device, .on_moment = note_node, .moment_user = &sc};
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = 256;
    struct bmoe_session *s = open_case(&c, &hooks);
    double before = (double)s->buffers.compute / (1 << 20);
    struct gate_live live = {.prompt_bytes = 600, .n_predict = 1};
    gate_live_succeed(s, &live);
    gate_live_fini(&live);
    prefill_counters(session_prefill(s), &count);
    uint64_t takes = fake_device_own_bytes() + count.host_bytes;
    printf("  scratch of the CPU's graph %.1f MiB; with layers there %.1f here and %.1f there; "
           "device and buffers take %.1f of %.1f planned\n",
           before, sc.mib[0], sc.mib[1], (double)takes / (1 << 20),
           (double)s->plan.device / (1 << 20));
    assert_true(sc.mib[0] < before && sc.mib[1] > 0 && sc.mib[1] <= before * 9 / 8);
    assert_true(takes <= s->plan.device);
    bmoe_session_close(s);
}

/* One stream of ours, made before the load, and one that libllama makes for its context;
 * requests make no more. */
static void opened_once(void **state)
{
    (void)state;
    unsigned before = fake_counts.opened, closed = fake_counts.closed;
    struct bmoe_session *s = open_there((struct session_hooks){0});
    assert_int_equal(load.opened, before + 1);
    assert_int_equal(fake_counts.opened, before + 2);
    gate_fake_answers_right(s);
    gate_fake_answers_right(s);
    assert_int_equal(fake_counts.opened, before + 2);
    assert_int_equal(fake_counts.closed, closed);
    bmoe_session_close(s);
    assert_int_equal(fake_counts.closed, closed + 2);
}

/* A graph that comes back to a layer whose slot is taken. */
struct rewind {
    struct bmoe_session *s;
    struct ggml_tensor *first; /* node of layer 0 */
    bool armed, done;
};

static const char *weight_name(const struct ggml_tensor *node)
{
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i] && strncmp(node->src[i]->name, "blk.", 4) == 0)
            return node->src[i]->name;
    return "";
}

static bool come_back(void *user, enum session_moment m, const struct ggml_tensor *node)
{
    struct rewind *r = user;
    if (m == MOMENT_GRAPH_BEGINS)
        r->first = NULL;
    if (m != MOMENT_NODE_ASKED || !r->armed || r->done)
        return false;
    if (!r->first && strncmp(weight_name(node), "blk.0.", 6) == 0)
        r->first = (struct ggml_tensor *)(uintptr_t)node;
    if (strncmp(weight_name(node), "blk.2.", 6) == 0) {
        r->done = true;
        prefill_node(session_prefill(r->s), r->first, true);
    }
    return false;
}

static void a_graph_that_comes_back(void **state)
{
    (void)state;
    struct rewind r = {0};
    struct bmoe_session *s =
        open_there((struct session_hooks){.on_moment = come_back, .moment_user = &r});
    r.s = s;
    gate_fake_answers_right(s);
    assert_int_equal(gate_fake_said.n_warnings, 0);
    r.armed = true;
    gate_fake_answers_right(s);
    assert_true(r.done);
    assert_int_equal(gate_fake_said.n_warnings, 1);
    assert_non_null(strstr(gate_fake_said.last, "the graph reads layer 0 at"));
    assert_non_null(strstr(gate_fake_said.last, "again on the CPU"));
    int64_t tokens = gate_live_stats(s).dev_tokens;
    gate_fake_answers_right(s);
    assert_int_equal(gate_live_stats(s).dev_tokens, tokens);
    assert_int_equal(gate_fake_said.n_warnings, 1);
    bmoe_session_close(s);
}

/* Room for the layers, not for what a graph needs beside them. */
static void room_for_layers_only(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there((struct session_hooks){0});
    struct prefill_counters c;
    prefill_counters(session_prefill(s), &c);
    bmoe_session_close(s);
    assert_int_equal(fake_device_own_bytes(), 0);
    for (int mute = 0; mute < 2; mute++) {
        fake_faults.memory_bytes = c.device_bytes + (64 << 10);
        fake_faults.mute = mute;
        s = open_there((struct session_hooks){0});
        gate_fake_answers_right(s);
        assert_int_equal(gate_fake_said.n_warnings, 1);
        assert_non_null(strstr(gate_fake_said.last, "for the scratch space of a graph"));
        assert_int_equal(gate_live_stats(s).dev_tokens, 0);
        bmoe_session_close(s);
    }
}

/* Somebody takes it before a context of more rows is made. */
static void no_room_any_more(void **state)
{
    (void)state;
    double ppl[2];
    for (int taken = 0; taken < 2; taken++) {
        struct bmoe_session *s = open_there((struct session_hooks){0});
        struct prefill_counters c;
        prefill_counters(session_prefill(s), &c);
        gate_fake_answers_right(s);
        if (taken)
            fake_faults.memory_bytes = c.device_bytes + (64 << 10);
        ppl[taken] = gate_live_perplexity(s, 250, 0, 0);
        assert_int_equal(gate_fake_said.n_warnings, taken);
        gate_fake_answers_right(s);
        assert_int_equal(gate_fake_said.n_warnings, taken);
        fake_device_heal();
        bmoe_session_close(s);
    }
    assert_memory_equal(&ppl[0], &ppl[1], sizeof ppl[0]);
}

/* A device that the process knows is nobody's without the option. */
static void without_the_option_it_is_not_opened(void **state)
{
    (void)state;
    struct gate_case c;
    struct fake_counts before = fake_counts;
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = GATE_FAKE_UBATCH;
    ggml_backend_device_register(device);
    struct bmoe_session *s = open_case(&c, NULL);
    gate_fake_answers_right(s);
    gate_live_perplexity(s, 250, 0, 0);
    bmoe_session_close(s);
    assert_int_equal(fake_counts.opened, before.opened);
    assert_int_equal(fake_counts.graphs, before.graphs);
    assert_int_equal(fake_device_own_bytes(), 0);
}

/* Narrow graphs are all the CPU's. */
static void narrow_graphs_are_not_its_own(void **state)
{
    (void)state;
    struct bmoe_session *s = open_there((struct session_hooks){0});
    unsigned graphs = fake_counts.graphs;
    struct gate_live live = {.prompt_bytes = 20, .n_predict = 8};
    gate_live_succeed(s, &live);
    assert_true(live.result.n_prompt < 32);
    assert_int_equal(fake_counts.graphs, graphs);
    gate_live_fini(&live);
    gate_fake_answers_right(s);
    assert_true(fake_counts.graphs > graphs);
    bmoe_session_close(s);
}

/* In any graph, weights of no layer are the host's, and so is what is computed from them. */
struct outside {
    unsigned n_met, n_there;
};

static bool is_there(const struct ggml_tensor *t)
{
    ggml_backend_buffer_t b = t->view_src ? t->view_src->buffer : t->buffer;
    return b && ggml_backend_buft_get_device(ggml_backend_buffer_get_type(b)) == device;
}

static bool look_outside(void *user, enum session_moment m, const struct ggml_tensor *node)
{
    struct outside *o = user;
    for (int i = 0; m == MOMENT_NODE_ASKED && i < GGML_MAX_SRC; i++) {
        const char *name = node->src[i] ? node->src[i]->name : "";
        if (strcmp(name, "output.weight") != 0 && strcmp(name, "token_embd.weight") != 0)
            continue;
        o->n_met++;
        o->n_there += is_there(node->src[i]) || is_there(node);
    }
    return false;
}

static void head_and_embedding_stay(void **state)
{
    (void)state;
    struct outside o = {0};
    struct bmoe_session *s =
        open_there((struct session_hooks){.on_moment = look_outside, .moment_user = &o});
    gate_fake_answers_right(s);
    assert_true(gate_live_stats(s).dev_nodes > 0);
    assert_true(o.n_met > 0);
    assert_int_equal(o.n_there, 0);
    bmoe_session_close(s);
}

static int n_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Loaders are threads beside the pager's readers: as many as asked for, whatever those are. */
static void loaders_are_not_readers(void **state)
{
    (void)state;
    int n[2][2];
    for (int many = 0; many < 2; many++) {
        for (int loaders = 0; loaders < 2; loaders++) {
            struct gate_case c;
            struct session_hooks hooks = {.device = device};
            gate_case_init(&c);
            c.model = model;
            c.n_ubatch = GATE_FAKE_UBATCH;
            c.n_readers = many ? 6 : 2;
            c.n_loaders = loaders ? 4 : 1;
            struct bmoe_session *s = open_case(&c, &hooks);
            gate_fake_answers_right(s);
            n[many][loaders] = n_threads();
            bmoe_session_close(s);
        }
    }
    assert_int_equal(n[0][1] - n[0][0], 3);
    assert_int_equal(n[1][1] - n[1][0], 3);
    assert_int_equal(n[1][0] - n[0][0], 4);
}

#define TEST(name) cmocka_unit_test_setup(name, gate_fake_heal)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(opened_once),
        TEST(a_graph_that_comes_back),
        TEST(room_for_layers_only),
        TEST(no_room_any_more),
        TEST(scratch_is_the_devices),
        TEST(narrow_graphs_are_not_its_own),
        TEST(head_and_embedding_stay),
        TEST(loaders_are_not_readers),
        TEST(without_the_option_it_is_not_opened), /* last: it stays registered */
    };
    device = gate_fake_open(argc, argv, &model);
    return device ? cmocka_run_group_tests(tests, gate_fake_learn, gate_fake_forget) : 2;
}
