/*
 * What the scheduler's callback shows of a graph, and how a decode ends.
 */
#include "seam_tests.h"

#include "seam.h"

#include <stdlib.h>
#include <string.h>

static float stock[SEAM_STEPS * SEAM_VOCAB];
static float seen[SEAM_STEPS * SEAM_VOCAB];

static void assert_same_bits(void)
{
    assert_memory_equal(stock, seen, sizeof stock);
}

void eval_asks_nothing_at_creation(void)
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){0});
    assert_int_equal(run.n_asked, 0);
    assert_int_equal(seam_prefill(&run), 0);
    assert_true(run.n_asked > 0);
    assert_false(run.other_thread);
    seam_close(&run);
}

/* Gives the sources of the very first node memory that can be read. */
static bool let_first_node_read(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    for (int i = 0; ask && run->n_asked == 1 && i < GGML_MAX_SRC; i++) {
        if (seam_is_weight(node->src[i])) {
            node->src[i]->data = run->file;
        }
    }
    return false;
}

/* Every node is asked for although the compute is stopped at its first step; that step is done, no
 * other weight is touched (they fault), and the tokens are forgotten. */
void abort_asks_all_and_computes_one(void)
{
    struct seam_run run;
    unsigned asked;

    seam_open(&run, &(struct seam_setup){0});
    assert_int_equal(seam_prefill(&run), 0);
    asked = run.n_asked;
    seam_close(&run);

    seam_open(&run, &(struct seam_setup){.untouchable = true, .node = let_first_node_read});
    run.abort_after = 0;
    assert_int_equal(seam_prefill(&run), 2);
    assert_int_equal(run.n_asked, asked);
    assert_int_equal(run.n_shown, 0);
    assert_int_equal(llama_memory_seq_pos_max(llama_get_memory(run.ctx), 0), -1);
    seam_close(&run);
}

void abort_in_the_middle_leaves_no_trace(void)
{
    struct seam_run run;

    seam_stock_answer(false, stock);
    seam_open(&run, &(struct seam_setup){0});
    run.abort_after = 40;
    assert_int_equal(seam_prefill(&run), 2);
    assert_int_equal(llama_memory_seq_pos_max(llama_get_memory(run.ctx), 0), -1);
    run.abort_after = -1;
    assert_int_equal(seam_prefill(&run), 0);
    run.abort_after = 40;
    assert_int_equal(seam_decode(&run, run.prompt[0]), 2);
    assert_int_equal(llama_memory_seq_pos_max(llama_get_memory(run.ctx), 0), run.n_prompt - 1);
    run.abort_after = -1;
    seam_answer(&run, seen);
    assert_same_bits();
    seam_close(&run);
}

void capture_sees_every_tensor(void)
{
    struct seam_run run;
    struct gguf_context *gguf =
        gguf_init_from_file(seam_model_path, (struct gguf_init_params){.no_alloc = true});

    assert_non_null(gguf);
    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    assert_int_equal(run.n_weights, gguf_get_n_tensors(gguf));
    seam_close(&run);
    gguf_free(gguf);
}

/* Sources of any node: a tensor of the file has usage WEIGHTS, every other has another. */
static bool check_usage(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct gguf_context *gguf = run->setup.user;

    for (int i = 0; ask && i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *root = seam_root(node->src[i]);
        if (root) {
            assert_int_equal(seam_is_weight(root), gguf_find_tensor(gguf, root->name) >= 0);
        }
    }
    return false;
}

void weights_are_told_by_usage(void)
{
    struct gguf_context *gguf =
        gguf_init_from_file(seam_model_path, (struct gguf_init_params){.no_alloc = true});
    struct seam_run run;

    assert_non_null(gguf);
    seam_open(&run, &(struct seam_setup){.node = check_usage, .user = gguf});
    assert_int_equal(seam_prefill(&run), 0);
    seam_close(&run);
    gguf_free(gguf);
}

struct isolated {
    const struct ggml_tensor *last;
    unsigned wanted;
};

/* Wants every expert matmul and its ids; each must come back computed before the next ask. */
static bool isolate(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct isolated *state = run->setup.user;

    if (!ask) {
        assert_ptr_equal(node, state->last);
        state->last = NULL;
        return true;
    }
    assert_null(state->last);
    if (node->op == GGML_OP_MUL_MAT_ID || strncmp(node->name, "ffn_moe_topk", 12) == 0) {
        state->last = node;
        state->wanted++;
        return true;
    }
    return false;
}

void eval_isolation_keeps_bits(void)
{
    struct isolated state = {0};
    struct seam_run run;

    seam_stock_answer(false, stock);
    seam_open(&run, &(struct seam_setup){.node = isolate, .user = &state});
    seam_answer(&run, seen);
    assert_true(state.wanted > 0);
    assert_int_equal(run.n_shown, state.wanted);
    assert_same_bits();
    seam_close(&run);
}

static bool stop_at_first(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    (void)run;
    return ask && node->op == GGML_OP_MUL_MAT_ID;
}

void eval_false_is_no_failure(void)
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.node = stop_at_first});
    assert_int_equal(seam_prefill(&run), 0);
    assert_int_equal(run.n_shown, 1);
    seam_close(&run);
}

/* The ids a matmul will use, when they have just been computed. */
static bool check_ids(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    unsigned *checked = run->setup.user;

    if (node->op != GGML_OP_MUL_MAT_ID) {
        return false;
    }
    const struct ggml_tensor *experts = node->src[0];
    const struct ggml_tensor *ids = node->src[2];
    assert_int_equal(experts->ne[2], 64);
    assert_int_equal(ids->type, GGML_TYPE_I32);
    assert_int_equal(ids->ne[0], 4);
    assert_int_equal(ids->nb[0], sizeof(int32_t));
    assert_true(ids->nb[1] >= 4 * sizeof(int32_t));
    if (ask) {
        return true;
    }
    for (int64_t row = 0; row < ids->ne[1]; row++) {
        const int32_t *id = (const int32_t *)((const char *)ids->data + (size_t)row * ids->nb[1]);
        for (int i = 0; i < 4; i++) {
            assert_in_range(id[i], 0, 63);
            for (int j = 0; j < i; j++) {
                assert_int_not_equal(id[i], id[j]);
            }
        }
    }
    (*checked)++;
    return true;
}

void ids_are_rows_of_src2(void)
{
    unsigned checked = 0;
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.node = check_ids, .user = &checked});
    assert_int_equal(seam_prefill(&run), 0);
    assert_int_equal(checked, 6 * 3);
    seam_close(&run);
}

struct widths {
    unsigned graphs;
    int64_t widest;
};

static bool measure(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct widths *w = run->setup.user;

    if (ask && strcmp(node->name, "ffn_moe_topk-0") == 0) {
        w->graphs++;
        w->widest = node->ne[1] > w->widest ? node->ne[1] : w->widest;
    }
    return false;
}

void decode_is_a_graph_per_ubatch(void)
{
    struct widths w = {0};
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.n_ubatch = 16, .node = measure, .user = &w});
    assert_int_equal(seam_prefill(&run), 0);
    assert_int_equal(w.graphs, (run.n_prompt + 15) / 16);
    assert_int_equal(w.widest, 16);
    seam_close(&run);
}
