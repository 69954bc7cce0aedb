/* Packed weights: device memory, a slicing, and packing of row ranges. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ork_error.h"

static int plan_options(const struct ork_weight_options *o, struct ork_plan_options *out,
                        struct ork_error *error)
{
    memset(out, 0, sizeof(*out));
    if (!o)
        return 0;
    if (o->size != sizeof(*o))
        return ork_fail(error, -EINVAL, "ork_weight_options.size is %zu, not %zu.", o->size,
                        sizeof(*o));
    out->k_slice = o->k_slice;
    out->i4_absmax = o->i4_absmax;
    out->i4_may_saturate = o->i4_may_saturate;
    out->i4_mode = o->i4_mode;
    return 0;
}

static int check_n(uint32_t n, struct ork_error *error)
{
    if (!n || n > ORK_MAX_DIM_N)
        return ork_fail(error, -EINVAL, "N = %u is not within 1..%u.", n, ORK_MAX_DIM_N);
    return 0;
}

uint64_t ork_weight_bytes(enum ork_type type, uint32_t n, uint32_t k,
                          const struct ork_weight_options *options, struct ork_error *error)
{
    struct ork_plan_options plan;
    struct ork_slicing slicing;

    if (check_n(n, error) < 0 || plan_options(options, &plan, error) < 0 ||
        ork_slicing_make(type, k, &plan, &slicing, error) < 0)
        return 0;
    return ork_slicing_weight_bytes(&slicing, n);
}

int ork_weight_create_planned(struct ork_device *device, enum ork_type type, uint32_t n, uint32_t k,
                              const struct ork_plan_options *options, uint32_t domain,
                              struct ork_weight **out, struct ork_error *error)
{
    struct ork_weight *w;
    struct ork_slicing slicing;
    int rc = check_n(n, error);

    rc = rc < 0 ? rc : ork_slicing_make(type, k, options, &slicing, error);
    if (rc < 0)
        return rc;
    if (domain >= device->info.n_domains)
        return ork_fail(error, -EINVAL, "There is no IOMMU domain %u; this device has %u.", domain,
                        device->info.n_domains);
    w = calloc(1, sizeof(*w));
    if (!w)
        return ork_fail(error, -ENOMEM, "No memory for a weight.");
    *w = (struct ork_weight){.device = device, .slicing = slicing, .n = n};
    rc = ork_pool_create(&device->pool, ork_slicing_weight_bytes(&slicing, n), ORK_KIND_INPUT,
                         domain, &w->bo);
    if (rc < 0) {
        free(w);
        return ork_fail(error, rc, "No device memory for a weight of %llu bytes in domain %u: %s.",
                        (unsigned long long)ork_slicing_weight_bytes(&slicing, n), domain,
                        strerror(-rc));
    }
    *out = w;
    return 0;
}

/* The layouts with single rows step backwards from cell to cell, as one-row programs do: where the
 * self test has not seen that work, their products would be silently wrong. */
static int check_mode(const struct ork_plan_options *plan, const struct ork_caps *caps,
                      struct ork_error *error)
{
    const bool single_rows = plan->i4_mode == ORK_I4_BCHAIN || plan->i4_mode == ORK_I4_ROWS;

    if (single_rows && caps->selftest_m1 != 1)
        return ork_fail(error, -EOPNOTSUPP,
                        "This int4 mode needs negative surface strides, which the self test %s on "
                        "this device; use ORK_I4_DENSE.",
                        caps->selftest_m1 ? "has not tried" : "found wrong");
    return 0;
}

int ork_weight_create(struct ork_device *device, enum ork_type type, uint32_t n, uint32_t k,
                      const struct ork_weight_options *options, struct ork_weight **out,
                      struct ork_error *error)
{
    struct ork_plan_options plan;
    struct ork_caps caps;
    int rc = plan_options(options, &plan, error);

    if (rc < 0)
        return rc;
    ork_device_caps(device, &caps);
    rc = check_mode(&plan, &caps, error);
    if (rc < 0)
        return rc;
    plan.n_cores = device->n_cores;
    plan.m_multiple = caps.m_multiple;
    return ork_weight_create_planned(device, type, n, k, &plan, options ? options->domain : 0, out,
                                     error);
}

/* Whole kernel groups of each slice that hold rows n0 .. n0 + n_rows - 1. */
static int sync_rows(const struct ork_weight *w, uint32_t n0, uint32_t n_rows)
{
    const struct ork_type_desc *type = ork_type_find(w->slicing.type);
    const uint64_t n_pad = ork_n_pad(w->slicing.type, w->n);
    const uint64_t first = n0 / type->kernels * type->kernels;
    const uint64_t end = ork_n_pad(w->slicing.type, n0 + n_rows);

    for (uint32_t s = 0; s < w->slicing.n_slices; s++) {
        const uint64_t depth = ork_slicing_depth(&w->slicing, s);
        const uint64_t start = n_pad * s * w->slicing.depth;
        int rc = w->device->transport->ops->bo_sync(
            w->device->transport, &w->bo, (start + first * depth) * type->in_bits / 8,
            (end - first) * depth * type->in_bits / 8, ORK_SYNC_TO_DEVICE);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int ork_weight_pack(struct ork_weight *weight, uint32_t n0, uint32_t n_rows, const void *rows)
{
    if (!n_rows)
        return 0;
    if (n0 >= weight->n || n_rows > weight->n - n0)
        return -EINVAL;
    ork_pack_weight(weight->device->kernels, &weight->slicing, weight->n, weight->bo.map, n0,
                    n_rows, rows);
    return sync_rows(weight, n0, n_rows);
}

int ork_weight_unpack(const struct ork_weight *weight, uint32_t n0, uint32_t n_rows, void *rows)
{
    if (!n_rows)
        return 0;
    if (n0 >= weight->n || n_rows > weight->n - n0)
        return -EINVAL;
    ork_unpack_weight(weight->device->kernels, &weight->slicing, weight->n, weight->bo.map, n0,
                      n_rows, rows);
    return 0;
}

const void *ork_weight_image(const struct ork_weight *weight, uint64_t *bytes)
{
    *bytes = ork_slicing_weight_bytes(&weight->slicing, weight->n);
    return weight->bo.map;
}

int ork_weight_set_image(struct ork_weight *weight, const void *image)
{
    const uint64_t bytes = ork_slicing_weight_bytes(&weight->slicing, weight->n);

    memcpy(weight->bo.map, image, bytes);
    return weight->device->transport->ops->bo_sync(weight->device->transport, &weight->bo, 0, bytes,
                                                   ORK_SYNC_TO_DEVICE);
}

uint32_t ork_weight_n_slices(const struct ork_weight *weight)
{
    return weight->slicing.n_slices;
}

void ork_weight_destroy(struct ork_weight *weight)
{
    if (!weight)
        return;
    ork_pool_destroy(&weight->device->pool, &weight->bo);
    free(weight);
}
