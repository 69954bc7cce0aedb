/* Memory first; a slice that the pager does not have at the moment is read past it. */
#include "device/layer_bytes.h"

/* Beyond this a dense weight is brought by runs of rows. */
#define PIECE_BYTES ((uint64_t)16 << 20)

uint64_t layer_piece_bytes(const struct layer_source *s)
{
    if (s->site != GRAPH_NONE || s->slice_bytes <= PIECE_BYTES)
        return s->slice_bytes;
    uint64_t rows = s->restore ? s->restore_rows : 1;
    uint64_t unit = rows * ggml_row_size(s->tensor->type, s->tensor->ne[0]);
    return unit < PIECE_BYTES ? PIECE_BYTES / unit * unit : unit;
}

uint64_t layer_buffer_bytes(const struct layer_source *s)
{
    return s->base && !s->restore ? 0 : pager_direct_buffer_bytes(layer_piece_bytes(s));
}

static const void *in_memory(struct layer_bytes *out, const struct layer_source *s,
                             struct pager *pager, uint64_t at)
{
    if (s->base)
        return s->base + at;
    if (s->first_extent == LAYERS_NONE)
        return NULL;
    uint32_t extent = s->first_extent + (uint32_t)(at / s->slice_bytes);
    const void *data = pager_lend(pager, extent);
    if (data)
        out->lent = extent;
    return data;
}

int layer_bytes_get(struct layer_bytes *out, const struct layer_source *s, struct pager *pager,
                    uint64_t at, uint64_t bytes, char *buffer, struct bmoe_error *err)
{
    *out = (struct layer_bytes){.lent = LAYERS_NONE};
    out->data = in_memory(out, s, pager, at);
    if (!out->data) {
        out->read = true;
        return pager_direct_read(pager, s->file, s->file_offset + at, bytes, buffer, &out->data,
                                 err);
    }
    if (!s->restore)
        return BMOE_OK;
    s->restore(s->restore_ctx, buffer, out->data, bytes);
    layer_bytes_put(out, pager);
    out->lent = LAYERS_NONE;
    out->data = buffer;
    return BMOE_OK;
}

void layer_bytes_put(const struct layer_bytes *b, struct pager *pager)
{
    if (b->lent != LAYERS_NONE)
        pager_unpin(pager, &b->lent, 1);
}
