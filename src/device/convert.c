/* Row by row through floats, piece by piece from wherever the bytes are, so that little more than
 * the result is in memory. */
#include "device/convert.h"

#include "device/layer_bytes.h"

#include <stdlib.h>
#include <string.h>

static void convert_row(enum ggml_type from, enum ggml_type to, const char *row, float *floats,
                        char *out, int64_t cols)
{
    if (from == GGML_TYPE_F32)
        memcpy(floats, row, (size_t)cols * sizeof *floats);
    else
        ggml_get_type_traits(from)->to_float(row, floats, cols);
    if (to == GGML_TYPE_F32)
        memcpy(out, floats, (size_t)cols * sizeof *floats);
    else
        ggml_quantize_chunk(to, floats, out, 0, 1, cols, NULL);
}

static bool convert_all(const struct layer_source *s, struct pager *pager, enum ggml_type to,
                        char *buffer, float *floats, char *out)
{
    const struct ggml_tensor *t = s->tensor;
    const int64_t cols = t->ne[0];
    const size_t from_bytes = ggml_row_size(t->type, cols), to_bytes = ggml_row_size(to, cols);
    const uint64_t whole = ggml_nbytes(t), step = layer_piece_bytes(s);
    for (uint64_t at = 0; at < whole; at += step) {
        uint64_t bytes = whole - at < step ? whole - at : step;
        struct layer_bytes b;
        struct bmoe_error ignored;
        if (layer_bytes_get(&b, s, pager, at, bytes, buffer, &ignored) < 0)
            return false;
        const char *row = b.data;
        for (uint64_t end = at + bytes, r = at; r < end; r += from_bytes, out += to_bytes)
            convert_row(t->type, to, row + (r - at), floats, out, cols);
        layer_bytes_put(&b, pager);
    }
    return true;
}

char *convert_weight(const struct layer_source *s, struct pager *pager, enum ggml_type to)
{
    const struct ggml_tensor *t = s->tensor;
    if (t->type != GGML_TYPE_F32 && !ggml_get_type_traits(t->type)->to_float)
        return NULL;
    struct pager_buffers buffer;
    if (!pager_buffers_init(&buffer, 1, layer_buffer_bytes(s)))
        return NULL;
    float *floats = malloc((size_t)t->ne[0] * sizeof *floats);
    char *out = malloc((size_t)ggml_nrows(t) * ggml_row_size(to, t->ne[0]));
    if (!floats || !out || !convert_all(s, pager, to, buffer.base, floats, out)) {
        free(out);
        out = NULL;
    }
    free(floats);
    pager_buffers_fini(&buffer);
    return out;
}
