/* Row by row through floats, so that little more than the result is in memory. */
#include "device/convert.h"

#include <stdlib.h>
#include <string.h>

char *convert_weight(const struct ggml_tensor *t, const char *data, enum ggml_type to)
{
    const struct ggml_type_traits *from = ggml_get_type_traits(t->type);
    int64_t rows = ggml_nrows(t), cols = t->ne[0];
    size_t from_bytes = ggml_row_size(t->type, cols), to_bytes = ggml_row_size(to, cols);
    if (t->type != GGML_TYPE_F32 && !from->to_float)
        return NULL;
    float *floats = malloc((size_t)cols * sizeof *floats);
    char *out = malloc((size_t)rows * to_bytes);
    if (!floats || !out) {
        free(floats);
        free(out);
        return NULL;
    }
    for (int64_t r = 0; r < rows; r++) {
        const char *row = data + (size_t)r * from_bytes;
        if (t->type == GGML_TYPE_F32)
            memcpy(floats, row, from_bytes);
        else
            from->to_float(row, floats, cols);
        if (to == GGML_TYPE_F32)
            memcpy(out + (size_t)r * to_bytes, floats, to_bytes);
        else
            ggml_quantize_chunk(to, floats, out + (size_t)r * to_bytes, 0, 1, cols, NULL);
    }
    free(floats);
    return out;
}
