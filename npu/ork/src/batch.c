/* From a list of matmuls to programs in device memory: plan each, place inputs and outputs, pack
 * what the caller did not, write the commands. Submitting and waiting is batch_run.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ork_error.h"
#include "regcmd.h"

static bool is_integer(enum ork_type type)
{
    return type == ORK_I8_I32 || type == ORK_I4_I16;
}

static bool same_input(const struct ork_slicing *a, const struct ork_slicing *b)
{
    return a->type == b->type && a->k == b->k && a->depth == b->depth &&
           a->options.m_multiple == b->options.m_multiple &&
           a->options.m_tile == b->options.m_tile && a->options.i4_mode == b->options.i4_mode &&
           a->options.layout == b->options.layout &&
           a->options.loose_banks == b->options.loose_banks;
}

static int check_scales(const struct ork_matmul *c, struct ork_error *error)
{
    const bool own = c->input && c->input->quantised && c->input->per_slice == c->scales_per_slice;

    if (!c->b_scale && (c->a_scale || c->scales_per_slice))
        return ork_fail(error, -EINVAL, "A matmul has a_scale or scales_per_slice but no b_scale.");
    if (c->b_scale && !is_integer(c->weight->slicing.type))
        return ork_fail(error, -EINVAL, "Scales are for integer matmuls.");
    if (c->b_scale && !c->a_scale && !own)
        return ork_fail(error, -EINVAL,
                        "A matmul has b_scale but neither a_scale nor a quantised input.");
    return 0;
}

static int check_call(const struct ork_device *d, const struct ork_matmul *c, uint32_t domain,
                      unsigned flags, struct ork_error *error)
{
    if (c->size != sizeof(*c))
        return ork_fail(error, -EINVAL, "ork_matmul.size is %zu, not %zu.", c->size, sizeof(*c));
    if (!c->weight || !c->c || !c->input == !c->a)
        return ork_fail(error, -EINVAL, "A matmul needs a weight, c, and either input or a.");
    if (c->weight->device != d || (c->input && c->input->device != d))
        return ork_fail(error, -EINVAL, "A weight or input belongs to another device.");
    if (c->weight->bo.domain != domain || (c->input && c->input->bo.domain != domain))
        return ork_fail(error, -EINVAL, "Weights and inputs of a batch lie in different domains.");
    if (c->input && !same_input(&c->input->slicing, &c->weight->slicing))
        return ork_fail(error, -EINVAL, "An input was made for weights of another kind.");
    if (c->input && c->part >= c->input->n_parts)
        return ork_fail(error, -EINVAL, "An input of %zu parts has no part %zu.", c->input->n_parts,
                        c->part);
    if (c->input && c->m != c->input->parts[c->part].rows.m)
        return ork_fail(error, -EINVAL, "A matmul of %u rows has an input of %u.", c->m,
                        c->input->parts[c->part].rows.m);
    if (c->c_stride && c->c_stride < c->weight->n)
        return ork_fail(error, -EINVAL, "c_stride %zu is below N = %u.", c->c_stride, c->weight->n);
    if (!(flags & ORK_BATCH_PROBE) && !ork_selftest_verdict(d, c->weight->slicing.type))
        return ork_fail(error, -EOPNOTSUPP, "The self test found %s products wrong on this device.",
                        ork_type_find(c->weight->slicing.type)->name);
    return check_scales(c, error);
}

/* With many matmuls each runs whole on one core (the input is fetched once); with few, N is split
 * over the cores. */
static bool keep_whole(const struct ork_device *d, size_t n)
{
    return n >= 2 * (size_t)d->n_cores;
}

static uint32_t least_loaded(const struct ork_fence *f)
{
    uint32_t best = 0;

    for (uint32_t c = 1; c < f->device->n_cores; c++)
        if (f->macs_core[c] < f->macs_core[best])
            best = c;
    return best;
}

static void add_work(struct ork_fence *f, const struct ork_batch_item *item)
{
    const struct ork_work *w = &item->plan.work;

    if (!f->work.n_programs)
        f->work.type = w->type;
    f->work.n_programs += w->n_programs;
    f->work.macs += w->macs;
    f->work.feature_bytes += w->feature_bytes;
    f->work.weight_bytes += w->weight_bytes;
    f->work.output_bytes += w->output_bytes;
    f->work.cbuf_fills += w->cbuf_fills;
    f->work.host_pack_bytes += item->call.input ? 0 : w->host_pack_bytes;
    f->work.host_unpack_bytes += w->host_unpack_bytes;
    for (uint32_t t = 0; t < item->plan.n_tiles; t++) {
        const struct ork_tile *tile = &item->plan.tiles[t];

        f->macs_core[item->core_base + tile->core] += ork_timemodel_macs_as(
            f->work.type, w->type, (uint64_t)tile->lines * tile->cols * tile->depth);
    }
}

static int plan_item(struct ork_fence *f, struct ork_batch_item *item, bool whole,
                     struct ork_error *error)
{
    struct ork_slicing slicing = item->call.weight->slicing;
    int rc;

    slicing.options.n_cores = whole ? 1 : f->device->n_cores;
    rc = ork_plan_make(&slicing, item->call.m, item->call.weight->n, &item->plan, error);
    if (rc < 0)
        return rc;
    item->core_base = whole ? least_loaded(f) : 0;
    add_work(f, item);
    return 0;
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + ORK_TILE_ALIGN - 1) / ORK_TILE_ALIGN * ORK_TILE_ALIGN;
}

/* Offsets in the batch's own buffers; returns the bytes of its input buffer. */
static uint64_t place(struct ork_fence *f)
{
    uint64_t input_bytes = 0;

    for (size_t i = 0; i < f->n_items; i++) {
        struct ork_batch_item *item = &f->items[i];

        item->a_offset = input_bytes;
        if (!item->call.input)
            input_bytes += align(item->plan.a_bytes);
        for (uint32_t c = 0; c < item->plan.n_cores; c++) {
            const uint32_t core = item->core_base + c;

            item->c_base[core] = f->output_bytes[core];
            f->output_bytes[core] += align(item->plan.c_bytes[c]);
        }
    }
    return input_bytes;
}

static int get_buffers(struct ork_fence *f, uint64_t input_bytes, struct ork_error *error)
{
    struct ork_pool *pool = &f->device->pool;
    const uint64_t command_bytes = (uint64_t)f->work.n_programs * ORK_PROGRAM_BYTES;
    int rc = ork_pool_get(pool, command_bytes, ORK_KIND_COMMANDS, f->domain, &f->commands);

    rc = rc < 0 ? rc : ork_pool_get(pool, input_bytes, ORK_KIND_INPUT, f->domain, &f->inputs);
    for (uint32_t c = 0; rc >= 0 && c < f->device->n_cores; c++)
        rc = ork_pool_get(pool, f->output_bytes[c], ORK_KIND_OUTPUT, f->domain, &f->outputs[c]);
    if (rc < 0)
        return ork_fail(error, rc,
                        "No device memory for a batch: %" PRIu64 " bytes of commands, %" PRIu64
                        " of inputs, %" PRIu64 " of outputs.",
                        command_bytes, input_bytes,
                        f->output_bytes[0] + f->output_bytes[1] + f->output_bytes[2]);
    return 0;
}

static int pack_inputs(struct ork_fence *f, uint64_t input_bytes)
{
    for (size_t i = 0; i < f->n_items; i++) {
        struct ork_batch_item *item = &f->items[i];

        if (item->call.input) {
            item->a_iova =
                item->call.input->bo.iova + item->call.input->parts[item->call.part].offset;
            continue;
        }
        item->a_iova = f->inputs.iova + item->a_offset;
        ork_pack_rows(f->device->kernels, &item->plan.slicing, &item->plan.rows,
                      (uint8_t *)f->inputs.map + item->a_offset, item->call.a);
    }
    if (!input_bytes)
        return 0;
    return f->device->transport->ops->bo_sync(f->device->transport, &f->inputs, 0, input_bytes,
                                              ORK_SYNC_TO_DEVICE);
}

/* Every buffer any program reads, each once is enough but more do no harm. */
static void list_reads(struct ork_fence *f)
{
    f->reads[f->n_reads++] = &f->commands;
    if (f->inputs.map)
        f->reads[f->n_reads++] = &f->inputs;
    for (size_t i = 0; i < f->n_items; i++) {
        const struct ork_matmul *call = &f->items[i].call;

        f->reads[f->n_reads++] = &call->weight->bo;
        if (call->input && (!i || call->input != f->items[i - 1].call.input))
            f->reads[f->n_reads++] = &call->input->bo;
    }
}

/* Programs sorted by core, batch order inside a core. */
static void list_programs(struct ork_fence *f)
{
    const uint32_t entries = ork_regcmd_entries(!f->device->options.no_rdma_block);

    for (uint32_t core = 0; core < ORK_MAX_CORES; core++) {
        f->core_first[core] = f->n_programs;
        for (size_t i = 0; i < f->n_items; i++) {
            const struct ork_plan *p = &f->items[i].plan;
            const uint32_t own = core - f->items[i].core_base; /* wraps: no such core */

            for (uint32_t t = own < p->n_cores ? p->core_first[own] : 0;
                 own < p->n_cores && t < p->core_first[own + 1]; t++) {
                const uint64_t offset = (uint64_t)f->n_programs * ORK_PROGRAM_BYTES;

                f->programs[f->n_programs++] = (struct ork_batch_program){
                    {(uint32_t)(f->commands.iova + offset), entries}, (uint32_t)i, t};
            }
        }
    }
    f->core_first[ORK_MAX_CORES] = f->n_programs;
}

/* Command memory is write-combined: whole aligned words, in order, never read. */
static void store_words(void *dst, const uint64_t *words, uint32_t n)
{
    volatile uint64_t *to = dst;

    for (uint32_t i = 0; i < n; i++)
        to[i] = words[i];
}

static int write_program(struct ork_fence *f, uint32_t index, bool more, struct ork_error *error)
{
    const struct ork_batch_program *p = &f->programs[index];
    const struct ork_batch_item *item = &f->items[p->item];
    const struct ork_tile *tile = &item->plan.tiles[p->tile];
    const uint32_t core = item->core_base + tile->core;
    const struct ork_addresses addresses = {
        item->a_iova + tile->a_offset, item->call.weight->bo.iova + tile->b_offset,
        f->outputs[core].iova + item->c_base[core] + tile->c_offset};
    const struct ork_recipe recipe = {!f->device->options.no_rdma_block,
                                      more ? f->programs[index + 1].ref.iova : 0, p->ref.n_entries};
    uint64_t words[ORK_PROGRAM_MAX];
    struct ork_geometry geometry;
    uint32_t bad_reg;

    ork_geometry_of_tile(&item->plan, tile, &geometry);
    if (ork_regcmd_emit(&geometry, &addresses, &recipe, words, &bad_reg) < 0)
        return ork_fail(error, -ERANGE, "A %s program does not fit register 0x%04x.",
                        ork_type_find(geometry.type)->name, bad_reg);
    store_words((uint8_t *)f->commands.map + (uint64_t)index * ORK_PROGRAM_BYTES, words,
                p->ref.n_entries);
    return 0;
}

/* Jobs are cut at the core's end and at the transport's limit; unchained where one kick reaches
 * one program only, a job is a single program. */
static uint32_t programs_per_job(const struct ork_fence *f)
{
    const struct ork_transport_info *info = &f->device->info;

    if (!f->chained && info->chain == ORK_CHAIN_REQUIRED)
        return 1;
    return info->max_programs ? info->max_programs : 1;
}

static int write_commands(struct ork_fence *f, struct ork_error *error)
{
    const uint32_t most = programs_per_job(f);

    for (uint32_t core = 0; core < ORK_MAX_CORES; core++) {
        for (uint32_t i = f->core_first[core]; i < f->core_first[core + 1]; i++) {
            const uint32_t in_job = (i - f->core_first[core]) % most;
            const bool more = f->chained && in_job + 1 < most && i + 1 < f->core_first[core + 1];
            int rc = write_program(f, i, more, error);

            if (rc < 0)
                return rc;
            if (!in_job)
                f->jobs[f->n_jobs++] = (struct ork_batch_job){.core = core, .first = i};
            f->jobs[f->n_jobs - 1].n++;
        }
    }
    return 0;
}

static bool may_chain(const struct ork_device *d, unsigned flags)
{
    struct ork_caps caps;

    if (d->info.chain == ORK_CHAIN_NONE || flags & ORK_BATCH_KICK)
        return false;
    ork_device_caps(d, &caps);
    return flags & ORK_BATCH_CHAIN || caps.selftest_chain == 1;
}

static int build(struct ork_fence *f, const struct ork_matmul *batch, struct ork_error *error)
{
    const bool whole = keep_whole(f->device, f->n_items);
    uint64_t input_bytes;
    int rc;

    for (size_t i = 0; i < f->n_items; i++) {
        rc = check_call(f->device, &batch[i], f->domain, f->flags, error);
        f->items[i].call = batch[i];
        if (!f->items[i].call.c_stride && rc >= 0)
            f->items[i].call.c_stride = batch[i].weight->n;
        rc = rc < 0 ? rc : plan_item(f, &f->items[i], whole, error);
        if (rc < 0)
            return rc;
    }
    f->programs = calloc(f->work.n_programs, sizeof(*f->programs));
    f->jobs = calloc(f->work.n_programs, sizeof(*f->jobs));
    f->reads = calloc(2 + 2 * f->n_items, sizeof(struct ork_bo *));
    if (!f->programs || !f->jobs || !f->reads)
        return ork_fail(error, -ENOMEM, "No memory for a batch of %u programs.",
                        f->work.n_programs);
    input_bytes = place(f);
    rc = get_buffers(f, input_bytes, error);
    if (rc < 0)
        return rc;
    f->chained = may_chain(f->device, f->flags);
    list_reads(f);
    list_programs(f);
    rc = pack_inputs(f, input_bytes);
    rc = rc < 0 ? ork_fail(error, rc, "Packed rows could not be handed to the device.")
                : write_commands(f, error);
    return rc;
}

int ork_batch_submit(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                     unsigned flags, struct ork_fence **out, struct ork_error *error)
{
    struct ork_fence *f;
    int rc;

    if (!n || !batch[0].weight)
        return ork_fail(error, -EINVAL, "An empty batch.");
    if (!(flags & ORK_BATCH_PROBE) && ork_device_health(device) < 0)
        return ork_fail(error, -EIO, "The NPU stopped answering; open it again.");
    f = calloc(1, sizeof(*f));
    if (f)
        f->items = calloc(n, sizeof(*f->items));
    if (!f || !f->items) {
        free(f);
        return ork_fail(error, -ENOMEM, "No memory for a batch of %zu.", n);
    }
    f->device = device;
    f->n_items = n;
    f->flags = flags;
    f->domain = batch[0].weight->bo.domain;
    rc = build(f, batch, error);
    if (rc >= 0 && device->options.verify)
        ork_verify_poison(f, 0xaa);
    if (rc >= 0)
        rc = ork_batch_start(f, error);
    if (rc < 0) {
        ork_batch_destroy(f);
        return rc;
    }
    *out = f;
    return 0;
}

void ork_batch_destroy(struct ork_fence *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_items; i++)
        ork_plan_fini(&f->items[i].plan);
    ork_pool_put(&f->device->pool, &f->commands, ORK_KIND_COMMANDS);
    ork_pool_put(&f->device->pool, &f->inputs, ORK_KIND_INPUT);
    for (uint32_t c = 0; c < ORK_MAX_CORES; c++)
        ork_pool_put(&f->device->pool, &f->outputs[c], ORK_KIND_OUTPUT);
    free(f->items);
    free(f->programs);
    free(f->jobs);
    free(f->reads);
    free(f);
}
