/* Packed inputs, shared by the matmuls of one layer: one part for a dense product, one per expert
 * for a routed one. */
#include <errno.h>
#include <stdlib.h>

#include "device.h"
#include "fused.h"
#include "ork_error.h"

/* Room for the scales of m rows. Contents are lost. */
static int scales_room(struct ork_input *in, uint64_t m)
{
    float *scales;

    if (m <= in->max_m)
        return 0;
    scales = calloc(m * in->slicing.n_slices, sizeof(*scales));
    if (!scales)
        return -ENOMEM;
    free(in->scales);
    in->scales = scales;
    in->max_m = m;
    return 0;
}

int ork_input_create(struct ork_device *device, const struct ork_weight *like, uint32_t max_m,
                     struct ork_input **out, struct ork_error *error)
{
    struct ork_input *in;
    struct ork_rows rows;
    int rc = ork_rows_make(&like->slicing, max_m, &rows, error);

    if (rc < 0)
        return rc;
    in = calloc(1, sizeof(*in));
    if (!in)
        return ork_fail(error, -ENOMEM, "No memory for an input.");
    in->device = device;
    in->slicing = like->slicing;
    in->scratch = calloc(like->slicing.k, 2 * sizeof(*in->scratch));
    rc = in->scratch ? scales_room(in, max_m) : -ENOMEM;
    if (!rc)
        rc = ork_pool_create(&device->pool, rows.bytes, ORK_KIND_INPUT, like->bo.domain, &in->bo);
    if (rc < 0) {
        ork_input_destroy(in);
        return ork_fail(error, rc, "No memory for an input of %u rows, %llu bytes.", max_m,
                        (unsigned long long)rows.bytes);
    }
    *out = in;
    return 0;
}

/* ---- parts ------------------------------------------------------------------------------- */

static int parts_room(struct ork_input *in, size_t n)
{
    struct ork_input_part *parts;

    if (n <= in->room_parts)
        return 0;
    parts = realloc(in->parts, n * sizeof(*parts));
    if (!parts)
        return -ENOMEM;
    in->parts = parts;
    in->room_parts = n;
    return 0;
}

/* The old memory goes first: addresses are the scarce thing. Twice the need, so that a slowly
 * growing batch does not come here each time. */
static int memory_room(struct ork_input *in, uint64_t bytes)
{
    const uint32_t domain = in->bo.domain;
    int rc;

    if (bytes <= in->bo.bytes)
        return 0;
    ork_pool_destroy(&in->device->pool, &in->bo);
    rc = ork_pool_create(&in->device->pool, 2 * bytes, ORK_KIND_INPUT, domain, &in->bo);
    if (rc == -ENOMEM)
        rc = ork_pool_create(&in->device->pool, bytes, ORK_KIND_INPUT, domain, &in->bo);
    in->bo.domain = domain; /* also where there is nothing now, for the next try */
    return rc;
}

int ork_input_begin(struct ork_input *in, const uint32_t *part_rows, size_t n_parts, bool per_slice)
{
    uint64_t bytes = 0, m = 0;
    int rc = parts_room(in, n_parts);

    in->n_parts = 0;
    for (size_t p = 0; rc >= 0 && p < n_parts; p++) {
        struct ork_input_part *part = &in->parts[p];

        *part = (struct ork_input_part){.offset = bytes, .first = m};
        if (!part_rows[p])
            continue;
        rc = ork_rows_make(&in->slicing, part_rows[p], &part->rows, NULL);
        bytes += (part->rows.bytes + ORK_TILE_ALIGN - 1) / ORK_TILE_ALIGN * ORK_TILE_ALIGN;
        m += part_rows[p];
    }
    rc = rc < 0 ? rc : scales_room(in, m);
    rc = rc < 0 ? rc : memory_room(in, bytes);
    if (rc < 0)
        return rc;
    in->n_parts = n_parts;
    in->quantised = in->slicing.type == ORK_I8_I32 || in->slicing.type == ORK_I4_I16;
    in->per_slice = per_slice;
    return 0;
}

int ork_input_put(struct ork_input *in, size_t p, uint32_t m, const int8_t *codes,
                  const float *scales)
{
    const struct ork_slicing *s = &in->slicing;
    const struct ork_input_part *part = p < in->n_parts ? &in->parts[p] : NULL;
    float *to;

    if (!part || m >= part->rows.m)
        return -EINVAL;
    to = in->scales + part->first * s->n_slices + m;
    for (uint32_t i = 0; i < (in->per_slice ? s->n_slices : 1); i++)
        to[(size_t)i * part->rows.m] = scales[i];
    ork_pack_row(in->device->kernels, s, &part->rows, (uint8_t *)in->bo.map + part->offset, m,
                 codes);
    return 0;
}

int ork_input_finish(struct ork_input *in)
{
    const struct ork_transport_ops *ops = in->device->transport->ops;
    uint64_t bytes = 0;

    for (size_t p = 0; p < in->n_parts; p++)
        if (in->parts[p].rows.m)
            bytes = in->parts[p].offset + in->parts[p].rows.bytes;
    if (!bytes)
        return 0;
    return ops->bo_sync(in->device->transport, &in->bo, 0, bytes, ORK_SYNC_TO_DEVICE);
}

/* ---- one part ---------------------------------------------------------------------------- */

int ork_input_pack(struct ork_input *input, uint32_t m, const void *rows)
{
    int rc = m && m <= input->max_m ? ork_input_begin(input, &m, 1, false) : -EINVAL;

    if (rc < 0)
        return rc;
    input->quantised = false;
    ork_pack_rows(input->device->kernels, &input->slicing, &input->parts[0].rows, input->bo.map,
                  rows);
    return ork_input_finish(input);
}

/* The largest code of the type the weight was made for. */
static uint32_t code_max(const struct ork_slicing *slicing)
{
    if (slicing->type == ORK_I8_I32)
        return 127;
    return slicing->options.i4_absmax && slicing->options.i4_absmax < 7 ? slicing->options.i4_absmax
                                                                        : 7;
}

#define MAX_SLICES 1024u /* scales of one row on the stack */

int ork_input_quantise(struct ork_input *input, uint32_t m, const float *rows,
                       const struct ork_quantise *how)
{
    const struct ork_slicing *s = &input->slicing;
    const size_t stride = how->row_stride ? how->row_stride : s->k;
    int8_t *codes = (int8_t *)(input->scratch + s->k);
    float scales[MAX_SLICES];
    int rc;

    if (how->size != sizeof(*how) || !m || m > input->max_m || s->n_slices > MAX_SLICES)
        return -EINVAL;
    if (s->type != ORK_I8_I32 && s->type != ORK_I4_I16)
        return -EOPNOTSUPP;
    rc = ork_input_begin(input, &m, 1, how->per_slice);
    for (uint32_t i = 0; rc >= 0 && i < m; i++) {
        ork_fused_codes(input->device->kernels, how, code_max(s), rows + i * stride, s->k,
                        how->per_slice ? s->depth : s->k, input->scratch, codes, scales);
        rc = ork_input_put(input, 0, i, codes, scales);
    }
    return rc < 0 ? rc : ork_input_finish(input);
}

const float *ork_input_part_scales(const struct ork_input *input, size_t part)
{
    if (!input->quantised || part >= input->n_parts)
        return NULL;
    return input->scales + input->parts[part].first * input->slicing.n_slices;
}

const float *ork_input_scales(const struct ork_input *input)
{
    return ork_input_part_scales(input, 0);
}

void ork_input_destroy(struct ork_input *input)
{
    if (!input)
        return;
    ork_pool_destroy(&input->device->pool, &input->bo);
    free(input->parts);
    free(input->scales);
    free(input->scratch);
    free(input);
}
