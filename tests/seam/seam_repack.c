/*
 * ggml's faster CPU layouts, made by us instead of by the load.
 */
#include "seam_tests.h"

#include "seam.h"

#include <stdlib.h>
#include <string.h>

/* A one-page buffer of the type; skips the test where this CPU has none. */
static ggml_backend_buffer_t small_buffer(void)
{
    ggml_backend_buffer_type_t type = seam_repack_type();

    if (!type) {
        skip();
    }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, 4096);
    assert_non_null(buffer);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return buffer;
}

static bool repackable(ggml_backend_buffer_t buffer, const struct seam_weight *w)
{
    struct ggml_tensor probe = *w->tensor;

    probe.buffer = buffer;
    probe.extra = NULL;
    return w->matrix_only &&
           ggml_backend_buffer_init_tensor(buffer, &probe) == GGML_STATUS_SUCCESS && probe.extra;
}

void repack_type_has_a_name(void)
{
    ggml_backend_buffer_free(small_buffer());
}

void repack_sets_extra_and_keeps_size(void)
{
    ggml_backend_buffer_t buffer = small_buffer();
    struct seam_run run;
    unsigned found = 0;

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    for (size_t i = 0; i < run.n_weights; i++) {
        struct seam_weight *w = &run.weights[i];
        if (repackable(buffer, w)) {
            assert_int_equal(ggml_backend_buffer_get_alloc_size(buffer, w->tensor), w->bytes);
            found++;
        }
    }
    if (found == 0) {
        skip();
    }
    seam_close(&run);
    ggml_backend_buffer_free(buffer);
}

/* Repacks n slices of a weight, one at a time, to a stride of our own. */
static void repack(ggml_backend_buffer_t buffer, struct seam_run *run, struct seam_weight *w,
                   uint8_t *to, size_t n, size_t stride)
{
    size_t slice = w->bytes / n;

    for (size_t e = 0; e < n; e++) {
        struct ggml_tensor one = *w->tensor;
        one.ne[2] = w->tensor->ne[2] / (int64_t)n;
        one.nb[2] = w->bytes / (size_t)w->tensor->ne[2];
        one.nb[3] = slice;
        one.buffer = buffer;
        one.extra = NULL;
        one.data = to + e * stride;
        assert_int_equal(ggml_backend_buffer_init_tensor(buffer, &one), GGML_STATUS_SUCCESS);
        assert_non_null(one.extra);
        ggml_backend_tensor_set(&one, run->file + w->offset + e * slice, 0, slice);
    }
}

void repack_by_expert_is_repack_of_all(void)
{
    ggml_backend_buffer_t buffer = small_buffer();
    struct seam_run run;
    unsigned found = 0;

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    for (size_t i = 0; i < run.n_weights; i++) {
        struct seam_weight *w = &run.weights[i];
        if (!w->expert || !repackable(buffer, w)) {
            continue;
        }
        uint8_t *whole = malloc(w->bytes);
        uint8_t *parts = malloc(w->bytes);
        assert_true(whole && parts);
        repack(buffer, &run, w, whole, 1, w->bytes);
        repack(buffer, &run, w, parts, (size_t)w->tensor->ne[2],
               w->bytes / (size_t)w->tensor->ne[2]);
        assert_memory_equal(whole, parts, w->bytes);
        assert_memory_not_equal(whole, run.file + w->offset, w->bytes);
        free(whole);
        free(parts);
        found++;
    }
    if (found == 0) {
        skip();
    }
    seam_close(&run);
    ggml_backend_buffer_free(buffer);
}

/* The head of this model is tied to its embedding: one tensor here, two in a load that repacks. So
 * the bits compared are those that enter the head. */
struct normed {
    uint8_t *bytes; /* owned by the test */
    size_t n;
};

static bool take_norm(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    struct normed *out = run->setup.user;

    if (strcmp(node->name, "result_norm") != 0) {
        return false;
    }
    if (!ask) {
        size_t n = ggml_nbytes(node);
        out->bytes = realloc(out->bytes, out->n + n);
        assert_non_null(out->bytes);
        memcpy(out->bytes + out->n, node->data, n);
        out->n += n;
    }
    return true;
}

static unsigned bind_repacked(struct seam_run *run, ggml_backend_buffer_t buffer)
{
    unsigned bound = 0;

    for (size_t i = 0; i < run->n_weights; i++) {
        struct seam_weight *w = &run->weights[i];
        if (!repackable(buffer, w)) {
            continue;
        }
        size_t n = w->expert ? (size_t)w->tensor->ne[2] : 1;
        repack(buffer, run, w, w->tensor->data, n, w->tensor->nb[2]);
        w->tensor->buffer = buffer;
        assert_int_equal(ggml_backend_buffer_init_tensor(buffer, w->tensor), GGML_STATUS_SUCCESS);
        bound++;
    }
    return bound;
}

void repack_bound_by_us_equals_a_load(void)
{
    static float logits[SEAM_STEPS * SEAM_VOCAB];
    ggml_backend_buffer_t buffer = small_buffer();
    struct normed stock = {0};
    struct normed seen = {0};
    struct normed plain = {0};
    struct seam_store store;
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.extra_bufts = true, .node = take_norm, .user = &stock});
    seam_answer(&run, logits);
    seam_close(&run);

    seam_open(&run, &(struct seam_setup){.node = take_norm, .user = &plain});
    seam_answer(&run, logits);
    seam_close(&run);

    seam_open(&run, &(struct seam_setup){.untouchable = true, .node = take_norm, .user = &seen});
    seam_capture(&run);
    seam_bind(&run, &store, 4096);
    if (bind_repacked(&run, buffer) == 0) {
        skip();
    }
    seam_answer(&run, logits);
    assert_int_equal(stock.n, seen.n);
    assert_memory_equal(stock.bytes, seen.bytes, stock.n);
    assert_memory_not_equal(plain.bytes, seen.bytes, stock.n);
    seam_close(&run);
    seam_store_free(&store);
    free(stock.bytes);
    free(plain.bytes);
    free(seen.bytes);
    ggml_backend_buffer_free(buffer);
}
