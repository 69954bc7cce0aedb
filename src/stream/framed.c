/* The ids are copied once per matmul: n_used times n_tokens numbers, next to nothing beside the
 * matmul. */
#include "stream/framed.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

int framed_init(struct framed *p, struct pager *pager, size_t extents_cap, size_t ids_cap,
                struct bmoe_error *err)
{
    *p = (struct framed){.pager = pager, .extents_cap = extents_cap, .ids_cap = ids_cap};
    p->extents = calloc(FRAMED_MATMULS * extents_cap, sizeof *p->extents);
    p->ids = calloc(FRAMED_MATMULS * ids_cap, sizeof *p->ids);
    p->frame_of = calloc(extents_cap, sizeof *p->frame_of);
    if (!p->extents || !p->ids || !p->frame_of) {
        framed_fini(p);
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for streaming");
    }
    for (size_t i = 0; i < FRAMED_MATMULS; i++) {
        p->at[i].extents = p->extents + i * extents_cap;
        p->at[i].ids = p->ids + i * ids_cap;
    }
    return BMOE_OK;
}

void framed_fini(struct framed *p)
{
    free(p->extents);
    free(p->ids);
    free(p->frame_of);
    *p = (struct framed){0};
}

static bool has(const uint64_t *set, uint32_t i)
{
    return !set || (set[i / 64] >> (i % 64) & 1);
}

/* The one of this weight (NULL: a free one), or NULL. */
static struct framed_matmul *find(struct framed *p, const struct weight *item)
{
    for (size_t i = 0; i < FRAMED_MATMULS; i++)
        if (p->at[i].item == item)
            return &p->at[i];
    return NULL;
}

/* A free one with the extents of the set in it, not pinned yet; NULL: none is free. */
static struct framed_matmul *fill(struct framed *p, const struct weight *item, const uint64_t *set)
{
    struct framed_matmul *m = find(p, NULL);
    if (!m)
        return NULL;
    m->n = 0;
    for (uint32_t i = 0; i < item->n_slices && m->n < p->extents_cap; i++)
        if (has(set, i))
            m->extents[m->n++] = item->range.first_extent + i;
    return m;
}

int framed_wait(struct framed *p, const struct weight *item, const uint64_t *set,
                struct bmoe_error *err)
{
    struct framed_matmul *m = find(p, item);
    if (!m) {
        m = fill(p, item, set);
        if (!m)
            return error_set(err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST,
                             "more than %d matmuls wait to be computed", FRAMED_MATMULS);
        int rc = pager_pin(p->pager, m->extents, m->n, err);
        if (rc < 0)
            return rc;
        m->item = item;
    }
    m->asked = true;
    return BMOE_OK;
}

bool framed_ahead(struct framed *p, const struct weight *item, const uint64_t *set)
{
    struct framed_matmul *m = find(p, item) ? NULL : fill(p, item, set);
    if (!m || !pager_pin_resident(p->pager, m->extents, m->n))
        return false;
    m->item = item;
    m->asked = false;
    return true;
}

/* Frames by slice; answers one more than the last of them. */
static uint32_t find_frames(struct framed *p, const struct framed_matmul *m)
{
    uint32_t end = 0;
    for (size_t i = 0; i < m->n; i++) {
        uint32_t frame = pager_frame(p->pager, m->extents[i]);
        p->frame_of[m->extents[i] - m->item->range.first_extent] = frame;
        end = frame >= end ? frame + 1 : end;
    }
    return end;
}

static bool translate(const struct framed *p, const struct framed_matmul *m,
                      const struct ggml_tensor *ids, const uint64_t *set)
{
    int32_t *out = m->ids;
    for (int64_t t = 0; t < ids->ne[1]; t++) {
        const char *row = (const char *)ids->data + (size_t)t * ids->nb[1];
        for (int64_t k = 0; k < ids->ne[0]; k++) {
            int32_t id;
            memcpy(&id, row + (size_t)k * ids->nb[0], sizeof id);
            if (id < 0 || (uint32_t)id >= m->item->n_slices || !has(set, (uint32_t)id))
                return false;
            *out++ = (int32_t)p->frame_of[id];
        }
    }
    return true;
}

bool framed_redirect(struct framed *p, struct ggml_tensor *node, const struct weight *item,
                     const uint64_t *set)
{
    struct framed_matmul *m = find(p, item);
    struct ggml_tensor *ids = node->src[2];
    if (!m || m->node || (size_t)ggml_nelements(ids) > p->ids_cap)
        return false;
    uint32_t end = find_frames(p, m);
    if (!translate(p, m, ids, set))
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

static void release(struct framed *p, struct framed_matmul *m)
{
    if (m->node) {
        m->node->src[2] = m->own_ids;
        m->node->src[0]->ne[2] = m->n_expert;
    }
    pager_unpin(p->pager, m->extents, m->n);
    m->node = NULL;
    m->item = NULL;
}

void framed_computed(struct framed *p)
{
    for (size_t i = 0; i < FRAMED_MATMULS; i++)
        if (p->at[i].item && p->at[i].asked)
            release(p, &p->at[i]);
}

void framed_release(struct framed *p)
{
    for (size_t i = 0; i < FRAMED_MATMULS; i++)
        if (p->at[i].item)
            release(p, &p->at[i]);
}
