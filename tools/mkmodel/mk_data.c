/*
 * A slab: each thread fills its part of the rows as F32 and stores them in the tensor's type at
 * their place in the slab's output, which is then written in one piece.
 */
#include "mk_data.h"

#include "mk_mxfp4.h"
#include "mk_weights.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLAB_ELEMENTS = 1 << 20 }; /* of one thread: 4 MiB of F32 */

/* One thread's share of a slab; the threads' shares do not overlap. */
struct share {
    const struct mk_weights *weights;
    const float *importance; /* ones, for types that ask for it, else NULL */
    int64_t row;
    int64_t n_rows;
    float *values;
    char *out;
    pthread_t thread;
    bool started;
};

/* Buffers of a tensor's slabs. */
struct slab {
    float *values;
    char *out;
    float *importance;
    struct share *shares;
    int64_t share_rows; /* rows of a full share */
    int n_shares;
};

size_t mk_data_bytes(const struct mk_tensor *tensor)
{
    return ggml_row_size(tensor->type, tensor->ne[0]) *
           (size_t)(tensor->ne[1] * tensor->ne[2] * tensor->ne[3]);
}

static void *run_share(void *argument)
{
    struct share *share = argument;
    const struct mk_tensor *tensor = share->weights->tensor;

    mk_weights_rows(share->weights, share->row, share->n_rows, share->values);
    if (tensor->type == GGML_TYPE_MXFP4)
        mk_mxfp4_encode(share->values, share->n_rows * tensor->ne[0], (uint8_t *)share->out);
    else
        ggml_quantize_chunk(tensor->type, share->values, share->out, 0, share->n_rows,
                            tensor->ne[0], share->importance);
    return NULL;
}

/* Takes a zeroed or half-built slab. */
static void slab_fini(struct slab *slab)
{
    free(slab->values);
    free(slab->out);
    free(slab->importance);
    free(slab->shares);
}

static int slab_init(struct slab *slab, const struct mk_tensor *tensor, int64_t rows, int threads,
                     struct bmoe_error *error)
{
    int64_t columns = tensor->ne[0];
    size_t row_bytes = ggml_row_size(tensor->type, columns);
    size_t slab_rows;

    slab->share_rows = columns < SLAB_ELEMENTS ? SLAB_ELEMENTS / columns : 1;
    slab->n_shares = threads;
    if (slab->share_rows * threads > rows)
        slab->share_rows = (rows + threads - 1) / threads;
    slab_rows = (size_t)slab->share_rows * (size_t)threads;
    slab->values = calloc(slab_rows * (size_t)columns, sizeof *slab->values);
    slab->out = calloc(slab_rows, row_bytes);
    slab->shares = calloc((size_t)threads, sizeof *slab->shares);
    slab->importance = calloc((size_t)columns, sizeof *slab->importance);
    if (!slab->values || !slab->out || !slab->shares || !slab->importance)
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for the rows of %s.", tensor->name);
    for (int64_t i = 0; i < columns; i++)
        slab->importance[i] = 1.0f;
    return 0;
}

/* Makes up to a slab of the rows from `row` on; returns how many. */
static int64_t slab_make(struct slab *slab, const struct mk_weights *weights, int64_t row,
                         int64_t end)
{
    const struct mk_tensor *tensor = weights->tensor;
    size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    bool weighted = ggml_quantize_requires_imatrix(tensor->type);
    int64_t done = 0;

    for (int i = 0; i < slab->n_shares; i++) {
        struct share *share = &slab->shares[i];
        int64_t left = end - row - done;

        share->weights = weights;
        share->importance = weighted ? slab->importance : NULL;
        share->row = row + done;
        share->n_rows = left < slab->share_rows ? left : slab->share_rows;
        share->values = slab->values + done * tensor->ne[0];
        share->out = slab->out + (size_t)done * row_bytes;
        done += share->n_rows;
        share->started = i > 0 && share->n_rows > 0 &&
                         pthread_create(&share->thread, NULL, run_share, share) == 0;
    }
    for (int i = 0; i < slab->n_shares; i++) {
        struct share *share = &slab->shares[i];

        if (share->started)
            pthread_join(share->thread, NULL);
        else if (share->n_rows > 0)
            run_share(share);
    }
    return done;
}

int mk_data_write(const struct mk_tensor *tensor, const struct mk_data_options *options,
                  struct mk_file *file, struct bmoe_error *error)
{
    int64_t rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    struct mk_weights weights;
    struct slab slab = {0};
    int rc = mk_weights_init(&weights, tensor, options->seed, options->zipf, error);

    if (rc == 0)
        rc = slab_init(&slab, tensor, rows, options->threads, error);
    if (rc == 0)
        ggml_quantize_init(tensor->type);
    for (int64_t row = 0; row < rows && rc == 0;) {
        int64_t made = slab_make(&slab, &weights, row, rows);

        rc = mk_file_write(file, slab.out, (size_t)made * row_bytes, error);
        row += made;
    }
    slab_fini(&slab);
    mk_weights_fini(&weights);
    return rc;
}
