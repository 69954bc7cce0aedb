/* One job: from wherever the bytes are, to their place on the device. */
#include "device/arena_internal.h"

#include "base/error.h"
#include "device/device_check.h"

#include <assert.h>

/* Beyond this a dense weight is read by runs of rows. */
#define DENSE_READ_BYTES ((uint64_t)16 << 20)

uint64_t arena_load_buffer_bytes(const struct layers *l)
{
    uint64_t most = l->largest_slice;
    for (uint32_t i = 0; i < l->n_entries; i++) {
        const struct layer_entry *e = &l->entries[i];
        uint64_t row = ggml_row_size(e->src.tensor->type, e->src.tensor->ne[0]);
        if (e->src.site == GRAPH_NONE && most > DENSE_READ_BYTES && row > most)
            most = row;
    }
    uint64_t expert = 0;
    for (uint32_t i = 0; i < l->n_entries; i++)
        if (l->entries[i].src.site != GRAPH_NONE && l->entries[i].src.slice_bytes > expert)
            expert = l->entries[i].src.slice_bytes;
    uint64_t cap = expert > DENSE_READ_BYTES ? expert : DENSE_READ_BYTES;
    most = most < cap ? most : cap;
    return most ? pager_direct_buffer_bytes(most) : 0;
}

static int read_expert(struct loader *r, const struct layer_entry *e, uint32_t expert,
                       struct ggml_tensor *view, struct bmoe_error *err)
{
    const struct layer_source *s = &e->src;
    struct pager *pager = r->arena->config.pager;
    uint32_t extent = s->first_extent + expert;
    const void *data = s->first_extent == LAYERS_NONE ? NULL : pager_lend(pager, extent);
    if (data) {
        ggml_backend_tensor_set(view, data, 0, s->slice_bytes);
        pager_unpin(pager, &extent, 1);
        r->host_bytes += s->slice_bytes;
        return BMOE_OK;
    }
    int rc = pager_direct_read(pager, s->file, s->file_offset + expert * s->slice_bytes,
                               s->slice_bytes, r->buffer, &data, err);
    if (rc < 0)
        return rc;
    ggml_backend_tensor_set(view, data, 0, s->slice_bytes);
    r->read_bytes += s->slice_bytes;
    return BMOE_OK;
}

static int load_expert(struct loader *r, const struct layer_site *site, uint32_t expert,
                       struct bmoe_error *err)
{
    const struct layers *l = r->arena->config.layers;
    for (uint32_t i = 0; i < site->n_entries; i++) {
        const struct layer_entry *e = &l->entries[site->entries[i]];
        assert(e->device); /* experts are all on the device, or there is no arena */
        struct ggml_tensor view = device_expert_view(e->device, e->stride, expert);
        int rc = BMOE_OK;
        if (e->src.base) {
            ggml_backend_tensor_set(&view, e->src.base + expert * e->src.slice_bytes, 0,
                                    e->src.slice_bytes);
            r->host_bytes += e->src.slice_bytes;
        } else {
            rc = read_expert(r, e, expert, &view, err);
        }
        if (rc < 0)
            return rc;
    }
    return BMOE_OK;
}

/* A dense weight that is not in memory as the file has it. */
static int read_dense(struct loader *r, const struct layer_entry *e, struct bmoe_error *err)
{
    uint64_t whole = ggml_nbytes(e->device), step = whole;
    uint64_t row = ggml_row_size(e->device->type, e->device->ne[0]);
    if (whole > DENSE_READ_BYTES)
        step = row < DENSE_READ_BYTES ? DENSE_READ_BYTES / row * row : row;
    for (uint64_t at = 0; at < whole; at += step) {
        uint64_t bytes = whole - at < step ? whole - at : step;
        const void *data;
        int rc = pager_direct_read(r->arena->config.pager, e->src.file, e->src.file_offset + at,
                                   bytes, r->buffer, &data, err);
        if (rc < 0)
            return rc;
        ggml_backend_tensor_set(e->device, data, at, bytes);
    }
    r->read_bytes += whole;
    return BMOE_OK;
}

static int load_dense(struct loader *r, const struct layer_entry *e, struct bmoe_error *err)
{
    const char *data = e->carried ? e->carried : e->src.base;
    if (!e->device)
        return BMOE_OK;
    if (!data)
        return read_dense(r, e, err);
    ggml_backend_tensor_set(e->device, data, 0, ggml_nbytes(e->device));
    r->carried_bytes += ggml_nbytes(e->device);
    return BMOE_OK;
}

int arena_load(struct loader *r, const struct arena_job *job, struct bmoe_error *err)
{
    const struct layers *l = r->arena->config.layers;
    if (job->site == LAYERS_NONE)
        return load_dense(r, &l->entries[job->index], err);
    return load_expert(r, &l->sites[job->site], job->index, err);
}
