/*
 * Deals the tensors to the shards, writes each shard's header by gguf and its data tensor by
 * tensor, and gives the files their names when all are complete.
 */
#include "mk_write.h"

#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file: tensors [begin, end) of the plan. */
struct shard {
    size_t begin;
    size_t end;
    struct mk_file file;
};

/* Shares the tensors out in order, by bytes, at least one to each shard that may hold any. */
static void deal_tensors(const struct mk_plan *plan, const struct mk_write_options *options,
                         struct shard *shards)
{
    size_t holders = (size_t)(options->shards - options->empty_first);
    struct shard *first = shards + options->empty_first;
    size_t total = 0;
    size_t sum = 0;
    size_t next = 0;

    for (size_t i = 0; i < plan->n_tensors; i++)
        total += mk_data_bytes(&plan->tensors[i]);
    for (size_t k = 0; k < holders; k++) {
        size_t last = plan->n_tensors - (holders - 1 - k);

        first[k].begin = next;
        do
            sum += mk_data_bytes(&plan->tensors[next++]);
        while (next < last && sum < total / holders * (k + 1));
        if (k + 1 == holders)
            next = plan->n_tensors;
        first[k].end = next;
    }
}

static int shard_path(const struct mk_write_options *options, int i, char *path, size_t size,
                      struct bmoe_error *error)
{
    size_t stem = strlen(options->path);
    int length;

    if (options->shards == 1) {
        length = snprintf(path, size, "%s", options->path);
    } else {
        if (stem > 5 && strcmp(options->path + stem - 5, ".gguf") == 0)
            stem -= 5;
        length = snprintf(path, size, "%.*s-%05d-of-%05d.gguf", (int)stem, options->path, i + 1,
                          options->shards);
    }
    if (length < 0 || (size_t)length >= size)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS, "The name %s is too long.",
                         options->path);
    return 0;
}

static void add_split_keys(const struct mk_plan *plan, struct gguf_context *header, int no, int n)
{
    gguf_set_val_u16(header, "split.no", (uint16_t)no);
    gguf_set_val_u16(header, "split.count", (uint16_t)n);
    gguf_set_val_i32(header, "split.tensors.count", (int32_t)plan->n_tensors);
}

/* Adds the shard's tensors to its header; shapes live in a context of ggml without data. */
static int add_tensors(const struct mk_plan *plan, const struct shard *shard,
                       struct gguf_context *header, struct bmoe_error *error)
{
    struct ggml_init_params params = {
        .mem_size = (shard->end - shard->begin + 1) * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *context = ggml_init(params);

    if (!context)
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for the tensors' header.");
    for (size_t i = shard->begin; i < shard->end; i++) {
        const struct mk_tensor *from = &plan->tensors[i];
        struct ggml_tensor *tensor = ggml_new_tensor(context, from->type, from->n_dims, from->ne);

        ggml_set_name(tensor, from->name);
        gguf_add_tensor(header, tensor);
    }
    ggml_free(context);
    return 0;
}

static int write_zeros(struct mk_file *file, size_t n, struct bmoe_error *error)
{
    static const char zeros[GGUF_DEFAULT_ALIGNMENT];

    return mk_file_write(file, zeros, n, error);
}

static size_t padding(size_t bytes)
{
    return (GGUF_DEFAULT_ALIGNMENT - bytes % GGUF_DEFAULT_ALIGNMENT) % GGUF_DEFAULT_ALIGNMENT;
}

static int write_header(struct shard *shard, const char *path, const struct mk_plan *plan,
                        const struct gguf_context *header, struct bmoe_error *error)
{
    size_t size = gguf_get_meta_size(header);
    size_t bytes = size;
    char *data = malloc(size);
    int rc;

    if (!data)
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS,
                         "Out of memory for a header of %zu bytes.", size);
    for (size_t i = shard->begin; i < shard->end; i++) {
        size_t n = mk_data_bytes(&plan->tensors[i]);

        bytes += n + padding(n);
    }
    gguf_get_meta_data(header, data);
    rc = mk_file_open(&shard->file, path, (int64_t)bytes, error);
    if (rc == 0)
        rc = mk_file_write(&shard->file, data, size, error);
    free(data);
    return rc;
}

static int write_shard(struct mk_plan *plan, const struct mk_write_options *options,
                       struct shard *shard, int no, struct bmoe_error *error)
{
    struct gguf_context *header = gguf_init_empty();
    char path[4096];
    int rc = shard_path(options, no, path, sizeof path, error);

    if (no == 0)
        gguf_set_kv(header, plan->keys);
    if (options->shards > 1)
        add_split_keys(plan, header, no, options->shards);
    if (rc == 0)
        rc = add_tensors(plan, shard, header, error);
    if (rc == 0)
        rc = write_header(shard, path, plan, header, error);
    gguf_free(header);
    for (size_t i = shard->begin; i < shard->end && rc == 0; i++) {
        rc = mk_data_write(&plan->tensors[i], &options->data, &shard->file, error);
        if (rc == 0)
            rc = write_zeros(&shard->file, padding(mk_data_bytes(&plan->tensors[i])), error);
    }
    return rc < 0 ? rc : mk_file_close(&shard->file, error);
}

int mk_write(struct mk_plan *plan, const struct mk_write_options *options, struct bmoe_error *error)
{
    size_t holders = (size_t)(options->shards - options->empty_first);
    struct shard *shards;
    int rc = 0;

    if (holders < 1 || holders > plan->n_tensors)
        return error_set(error, BMOE_E_MISUSE, BMOE_SCOPE_PROCESS,
                         "%d shards cannot be made of %zu tensors; ask for fewer, or for more "
                         "than one with an empty first.",
                         options->shards, plan->n_tensors);
    shards = calloc((size_t)options->shards, sizeof *shards);
    if (!shards)
        return error_set(error, BMOE_E_MEMORY, BMOE_SCOPE_PROCESS, "Out of memory for %d shards.",
                         options->shards);
    deal_tensors(plan, options, shards);
    for (int i = 0; i < options->shards && rc == 0; i++)
        rc = write_shard(plan, options, &shards[i], i, error);
    for (int i = 0; i < options->shards && rc == 0; i++)
        rc = mk_file_publish(&shards[i].file, error);
    for (int i = 0; i < options->shards; i++)
        mk_file_fini(&shards[i].file);
    free(shards);
    return rc;
}
