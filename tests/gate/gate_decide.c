/*
 * Decisions and kept states: gate_decide MODEL. A prefix's state that was kept, that has grown, or
 * that was computed anew gives the same scores, streamed or resident; what cannot be decided is
 * refused before anything is computed; and a conversation that only grows is not computed again,
 * also where the memory cannot be cut.
 */
#include "gate_live.h"
#include "gate_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *model;

enum { N_CHOICES = 4, UBATCH = 64 };
static const char *const choices[N_CHOICES] = {"a", "e", "t", "."};

struct decision {
    double logp[N_CHOICES];
    struct bmoe_decide_result r;
    struct bmoe_error err;
};

static struct bmoe_session *open_session(bool streamed, bool decide, enum bmoe_tristate cache)
{
    struct gate_case c;
    struct bmoe_options o;
    struct bmoe_session *s = NULL;
    struct bmoe_error err = {0};
    gate_case_init(&c);
    c.model = model;
    c.repack = true;
    c.n_ubatch = UBATCH;
    c.budget = GATE_BUDGET_ALL;
    gate_case_options(&c, streamed, &o);
    o.decide = decide;
    o.prefix_cache = cache;
    if (bmoe_session_open(&s, &o, &err) < 0)
        fail_msg("open: %s", err.text);
    return s;
}

static int run(struct bmoe_session *s, size_t prefix, size_t suffix, bool reuse,
               struct decision *out)
{
    struct bmoe_decide d;
    const char *text = gate_text(prefix + suffix);
    bmoe_decide_init(&d);
    d.prefix = text;
    d.prefix_bytes = prefix;
    d.suffix = text + prefix;
    d.suffix_bytes = suffix;
    d.choices = choices;
    d.n_choices = N_CHOICES;
    d.reuse_prefix = reuse;
    *out = (struct decision){.r = {.size = sizeof out->r}};
    int rc = bmoe_session_decide(s, &d, &out->r, &out->err);
    if (rc == BMOE_OK)
        memcpy(out->logp, out->r.choice_logp, sizeof out->logp);
    return rc;
}

static void decide(struct bmoe_session *s, size_t prefix, size_t suffix, bool reuse,
                   struct decision *out)
{
    if (run(s, prefix, suffix, reuse, out) < 0)
        fail_msg("a decision that must succeed: %s", out->err.text);
    assert_int_equal(out->r.n_choices, N_CHOICES);
    assert_int_equal(out->r.n_tokens, out->r.n_reused + out->r.n_prefilled);
    for (int i = 0; i < N_CHOICES; i++) {
        assert_true(isfinite(out->logp[i]) && out->logp[i] < 0);
        assert_true(out->logp[out->r.best] >= out->logp[i]);
    }
}

static void same(const struct decision *a, const struct decision *b)
{
    for (int i = 0; i < N_CHOICES; i++)
        if (memcmp(&a->logp[i], &b->logp[i], sizeof a->logp[i]) != 0)
            fail_msg("choice %d: %a and %a", i, a->logp[i], b->logp[i]);
    assert_int_equal(a->r.best, b->r.best);
}

static void a_kept_prefix_is_as_a_fresh_one(void **state)
{
    (void)state;
    struct bmoe_session *resident = open_session(false, true, BMOE_AUTO);
    struct bmoe_session *streamed = open_session(true, true, BMOE_ON);
    struct decision fresh, other, first, kept, grown, short_one;
    for (int i = 0; i < 2; i++) {
        struct bmoe_session *s = i ? streamed : resident;
        decide(s, 300, 40, false, &fresh);
        assert_int_equal(fresh.r.n_reused, 0);
        decide(s, 300, 40, true, &first);
        assert_int_equal(first.r.n_reused, 0);
        assert_true(first.r.prefix_state_bytes > 0);
        decide(s, 300, 41, true, &other); /* another suffix in between */
        assert_true(other.r.n_reused > 0);
        decide(s, 300, 40, true, &kept);
        assert_int_equal(kept.r.n_reused, other.r.n_reused);
        same(&fresh, &first);
        same(&fresh, &kept);
        assert_true(memcmp(&kept.logp, &other.logp, sizeof kept.logp) != 0);
        decide(s, 600, 40, false, &fresh);
        decide(s, 600, 40, true, &grown);
        same(&fresh, &grown);
        decide(s, 200, 0, false, &fresh);
        decide(s, 200, 0, true, &short_one);
        same(&fresh, &short_one);
    }
    decide(resident, 300, 40, true, &first);
    decide(streamed, 300, 40, true, &kept);
    same(&first, &kept);
    bmoe_session_close(resident);
    bmoe_session_close(streamed);
}

static void without_the_cache_nothing_is_kept(void **state)
{
    (void)state;
    struct bmoe_session *s = open_session(false, true, BMOE_OFF);
    struct bmoe_session *cached = open_session(false, true, BMOE_AUTO);
    struct decision off, again, on;
    struct bmoe_stats stats = {.size = sizeof stats};
    decide(s, 300, 40, true, &off);
    decide(s, 300, 40, true, &again);
    decide(cached, 300, 40, true, &on);
    assert_int_equal(again.r.n_reused, 0);
    assert_int_equal(again.r.prefix_state_bytes, 0);
    same(&off, &again);
    same(&off, &on);
    bmoe_session_stats(s, &stats);
    assert_int_equal(stats.state_bytes, 0);
    bmoe_session_close(s);
    bmoe_session_close(cached);
}

static void an_answer_after_a_decision_is_as_before(void **state)
{
    (void)state;
    struct bmoe_session *s = open_session(true, true, BMOE_ON);
    struct gate_live before = {.prompt_bytes = 150, .n_predict = 8}, after = before;
    struct decision d, again;
    gate_live_succeed(s, &before);
    decide(s, 300, 40, true, &d);
    gate_live_succeed(s, &after);
    gate_live_same(&before, &after);
    decide(s, 300, 40, true, &again);
    assert_true(again.r.n_reused > 0);
    same(&d, &again);
    decide(s, 300, 40, true, &again);
    after.keep_kv = true; /* a cut into what came back */
    gate_live_succeed(s, &after);
    if (after.result.n_reused == 0)
        gate_live_same(&before, &after);
    gate_live_fini(&before);
    gate_live_fini(&after);
    bmoe_session_close(s);
}

static void refused(struct bmoe_session *s, const struct bmoe_decide *d, int code)
{
    struct bmoe_decide_result r = {.size = sizeof r};
    struct bmoe_error err = {0};
    struct bmoe_stats before = {.size = sizeof before}, after = before;
    bmoe_session_stats(s, &before);
    assert_int_equal(bmoe_session_decide(s, d, &r, &err), code);
    assert_int_equal(err.scope, BMOE_SCOPE_REQUEST);
    assert_int_equal(r.n_choices, 0);
    bmoe_session_stats(s, &after);
    assert_int_equal(before.prefill_tokens, after.prefill_tokens);
}

static void what_cannot_be_decided_is_refused_before_any_work(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "b", "a"}, *const empty[] = {"a", ""};
    struct bmoe_session *s = open_session(false, true, BMOE_AUTO);
    struct bmoe_decide d;
    bmoe_decide_init(&d);
    d.prefix = gate_text(60000);
    d.prefix_bytes = 100;
    refused(s, &d, BMOE_E_MISUSE);
    d.choices = twice;
    d.n_choices = 3;
    refused(s, &d, BMOE_E_MISUSE);
    d.choices = empty;
    d.n_choices = 2;
    refused(s, &d, BMOE_E_MISUSE);
    d.choices = choices;
    d.n_choices = N_CHOICES;
    d.prefix_bytes = 60000;
    refused(s, &d, BMOE_E_CONTEXT);
    bmoe_session_close(s);
}

/* The second prompt goes on where the first ended, but the answer in between was another text: the
 * memory must go back to the end of the first prompt. The same without an answer in between is the
 * measure: there nothing has to be given up. */
static void a_growing_conversation_is_not_computed_again(void **state)
{
    (void)state;
    struct bmoe_session *s = open_session(false, false, BMOE_AUTO);
    struct gate_live first = {.prompt_bytes = 150, .n_predict = 1},
                     right = {.prompt_bytes = 190, .n_predict = 8, .keep_kv = true},
                     answered = {.prompt_bytes = 150, .n_predict = 12}, back = right;
    gate_live_succeed(s, &first);
    gate_live_succeed(s, &right);
    assert_int_equal(right.result.n_reused, first.result.n_prompt);
    gate_live_succeed(s, &answered);
    gate_live_succeed(s, &back);
    assert_int_equal(back.result.n_reused, first.result.n_prompt);
    gate_live_same(&right, &back);
    gate_live_fini(&first);
    gate_live_fini(&right);
    gate_live_fini(&answered);
    gate_live_fini(&back);
    bmoe_session_close(s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_prefix_is_as_a_fresh_one),
        cmocka_unit_test(without_the_cache_nothing_is_kept),
        cmocka_unit_test(an_answer_after_a_decision_is_as_before),
        cmocka_unit_test(what_cannot_be_decided_is_refused_before_any_work),
        cmocka_unit_test(a_growing_conversation_is_not_computed_again),
    };
    if (argc != 2)
        return 2;
    model = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
