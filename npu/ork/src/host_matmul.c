/* A product without the device, from the memory the device would read: for so few rows that a
 * submit costs more than reading the weight. The sums are whole numbers and the scales are applied
 * by the same loop as at read-back, so nobody can tell from the bits who computed. */
#include <errno.h>
#include <string.h>

#include "device.h"

#define BLOCK 64u /* columns at a time: a multiple of every kernel group */

/* A row of codes times `cols` columns from n0 on, one K slice. */
struct host_slice {
    const struct ork_weight *weight;
    uint32_t slice;
    uint32_t n0;
    uint32_t cols;
};

/* Kernels of int4 blocks become one code per byte first. */
static void add_block(const struct ork_kernels *k, const struct ork_type_desc *type, int32_t *sums,
                      const uint8_t *block, const int8_t *x)
{
    int8_t codes[64 * ORK_K_BLOCK];

    if (type->in_bits == 4) {
        k->nibbles_get(codes, block, 16, type->kernels);
        k->dots(sums, codes, x, type->kernels);
    } else {
        k->dots(sums, (const int8_t *)block, x, type->kernels);
    }
}

static void add_slice(const struct ork_kernels *k, const struct host_slice *h, const int8_t *x,
                      int32_t *sums)
{
    const struct ork_slicing *s = &h->weight->slicing;
    const struct ork_type_desc *type = ork_type_find(s->type);
    const uint32_t depth = ork_slicing_depth(s, h->slice);
    const uint64_t n_pad = ork_n_pad(s->type, h->weight->n);
    const uint64_t start = n_pad * h->slice * s->depth + (uint64_t)h->n0 * depth;
    const uint8_t *block = (const uint8_t *)h->weight->bo.map + start * type->in_bits / 8;

    for (uint32_t c = 0; c < h->cols; c += type->kernels)
        for (uint32_t k0 = 0; k0 < depth; k0 += ORK_K_BLOCK) {
            add_block(k, type, sums + c, block, x + (size_t)h->slice * s->depth + k0);
            block += 1024;
        }
}

static void one_block(const struct ork_matmul *c, struct host_slice *h, uint32_t m, const int8_t *x)
{
    const struct ork_kernels *k = c->weight->device->kernels;
    const float *a = c->a_scale ? c->a_scale : ork_input_part_scales(c->input, c->part);
    const size_t stride = c->c_stride ? c->c_stride : c->weight->n;
    float *out = (float *)c->c + (c->c_rows ? c->c_rows[m] : m) * stride + h->n0;
    int32_t sums[BLOCK] = {0};

    for (h->slice = 0; h->slice < c->weight->slicing.n_slices; h->slice++) {
        add_slice(k, h, x, sums);
        if (!c->scales_per_slice)
            continue;
        k->scale(out, sums, c->b_scale + (size_t)h->slice * c->weight->n + h->n0,
                 a[(size_t)h->slice * c->m + m], h->cols, h->slice > 0);
        memset(sums, 0, sizeof(sums));
    }
    if (!c->scales_per_slice)
        k->scale(out, sums, c->b_scale + h->n0, a[m], h->cols, false);
}

static int check(const struct ork_matmul *c, uint32_t n0, uint32_t n_cols)
{
    const struct ork_weight *w = c->weight;

    if (c->size != sizeof(*c) || !w || !c->input || !c->c || !c->b_scale || n0 % BLOCK ||
        n0 > w->n || n_cols > w->n - n0 || c->part >= c->input->n_parts ||
        c->m != c->input->parts[c->part].rows.m || c->input->slicing.k != w->slicing.k ||
        c->input->slicing.type != w->slicing.type || c->input->slicing.depth != w->slicing.depth)
        return -EINVAL;
    if (!c->a_scale && (!c->input->quantised || c->input->per_slice != c->scales_per_slice))
        return -EINVAL;
    if (w->slicing.type != ORK_I8_I32 && w->slicing.type != ORK_I4_I16)
        return -EOPNOTSUPP;
    return w->slicing.options.i4_may_saturate ? -EOPNOTSUPP : 0;
}

int ork_matmul_host(const struct ork_matmul *call, uint32_t n0, uint32_t n_cols, int8_t *room)
{
    const struct ork_input_part *part;
    const int rc = check(call, n0, n_cols);

    if (rc < 0)
        return rc;
    part = &call->input->parts[call->part];
    for (uint32_t m = 0; m < call->m; m++) {
        ork_unpack_row(call->weight->device->kernels, &call->input->slicing, &part->rows,
                       (const uint8_t *)call->input->bo.map + part->offset, m, room);
        for (uint32_t at = 0; at < n_cols; at += BLOCK) {
            struct host_slice h = {.weight = call->weight,
                                   .n0 = n0 + at,
                                   .cols = n_cols - at < BLOCK ? n_cols - at : BLOCK};

            one_block(call, &h, m, room);
        }
    }
    return 0;
}
