/*
 * The buffer type is found through the CPU backend's registry, as libllama finds it. A buffer of
 * one page serves any number of tensors: init_tensor only chooses the kernels and set_tensor writes
 * at tensor->data, wherever that is (docs/seam.md: repack-*).
 */
#include "stream/repack.h"

#include "base/error.h"

#include <string.h>

static ggml_backend_buffer_type_t find_type(void)
{
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!cpu)
        return NULL;
    ggml_backend_dev_get_extra_bufts_t get_extra = NULL;
    void *address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                      "ggml_backend_dev_get_extra_bufts");
    memcpy(&get_extra, &address, sizeof get_extra); /* ISO C has no cast from data to function */
    ggml_backend_buffer_type_t *types = get_extra ? get_extra(cpu) : NULL;
    for (; types && *types; types++)
        if (strcmp(ggml_backend_buft_name(*types), "CPU_REPACK") == 0)
            return *types;
    return NULL;
}

int repack_open(struct repack *r, struct bmoe_error *err)
{
    *r = (struct repack){0};
    ggml_backend_buffer_type_t type = find_type();
    if (!type)
        return BMOE_OK;
    r->buffer = ggml_backend_buft_alloc_buffer(type, 4096);
    if (!r->buffer)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                         "no memory for a page of ggml's CPU_REPACK buffer type");
    ggml_backend_buffer_set_usage(r->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return BMOE_OK;
}

void repack_close(struct repack *r)
{
    if (r->buffer)
        ggml_backend_buffer_free(r->buffer);
    r->buffer = NULL;
    for (unsigned i = 0; i < r->n_layouts; i++)
        tile_map_fini(&r->layout[i].map);
    r->n_layouts = 0;
}

void *repack_traits(const struct repack *r, const struct ggml_tensor *weight)
{
    if (!r->buffer)
        return NULL;
    struct ggml_tensor probe = *weight;
    probe.buffer = r->buffer;
    probe.extra = NULL;
    if (ggml_backend_buffer_init_tensor(r->buffer, &probe) != GGML_STATUS_SUCCESS)
        return NULL;
    return probe.extra;
}

/* Rows of some width, written by ggml. */
static void by_ggml(const struct repack_rows *rr, void *dst, const void *src, int64_t columns,
                    size_t rows)
{
    struct ggml_tensor t = rr->rows;
    size_t row_bytes = ggml_row_size(t.type, columns);
    t.data = dst;
    t.ne[0] = columns;
    t.ne[1] = (int64_t)rows;
    t.nb[1] = row_bytes;
    t.nb[2] = t.nb[3] = rows * row_bytes;
    ggml_backend_tensor_set(&t, src, 0, rows * row_bytes);
}

static void learn_from(void *ctx, void *dst, const void *src, uint32_t rows, uint32_t blocks)
{
    const struct repack_rows *rr = ctx;
    by_ggml(rr, dst, src, blocks * ggml_blck_size(rr->rows.type), rows);
}

static const struct tile_map *layout_of(struct repack *r, struct repack_rows *rr)
{
    const struct ggml_tensor *t = &rr->rows;
    struct repack_layout *l = r->layout;
    for (; l < r->layout + r->n_layouts; l++)
        if (l->type == t->type && l->columns == t->ne[0] && l->traits == t->extra)
            return l->map.group_rows ? &l->map : NULL;
    if (r->n_layouts == REPACK_LAYOUTS)
        return NULL;
    r->n_layouts++;
    *l = (struct repack_layout){.type = t->type, .columns = t->ne[0], .traits = t->extra};
    bool known = tile_map_learn(&l->map, learn_from, rr, (uint32_t)ggml_type_size(t->type),
                                (uint32_t)(t->ne[0] / ggml_blck_size(t->type)));
    return known ? &l->map : NULL;
}

void repack_rows_init(struct repack_rows *rr, struct repack *r, const struct ggml_tensor *weight,
                      void *traits)
{
    rr->rows = *weight;
    rr->rows.buffer = r->buffer;
    rr->rows.extra = traits;
    rr->rows.ne[2] = rr->rows.ne[3] = 1;
    rr->row_bytes = ggml_row_size(weight->type, weight->ne[0]);
    rr->map = layout_of(r, rr);
}

void repack_carry(void *ctx, uint32_t slice, void *dst, const void *src, size_t bytes)
{
    (void)slice;
    const struct repack_rows *rr = ctx;
    size_t rows = bytes / rr->row_bytes;
    if (rr->map)
        tile_map_apply(rr->map, dst, src, rows);
    else
        by_ggml(rr, dst, src, rr->rows.ne[0], rows);
}

void repack_restore(const void *ctx, void *dst, const void *src, size_t bytes)
{
    const struct repack_rows *rr = ctx;
    tile_map_undo(rr->map, dst, src, bytes / rr->row_bytes);
}
