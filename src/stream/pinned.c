/* The ids are copied once per matmul: n_used times n_tokens numbers, next to nothing beside the
 * matmul. */
#include "stream/pinned.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

int pinned_matmul_init(struct pinned_matmul *m, struct pager *pager, size_t extents_cap,
                       size_t ids_cap, struct bmoe_error *err)
{
    *m = (struct pinned_matmul){.pager = pager, .cap = extents_cap, .ids_cap = ids_cap};
    m->extents = calloc(extents_cap, sizeof *m->extents);
    m->frame_of = calloc(extents_cap, sizeof *m->frame_of);
    m->ids = calloc(ids_cap, sizeof *m->ids);
    if (m->extents && m->frame_of && m->ids)
        return BMOE_OK;
    pinned_matmul_fini(m);
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for streaming");
}

void pinned_matmul_fini(struct pinned_matmul *m)
{
    free(m->extents);
    free(m->frame_of);
    free(m->ids);
    *m = (struct pinned_matmul){0};
}

static bool has(const uint64_t *set, uint32_t i)
{
    return !set || (set[i / 64] >> (i % 64) & 1);
}

int pinned_matmul_pin(struct pinned_matmul *m, const struct weight *item, const uint64_t *set,
                      struct bmoe_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < item->n_slices && n < m->cap; i++)
        if (has(set, i))
            m->extents[n++] = item->range.first_extent + i;
    int rc = pager_pin(m->pager, m->extents, n, err);
    if (rc == BMOE_OK)
        m->n = n;
    return rc;
}

/* Frames by slice; answers one more than the last of them. */
static uint32_t find_frames(struct pinned_matmul *m, const struct weight *item)
{
    uint32_t end = 0;
    for (size_t i = 0; i < m->n; i++) {
        uint32_t frame = pager_frame(m->pager, m->extents[i]);
        m->frame_of[m->extents[i] - item->range.first_extent] = frame;
        end = frame >= end ? frame + 1 : end;
    }
    return end;
}

static bool translate(struct pinned_matmul *m, const struct ggml_tensor *ids, uint32_t n_slices,
                      const uint64_t *set)
{
    int32_t *out = m->ids;
    for (int64_t t = 0; t < ids->ne[1]; t++) {
        const char *row = (const char *)ids->data + (size_t)t * ids->nb[1];
        for (int64_t k = 0; k < ids->ne[0]; k++) {
            int32_t id;
            memcpy(&id, row + (size_t)k * ids->nb[0], sizeof id);
            if (id < 0 || (uint32_t)id >= n_slices || !has(set, (uint32_t)id))
                return false;
            *out++ = (int32_t)m->frame_of[id];
        }
    }
    return true;
}

bool pinned_matmul_redirect(struct pinned_matmul *m, struct ggml_tensor *node,
                            const struct weight *item, const uint64_t *set)
{
    struct ggml_tensor *ids = node->src[2];
    uint32_t end = find_frames(m, item);
    if ((size_t)ggml_nelements(ids) > m->ids_cap || !translate(m, ids, item->n_slices, set))
        return false;
    m->frames = *ids;
    m->frames.data = m->ids;
    m->frames.nb[1] = m->frames.nb[0] * (size_t)ids->ne[0];
    m->frames.nb[2] = m->frames.nb[3] = m->frames.nb[1] * (size_t)ids->ne[1];
    m->node = node;
    m->own_ids = ids;
    m->n_expert = node->src[0]->ne[2];
    node->src[2] = &m->frames;
    node->src[0]->ne[2] = end;
    return true;
}

void pinned_matmul_release(struct pinned_matmul *m)
{
    if (m->node) {
        m->node->src[2] = m->own_ids;
        m->node->src[0]->ne[2] = m->n_expert;
        m->node = NULL;
    }
    if (m->n)
        pager_unpin(m->pager, m->extents, m->n);
    m->n = 0;
}
