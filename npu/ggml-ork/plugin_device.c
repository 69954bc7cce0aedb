/* The device as ggml asks about it: name, memory, properties, buffer types. An integrated GPU by
 * type, so that -ngl places layers on it and its memory counts as the host's. */
#include <unistd.h>

#include "plugin.h"

static const char *device_name(ggml_backend_dev_t device)
{
    (void)device;
    return "ORK0";
}

static const char *device_description(ggml_backend_dev_t device)
{
    const struct plugin *p = device->context;

    return p->description;
}

/* Addresses or RAM, whichever is less: weights lie in RAM, at 32-bit addresses of each domain. */
static void device_memory(ggml_backend_dev_t device, size_t *available, size_t *total)
{
    struct plugin *p = device->context;
    const uint64_t addresses = p->caps.iova_bytes * p->budget.n;
    const uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t left = domain_budget_left(&p->budget);
    struct ork_stats stats;
    uint64_t unused;

    ork_device_stats(p->npu, &stats);
    *total = addresses < ram ? addresses : ram;
    unused = stats.bo_bytes < *total ? *total - stats.bo_bytes : 0;
    *available = left < unused ? left : unused;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device)
{
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_IGPU;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props)
{
    props->name = device_name(device);
    props->description = device_description(device);
    props->type = device_type(device);
    device_memory(device, &props->memory_free, &props->memory_total);
    props->device_id = NULL;
    props->caps = (struct ggml_backend_dev_caps){.async = false};
}

static ggml_backend_t device_init_backend(ggml_backend_dev_t device, const char *params)
{
    (void)params;
    return graph_run_create(device->context);
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device)
{
    struct plugin *p = device->context;

    return &p->plain;
}

static bool device_supports_op(ggml_backend_dev_t device, const struct ggml_tensor *op)
{
    return op_support_ask(device->context, op);
}

/* Activations are read where they lie, so any memory of the host will do. */
static bool device_supports_buft(ggml_backend_dev_t device, ggml_backend_buffer_type_t type)
{
    const struct plugin *p = device->context;

    return type == &p->packed || ggml_backend_buft_is_host(type);
}

void plugin_device_init(struct plugin *p)
{
    p->device = (struct ggml_backend_device){.iface = {.get_name = device_name,
                                                       .get_description = device_description,
                                                       .get_memory = device_memory,
                                                       .get_type = device_type,
                                                       .get_props = device_props,
                                                       .init_backend = device_init_backend,
                                                       .get_buffer_type = device_buffer_type,
                                                       .supports_op = device_supports_op,
                                                       .supports_buft = device_supports_buft},
                                             .reg = &p->reg,
                                             .context = p};
}
