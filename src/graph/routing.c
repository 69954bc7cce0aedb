/* Host memory is read in place; device memory in one transfer of the tensor's whole extent. */
#include "graph/routing.h"

#include <ggml-backend.h>
#include <string.h>

static bool on_host(const struct ggml_tensor *ids)
{
    struct ggml_backend_buffer *buffer = ids->view_src ? ids->view_src->buffer : ids->buffer;
    return !buffer || ggml_backend_buffer_is_host(buffer);
}

/* Rows [from, ne[1]); answers how many experts there are. */
static uint32_t collect(uint64_t *set, uint32_t n_expert, const struct ggml_tensor *ids,
                        int64_t from, const char *base)
{
    uint32_t n = 0;
    memset(set, 0, ROUTING_WORDS(n_expert) * sizeof *set);
    for (int64_t t = from; t < ids->ne[1]; t++) {
        for (int64_t k = 0; k < ids->ne[0]; k++) {
            int32_t id;
            memcpy(&id, base + (size_t)t * ids->nb[1] + (size_t)k * ids->nb[0], sizeof id);
            if (id < 0 || (uint32_t)id >= n_expert)
                continue;
            uint64_t bit = (uint64_t)1 << (id % 64);
            n += !(set[id / 64] & bit);
            set[id / 64] |= bit;
        }
    }
    return n;
}

bool routing_read(struct routing *out, uint64_t *set, uint32_t n_expert,
                  const struct ggml_tensor *ids, void *scratch, size_t scratch_bytes)
{
    if (!on_host(ids)) {
        if (ggml_nbytes(ids) > scratch_bytes)
            return false;
        ggml_backend_tensor_get(ids, scratch, 0, ggml_nbytes(ids));
    }
    *out = (struct routing){.n_tokens = (uint32_t)ids->ne[1], .n_used = (uint32_t)ids->ne[0]};
    out->n_routed = collect(set, n_expert, ids, 0, on_host(ids) ? ids->data : scratch);
    return true;
}

void routing_last(uint64_t *set, uint32_t n_expert, const struct ggml_tensor *ids, int64_t n_rows,
                  const void *scratch)
{
    int64_t from = ids->ne[1] > n_rows ? ids->ne[1] - n_rows : 0;
    collect(set, n_expert, ids, from, on_host(ids) ? ids->data : scratch);
}
