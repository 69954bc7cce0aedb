/*
 * Giving the weights other memory, in the file's layout.
 */
#include "seam_tests.h"

#include "seam.h"

#include <string.h>
#include <sys/mman.h>

static float stock[SEAM_STEPS * SEAM_VOCAB];
static float seen[SEAM_STEPS * SEAM_VOCAB];

/* The mapping libllama knows faults on any access, so these bits come from our memory. */
static void answer_from_store(size_t pad, ggml_backend_buffer_t buffer)
{
    struct seam_store store;
    struct seam_run run;

    seam_stock_answer(false, stock);
    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    seam_bind(&run, &store, pad);
    for (size_t i = 0; buffer && i < run.n_weights; i++) {
        run.weights[i].tensor->buffer = buffer;
    }
    seam_answer(&run, seen);
    assert_memory_equal(stock, seen, sizeof stock);
    seam_close(&run);
    seam_store_free(&store);
}

void bound_data_is_used(void)
{
    answer_from_store(0, NULL);
}

void padded_experts_are_used(void)
{
    answer_from_store(4096, NULL);
    answer_from_store(16384, NULL);
}

/* One small buffer stands for all of them: the kernels read data, the scheduler reads buffer. */
void bound_buffer_is_used(void)
{
    seam_load_cpu();
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(
        ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), 4096);

    assert_non_null(buffer);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    answer_from_store(4096, buffer);
    ggml_backend_buffer_free(buffer);
}

/* Which experts a token was routed to, per expert matmul in order. */
struct routed {
    int n;
    struct ggml_tensor *experts[64];
    uint64_t set[64];
};

static bool note_routed(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct routed *r = run->setup.user;

    if (node->op != GGML_OP_MUL_MAT_ID || node->ne[2] != 1) {
        return false;
    }
    if (ask) {
        return true;
    }
    assert_true(r->n < 64);
    r->experts[r->n] = seam_root(node->src[0]);
    for (int i = 0; i < node->src[2]->ne[0]; i++) {
        r->set[r->n] |= UINT64_C(1) << ((const int32_t *)node->src[2]->data)[i];
    }
    r->n++;
    return true;
}

void unrouted_experts_are_not_touched(void)
{
    static float again[SEAM_VOCAB];
    struct routed routed = {0};
    struct seam_store store;
    struct seam_run run;
    unsigned hidden = 0;

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    seam_bind(&run, &store, 4096);
    assert_int_equal(seam_prefill(&run), 0);
    run.setup.node = note_routed;
    run.setup.user = &routed;
    assert_int_equal(seam_decode(&run, run.prompt[0]), 0);
    run.setup.node = NULL;
    seam_logits(&run, seen);

    seam_forget(&run);
    assert_int_equal(seam_prefill(&run), 0);
    for (int m = 0; m < routed.n; m++) {
        struct ggml_tensor *t = routed.experts[m];
        for (int e = 0; e < 64; e++) {
            if (!(routed.set[m] >> e & 1)) {
                assert_int_equal(
                    mprotect((char *)t->data + (size_t)e * t->nb[2], t->nb[2], PROT_NONE), 0);
                hidden++;
            }
        }
    }
    assert_int_equal(hidden, 6 * 3 * 60);
    assert_int_equal(seam_decode(&run, run.prompt[0]), 0);
    seam_logits(&run, again);
    assert_memory_equal(seen, again, sizeof again);
    seam_close(&run);
    seam_store_free(&store);
}
