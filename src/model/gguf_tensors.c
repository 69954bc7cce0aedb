/*
 * Tensor descriptions of one shard. gguf's own reader wants the tensors to follow each other in the
 * order of their descriptions, each padded to the alignment; so no two can overlap, and the same is
 * asked here. Sizes are computed in 64 bits with checks, from ggml's block and type sizes.
 */
#include "model/gguf_parts.h"

#include "base/checked.h"
#include "base/error.h"

#include <ggml.h>
#include <inttypes.h>
#include <stdlib.h>

/* libllama compares names pairwise; real models have some thousands of tensors. */
#define MAX_TENSORS   65536
#define MIN_ALIGNMENT 32 /* ggml asserts it of the first tensor's address */
#define MAX_ALIGNMENT (64u << 20)
/* Fewest bytes a description takes: a name's length, n_dims, one dimension, type, offset. */
#define MIN_DESCRIPTION 32

static int read_shape(struct gguf_tensor *t, struct gguf_file *f, struct bmoe_error *err)
{
    int rc = gguf_file_u32(f, &t->n_dims, err);
    if (rc < 0)
        return rc;
    if (t->n_dims < 1 || t->n_dims > GGML_MAX_DIMS)
        return gguf_refuse(err, f->path, "tensor '%s' has %u dimensions, 1 to %d are possible",
                           t->name, t->n_dims, GGML_MAX_DIMS);
    uint64_t n_elements = 1;
    for (uint32_t i = 0; i < GGML_MAX_DIMS; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims && (rc = gguf_file_u64(f, &ne, err)) < 0)
            return rc;
        if (ne == 0 || ne > INT64_MAX || !checked_mul_u64(n_elements, ne, &n_elements) ||
            n_elements > INT64_MAX)
            return gguf_refuse(err, f->path, "tensor '%s' has an impossible dimension, %" PRIu64,
                               t->name, ne);
        t->ne[i] = (int64_t)ne;
    }
    return 0;
}

/* Bytes from type and shape. */
static int compute_bytes(struct gguf_tensor *t, const struct gguf_file *f, struct bmoe_error *err)
{
    int64_t block = t->type < GGML_TYPE_COUNT ? ggml_blck_size((enum ggml_type)t->type) : 0;
    size_t block_bytes = block > 0 ? ggml_type_size((enum ggml_type)t->type) : 0;
    if (block_bytes == 0)
        return gguf_refuse(err, f->path, "tensor '%s' has the unknown type %u", t->name, t->type);
    if (t->ne[0] % block != 0)
        return gguf_refuse(err, f->path,
                           "tensor '%s' has rows of %" PRId64 " elements, not a multiple of the "
                           "block of %" PRId64 " of its type %s",
                           t->name, t->ne[0], block, ggml_type_name((enum ggml_type)t->type));
    uint64_t bytes = (uint64_t)(t->ne[0] / block);
    bool fits = checked_mul_u64(bytes, block_bytes, &bytes);
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        fits = fits && checked_mul_u64(bytes, (uint64_t)t->ne[i], &bytes);
    if (!fits || bytes > INT64_MAX)
        return gguf_refuse(err, f->path, "tensor '%s' is larger than any file", t->name);
    t->bytes = bytes;
    return 0;
}

/* t->offset is from the start of the data still. */
static int read_description(struct gguf_tensor *t, struct gguf_file *f, struct strings *strings,
                            struct bmoe_error *err)
{
    int rc = gguf_file_string(f, strings, GGML_MAX_NAME - 1, "a tensor name", &t->name, err);
    if (rc < 0)
        return rc;
    if (!*t->name)
        return gguf_refuse(err, f->path, "has a tensor without a name");
    if ((rc = read_shape(t, f, err)) < 0 || (rc = gguf_file_u32(f, &t->type, err)) < 0 ||
        (rc = gguf_file_u64(f, &t->offset, err)) < 0)
        return rc;
    return compute_bytes(t, f, err);
}

static int alignment_of(const struct gguf_meta *m, const struct gguf_file *f, uint64_t *out,
                        struct bmoe_error *err)
{
    const struct gguf_value *v = gguf_meta_find(m, "general.alignment");
    *out = 32;
    if (!v)
        return 0;
    if (v->type != GGUF_U32)
        return gguf_refuse(err, f->path, "general.alignment is of type %s, u32 is needed",
                           gguf_type_text(v->type));
    *out = v->bits[0];
    if (*out < MIN_ALIGNMENT || *out > MAX_ALIGNMENT || (*out & (*out - 1)))
        return gguf_refuse(err, f->path,
                           "general.alignment is %" PRIu64 ", not a power of two between %d and %u",
                           *out, MIN_ALIGNMENT, MAX_ALIGNMENT);
    return 0;
}

/* Checks the places of tensors from..n_tensors-1 and makes them offsets in the file. */
static int place(struct gguf_index *x, uint32_t from, const struct gguf_file *f,
                 uint64_t data_offset, uint64_t alignment, struct bmoe_error *err)
{
    uint64_t next = 0;
    for (uint32_t i = from; i < x->n_tensors; i++) {
        struct gguf_tensor *t = &x->tensors[i];
        uint64_t end;
        if (t->offset != next)
            return gguf_refuse(err, f->path,
                               "tensor '%s' begins at %" PRIu64 " of the data, but the one before "
                               "it ends at %" PRIu64,
                               t->name, t->offset, next);
        if (!checked_add_u64(data_offset, t->offset, &t->offset) ||
            !checked_add_u64(t->offset, t->bytes, &end) || end > f->bytes)
            return gguf_refuse(err, f->path,
                               "tensor '%s' reaches beyond the file's %" PRIu64
                               " bytes: the file is truncated",
                               t->name, f->bytes);
        if (!checked_align_u64(next + t->bytes, alignment, &next))
            return gguf_refuse(err, f->path, "tensor '%s' is larger than the file", t->name);
    }
    return 0;
}

static int make_room(struct gguf_index *x, const struct gguf_file *f, uint64_t n,
                     struct bmoe_error *err)
{
    if (n > (f->bytes - f->at) / MIN_DESCRIPTION || n > MAX_TENSORS - x->n_tensors)
        return gguf_refuse(err, f->path,
                           "claims %" PRIu64 " tensors, more than it can hold or than the %u that "
                           "are possible",
                           n, MAX_TENSORS);
    x->tensors_room = x->n_tensors + (uint32_t)n;
    struct gguf_tensor *more = realloc(x->tensors, (x->tensors_room + 1) * sizeof *more);
    if (!more)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for %u tensors",
                         x->tensors_room);
    x->tensors = more;
    return 0;
}

int gguf_tensors_read(struct gguf_index *x, uint32_t shard, struct gguf_file *f,
                      const struct gguf_meta *m, uint64_t n_tensors, struct bmoe_error *err)
{
    uint64_t alignment, data_offset;
    uint32_t first = x->n_tensors;
    int rc = alignment_of(m, f, &alignment, err);
    if (rc < 0 || (rc = make_room(x, f, n_tensors, err)) < 0)
        return rc;
    if (shard == 0)
        x->tensors_at = f->at;
    while (x->n_tensors < x->tensors_room) {
        struct gguf_tensor *t = &x->tensors[x->n_tensors];
        *t = (struct gguf_tensor){.shard = shard};
        if ((rc = read_description(t, f, &x->strings, err)) < 0)
            return rc;
        x->n_tensors++;
    }
    if (shard == 0)
        x->tensors_end = f->at;
    if (!checked_align_u64(f->at, alignment, &data_offset))
        return gguf_refuse(err, f->path, "has no place for its data");
    x->shards[shard].data_offset = data_offset;
    return place(x, first, f, data_offset, alignment, err);
}

static const char *tensor_name_at(const void *owner, uint32_t i)
{
    return ((const struct gguf_index *)owner)->tensors[i].name;
}

int gguf_tensors_hash(struct gguf_index *x, struct bmoe_error *err)
{
    if (!names_init(&x->by_name, x->n_tensors))
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for %u tensor names",
                         x->n_tensors);
    for (uint32_t i = 0; i < x->n_tensors; i++)
        if (!names_add(&x->by_name, i, tensor_name_at, x))
            return gguf_refuse(err, x->shards[x->tensors[i].shard].path,
                               "has the tensor '%s' twice", x->tensors[i].name);
    return 0;
}

const struct gguf_tensor *gguf_index_find(const struct gguf_index *x, const char *name)
{
    uint32_t i = names_find(&x->by_name, name, tensor_name_at, x);
    return i == NAMES_NONE ? NULL : &x->tensors[i];
}
