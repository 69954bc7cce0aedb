/*
 * The context's own memory and its graphs from one decode to the next.
 */
#include "seam_tests.h"

#include "seam.h"

#include <stdlib.h>
#include <string.h>

static int32_t reused(struct seam_run *run)
{
    return llama_perf_context(run->ctx).n_reused;
}

void graph_is_reused_until_told(void)
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){0});
    assert_int_equal(seam_prefill(&run), 0);
    assert_int_equal(seam_decode(&run, run.prompt[0]), 0);
    int32_t before = reused(&run);
    assert_int_equal(seam_decode(&run, run.prompt[1]), 0);
    assert_int_equal(reused(&run), before + 1);

    assert_int_equal(llama_set_adapter_cvec(run.ctx, NULL, 0, 0, 0, 0), 0);
    assert_int_equal(seam_decode(&run, run.prompt[2]), 0);
    assert_int_equal(reused(&run), before + 1);
    assert_int_equal(seam_decode(&run, run.prompt[3]), 0);
    assert_int_equal(reused(&run), before + 2);
    seam_close(&run);
}

struct caches {
    struct ggml_tensor *k0;
    struct ggml_tensor *v0;
};

static bool find_caches(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct caches *c = run->setup.user;

    for (int i = 0; ask && i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *root = seam_root(node->src[i]);
        if (root && strcmp(root->name, "cache_k_l0") == 0) {
            c->k0 = root;
        } else if (root && strcmp(root->name, "cache_v_l0") == 0) {
            c->v0 = root;
        }
    }
    return false;
}

/* The views that saving a state reads through lie behind their tensors in one ggml context, each
 * behind its 32-byte object head. */
void state_views_lie_behind_their_tensors(void)
{
    const size_t stride = sizeof(struct ggml_tensor) + 32;
    struct caches c = {0};
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.node = find_caches, .user = &c});
    assert_int_equal(seam_prefill(&run), 0);
    assert_non_null(c.k0);
    assert_non_null(c.v0);
    assert_ptr_equal((char *)c.k0 + stride, c.v0);
    const struct ggml_tensor *k = (const struct ggml_tensor *)((char *)c.v0 + stride);
    const struct ggml_tensor *v = (const struct ggml_tensor *)((char *)c.v0 + 2 * stride);
    assert_string_equal(k->name, "cache_k_l0 (view)");
    assert_string_equal(v->name, "cache_v_l0 (view)");
    assert_ptr_equal(k->view_src, c.k0);
    assert_ptr_equal(v->view_src, c.v0);
    assert_ptr_equal(k->data, (char *)c.k0->data + k->view_offs);
    seam_close(&run);
}

void state_saves_and_restores_bits(void)
{
    static float first[SEAM_VOCAB];
    static float again[SEAM_VOCAB];
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){0});
    assert_int_equal(seam_prefill(&run), 0);
    size_t bytes = llama_state_seq_get_size(run.ctx, 0);
    uint8_t *state = malloc(bytes);
    assert_non_null(state);
    assert_int_equal(llama_state_seq_get_data(run.ctx, state, bytes, 0), bytes);
    assert_int_equal(seam_decode(&run, run.prompt[0]), 0);
    seam_logits(&run, first);

    seam_forget(&run);
    assert_int_equal(llama_state_seq_set_data(run.ctx, state, bytes, 0), bytes);
    assert_int_equal(seam_decode(&run, run.prompt[0]), 0);
    seam_logits(&run, again);
    assert_memory_equal(first, again, sizeof first);
    free(state);
    seam_close(&run);
}
