/* One job: from wherever the bytes are, to their place on the device. */
#include "device/arena_internal.h"

#include "device/device_check.h"
#include "device/layer_bytes.h"

#include <assert.h>

uint64_t arena_load_buffer_bytes(const struct layers *l)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->n_entries; i++) {
        const struct layer_entry *e = &l->entries[i];
        uint64_t bytes = e->device && !e->carried ? layer_buffer_bytes(&e->src) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* `bytes` of the weight from `at` on to the same place of a tensor on the device. */
static int bring(struct loader *r, const struct layer_source *s, uint64_t at, uint64_t bytes,
                 struct ggml_tensor *to, uint64_t to_at, uint64_t *from_memory,
                 struct bmoe_error *err)
{
    struct pager *pager = r->arena->config.pager;
    struct layer_bytes b;
    int rc = layer_bytes_get(&b, s, pager, at, bytes, r->buffer, err);
    if (rc < 0)
        return rc;
    ggml_backend_tensor_set(to, b.data, to_at, bytes);
    layer_bytes_put(&b, pager);
    *(b.read ? &r->read_bytes : from_memory) += bytes;
    return BMOE_OK;
}

static int load_expert(struct loader *r, const struct layer_site *site, uint32_t expert,
                       struct bmoe_error *err)
{
    const struct layers *l = r->arena->config.layers;
    int rc = BMOE_OK;
    for (uint32_t i = 0; i < site->n_entries && rc == BMOE_OK; i++) {
        const struct layer_entry *e = &l->entries[site->entries[i]];
        assert(e->device); /* experts are all on the device, or there is no arena */
        struct ggml_tensor view = device_expert_view(e->device, e->stride, expert);
        uint64_t bytes = e->src.slice_bytes;
        rc = bring(r, &e->src, expert * bytes, bytes, &view, 0, &r->host_bytes, err);
    }
    return rc;
}

static int load_dense(struct loader *r, const struct layer_entry *e, struct bmoe_error *err)
{
    if (!e->device)
        return BMOE_OK;
    uint64_t whole = ggml_nbytes(e->device);
    if (e->carried || (e->src.base && !e->src.restore)) {
        ggml_backend_tensor_set(e->device, e->carried ? e->carried : e->src.base, 0, whole);
        r->carried_bytes += whole;
        return BMOE_OK;
    }
    uint64_t step = layer_piece_bytes(&e->src);
    int rc = BMOE_OK;
    for (uint64_t at = 0; at < whole && rc == BMOE_OK; at += step) {
        uint64_t bytes = whole - at < step ? whole - at : step;
        rc = bring(r, &e->src, at, bytes, e->device, at, &r->carried_bytes, err);
    }
    return rc;
}

int arena_load(struct loader *r, const struct arena_job *job, struct bmoe_error *err)
{
    const struct layers *l = r->arena->config.layers;
    if (job->site == LAYERS_NONE)
        return load_dense(r, &l->entries[job->index], err);
    return load_expert(r, &l->sites[job->site], job->index, err);
}
