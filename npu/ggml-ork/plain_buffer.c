/* The default buffer type: host memory for activations, the KV cache, compute buffers, norms and
 * scales. The NPU reads packed copies only, so nothing here needs device addresses, and the CPU
 * backend works in the same bytes without a copy. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define PLAIN_ALIGN 64

static void plain_free(ggml_backend_buffer_t buffer)
{
    free(buffer->context);
}

static void *plain_base(ggml_backend_buffer_t buffer)
{
    return buffer->context;
}

static void plain_memset(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, uint8_t value,
                         size_t offset, size_t bytes)
{
    (void)buffer;
    memset((char *)tensor->data + offset, value, bytes);
}

static void plain_set(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, const void *data,
                      size_t offset, size_t bytes)
{
    (void)buffer;
    memcpy((char *)tensor->data + offset, data, bytes);
}

static void plain_get(ggml_backend_buffer_t buffer, const struct ggml_tensor *tensor, void *data,
                      size_t offset, size_t bytes)
{
    (void)buffer;
    memcpy(data, (const char *)tensor->data + offset, bytes);
}

static void plain_clear(ggml_backend_buffer_t buffer, uint8_t value)
{
    memset(buffer->context, value, buffer->size);
}

static const char *plain_name(ggml_backend_buffer_type_t type)
{
    (void)type;
    return "ORK0";
}

static ggml_backend_buffer_t plain_alloc(ggml_backend_buffer_type_t type, size_t bytes)
{
    static const struct ggml_backend_buffer_i iface = {.free_buffer = plain_free,
                                                       .get_base = plain_base,
                                                       .memset_tensor = plain_memset,
                                                       .set_tensor = plain_set,
                                                       .get_tensor = plain_get,
                                                       .clear = plain_clear};
    void *memory;
    ggml_backend_buffer_t buffer;

    if (posix_memalign(&memory, PLAIN_ALIGN, bytes ? bytes : 1) != 0) {
        plugin_log(GGML_LOG_LEVEL_ERROR, "no memory for a buffer of %zu bytes.", bytes);
        return NULL;
    }
    buffer = ggml_backend_buffer_init(type, iface, memory, bytes);
    if (!buffer)
        free(memory);
    return buffer;
}

static size_t plain_alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return PLAIN_ALIGN;
}

static bool plain_is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return true;
}

void plain_buffer_type_init(struct plugin *p)
{
    p->plain = (struct ggml_backend_buffer_type){.iface = {.get_name = plain_name,
                                                           .alloc_buffer = plain_alloc,
                                                           .get_alignment = plain_alignment,
                                                           .is_host = plain_is_host},
                                                 .device = &p->device,
                                                 .context = p};
}
