/* The plug-in as any program loads it, and one product computed on a backend of choice. */
#ifndef GGML_ORK_FIXTURE_H
#define GGML_ORK_FIXTURE_H

#include <ggml-backend.h>
#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A product's shape: MUL_MAT when used is 0, else MUL_MAT_ID with so many experts per token. */
struct product_shape {
    enum ggml_type type;
    int64_t k, n, matrices;
    int64_t tokens;
    int64_t used;
    int64_t x_slots; /* MUL_MAT_ID: rows of x per token, 1 or used; MUL_MAT: matrices of x */
};

/* How a weight's bytes are handed over. */
enum set_how { SET_WHOLE, SET_BY_MATRIX_BACKWARDS, SET_BY_ROWS };

struct product_data {
    void *w;
    float *x;
    int32_t *ids;
    size_t w_bytes, x_floats, n_ids, out_floats;
};

/* Loads the CPU backends and the plug-in, with the simulator behind it. */
void fixture_load(void);
ggml_backend_dev_t fixture_ork(void);
ggml_backend_buffer_type_t fixture_packed(void);
ggml_backend_buffer_type_t fixture_cpu_buft(void);

/* Uniform values in -1..1 and ids in range, from the seed alone. */
void fixture_fill(const struct product_shape *shape, uint32_t seed, struct product_data *out);
void fixture_data_free(struct product_data *data);

/* Builds the product in `ctx` (no_alloc), sources w, x (and ids). */
struct ggml_tensor *fixture_node(struct ggml_context *ctx, const struct product_shape *shape,
                                 struct ggml_tensor *w);
struct ggml_tensor *fixture_weight(struct ggml_context *ctx, const struct product_shape *shape);
struct ggml_context *fixture_context(void);

/* Computes it with the weight in a buffer of `type` and the rest in the backend's own. */
enum ggml_status fixture_compute(ggml_backend_t backend, ggml_backend_buffer_type_t type,
                                 const struct product_shape *shape, const struct product_data *data,
                                 enum set_how how, float *out);

/* |a - b| / |b|, by the Euclidean norm. */
double fixture_distance(const float *a, const float *b, size_t n);

#endif
