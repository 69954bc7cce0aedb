/*
 * Finding the model's weights in the graph and giving them other memory: what the engine does at
 * open, in its simplest form.
 */
#include "seam.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ggml_tensor *seam_root(struct ggml_tensor *t)
{
    while (t && t->view_src) {
        t = t->view_src;
    }
    return t;
}

bool seam_is_weight(const struct ggml_tensor *t)
{
    return t && t->buffer &&
           ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/* A weight not met before is looked up in the file's own index and pointed at our copy of it: the
 * first node of a graph is computed before the abort callback is asked. */
static struct seam_weight *weight_of(struct seam_run *run, struct ggml_tensor *t)
{
    const struct gguf_context *gguf = run->setup.user;

    for (size_t i = 0; i < run->n_weights; i++) {
        if (run->weights[i].tensor == t) {
            return &run->weights[i];
        }
    }
    run->weights = realloc(run->weights, (run->n_weights + 1) * sizeof *run->weights);
    assert_non_null(run->weights);
    int64_t id = gguf_find_tensor(gguf, t->name);
    assert_true(id >= 0);
    assert_int_equal(gguf_get_tensor_size(gguf, id), ggml_nbytes(t));
    struct seam_weight *w = &run->weights[run->n_weights++];
    *w = (struct seam_weight){.tensor = t,
                              .bytes = ggml_nbytes(t),
                              .offset =
                                  gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, id),
                              .mapped = t->data,
                              .matrix_only = true};
    t->data = run->file + w->offset;
    return w;
}

static bool note_sources(struct seam_run *run, struct ggml_tensor *node, bool ask)
{
    (void)ask;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *root = seam_root(node->src[i]);
        if (!seam_is_weight(root)) {
            continue;
        }
        struct seam_weight *w = weight_of(run, root);
        bool matrix = i == 0 && (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID);
        w->matrix_only &= matrix;
        w->expert |= matrix && node->op == GGML_OP_MUL_MAT_ID;
    }
    return false;
}

void seam_capture(struct seam_run *run)
{
    struct seam_setup was = run->setup;
    struct gguf_context *gguf =
        gguf_init_from_file(seam_model_path, (struct gguf_init_params){.no_alloc = true});

    assert_non_null(gguf);
    run->setup.node = note_sources;
    run->setup.user = gguf;
    run->abort_after = 0;
    assert_int_equal(seam_prefill(run), 2);
    run->abort_after = -1;
    run->setup = was;
    gguf_free(gguf);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

void seam_bind(struct seam_run *run, struct seam_store *store, size_t pad)
{
    const size_t page = 4096;
    size_t at = 0;

    store->bytes = run->file_bytes * 4 + run->n_weights * page;
    store->base = mmap(NULL, store->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(store->base != MAP_FAILED);
    for (size_t i = 0; i < run->n_weights; i++) {
        struct seam_weight *w = &run->weights[i];
        struct ggml_tensor *t = w->tensor;
        size_t n = w->expert ? (size_t)t->ne[2] : 1;
        size_t slice = w->bytes / n;
        size_t stride = w->expert && pad ? round_up(slice, pad) : slice;

        assert_true(at + n * stride <= store->bytes);
        for (size_t e = 0; e < n; e++) {
            memcpy(store->base + at + e * stride, run->file + w->offset + e * slice, slice);
        }
        t->data = store->base + at;
        if (w->expert) {
            t->nb[2] = stride;
            t->nb[3] = stride * n;
        }
        at = round_up(at + n * stride, page);
    }
}

void seam_store_free(struct seam_store *store)
{
    munmap(store->base, store->bytes);
}
