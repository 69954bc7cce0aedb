/* Packed inputs, shared by the matmuls of one layer. */
#include <errno.h>
#include <stdlib.h>

#include "device.h"
#include "fused.h"
#include "ork_error.h"

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
    in->max_m = max_m;
    in->scales = calloc(max_m, sizeof(*in->scales));
    in->scratch = calloc(like->slicing.k, sizeof(*in->scratch));
    in->codes = calloc(like->slicing.k, 1);
    rc = in->scales && in->scratch && in->codes ? 0 : -ENOMEM;
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

static int finish(struct ork_input *input)
{
    const struct ork_transport_ops *ops = input->device->transport->ops;

    return ops->bo_sync(input->device->transport, &input->bo, 0, input->rows.bytes,
                        ORK_SYNC_TO_DEVICE);
}

int ork_input_pack(struct ork_input *input, uint32_t m, const void *rows)
{
    int rc = m <= input->max_m ? ork_rows_make(&input->slicing, m, &input->rows, NULL) : -EINVAL;

    if (rc < 0)
        return rc;
    input->quantised = false;
    ork_pack_rows(input->device->kernels, &input->slicing, &input->rows, input->bo.map, rows);
    return finish(input);
}

/* The largest code of the type the weight was made for. */
static uint32_t code_max(const struct ork_slicing *slicing)
{
    if (slicing->type == ORK_I8_I32)
        return 127;
    return slicing->options.i4_absmax < 7 ? slicing->options.i4_absmax : 7;
}

int ork_input_quantise(struct ork_input *input, uint32_t m, const float *rows,
                       const struct ork_quantise *how)
{
    const size_t stride = how->row_stride ? how->row_stride : input->slicing.k;
    int rc;

    if (how->size != sizeof(*how) || m > input->max_m)
        return -EINVAL;
    if (input->slicing.type != ORK_I8_I32 && input->slicing.type != ORK_I4_I16)
        return -EOPNOTSUPP;
    rc = ork_rows_make(&input->slicing, m, &input->rows, NULL);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < m; i++) {
        input->scales[i] =
            ork_fused_codes(input->device->kernels, how, code_max(&input->slicing),
                            rows + i * stride, input->slicing.k, input->scratch, input->codes);
        ork_pack_row(input->device->kernels, &input->slicing, &input->rows, input->bo.map, i,
                     input->codes);
    }
    input->quantised = true;
    return finish(input);
}

const float *ork_input_scales(const struct ork_input *input)
{
    return input->quantised ? input->scales : NULL;
}

void ork_input_destroy(struct ork_input *input)
{
    if (!input)
        return;
    ork_pool_destroy(&input->device->pool, &input->bo);
    free(input->scales);
    free(input->scratch);
    free(input->codes);
    free(input);
}
