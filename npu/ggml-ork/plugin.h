/* What the parts of the plug-in share: the one device, its two buffer types, and the doors between
 * the files.
 *
 * There is one struct plugin per process. It is made by the first ggml_backend_init and lives as
 * long as the process, as ggml's registry demands; afterwards it is read-only but for the lock, and
 * the NPU behind it takes calls from any thread. The buffer types and the device are the objects
 * that ggml passes around, so their `context` points back here. */
#ifndef GGML_ORK_PLUGIN_H
#define GGML_ORK_PLUGIN_H

#include <pthread.h>

#include "ggml_backend_abi.h"
#include "ork.h"
#include "packed_weight.h"
#include "placement.h"
#include "plugin_options.h"
#include "workers.h"

/* struct plugin_counts, as it grows. */
struct plugin_counters {
    atomic_uint_least64_t npu_products;
    atomic_uint_least64_t host_products;
    atomic_uint_least64_t rows_coded;
    atomic_uint_least64_t rows_shared;
    atomic_uint_least64_t nodes;
    atomic_uint_least64_t norms_fused;
    atomic_uint_least64_t plain_skipped;
};

struct plugin {
    struct ggml_backend_reg reg;
    struct ggml_backend_device device;      /* valid when npu is set */
    struct ggml_backend_buffer_type plain;  /* memory the host reads and writes */
    struct ggml_backend_buffer_type packed; /* weights in the NPU's layout */
    ggml_backend_buffer_type_t extra_bufts[2];
    struct plugin_options options;
    struct ork_device *npu; /* NULL: no device is registered */
    struct ork_caps caps;
    char description[160];
    struct weight_format format;
    struct placement_rules rules;
    struct workers *workers;
    struct domain_budget budget;
    struct pack_cache *cache; /* NULL = none */
    bool uses_proven;         /* graph_uses.h */
    struct plugin_counters counters;
    atomic_int n_streams;
    /* Guards the NPU's queue: a product has it to itself, so that the number of jobs a transport
     * holds bounds one batch and not the streams. */
    pthread_mutex_t product_lock;
};

/* plugin_device.c: fills in p->device. */
void plugin_device_init(struct plugin *p);
/* plain_buffer.c, packed_buffer.c: fill in p->plain and p->packed. */
void plain_buffer_type_init(struct plugin *p);
void packed_buffer_type_init(struct plugin *p);

/* op_support.c: whether this op, with its sources where they are now, is computed here. */
bool op_support_ask(const struct plugin *p, const struct ggml_tensor *op);

/* plugin_entry.c: where its weights are made. */
struct packed_place plugin_place(struct plugin *p);

/* graph_run.c: a new stream on the device, or NULL. */
ggml_backend_t graph_run_create(struct plugin *p);

/* plugin_log.c: one sentence through ggml's own log; nowhere else. */
void plugin_log(enum ggml_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
