/* The interface between ggml and a backend that is loaded at run time, API version 3 (ggml 0.27).
 *
 * ggml's development packages carry its public headers only, so whoever writes a backend outside
 * its tree declares these structs himself. Every offset is asserted: ggml reads the same bytes. The
 * loader refuses a backend whose api_version is not its own, so a ggml with another layout never
 * gets as far as calling one of these.
 *
 * Reading: an `_i` struct is a table of functions; the struct of the same name without it is the
 * object that ggml passes around. "May be NULL" says that ggml has a default or does without. The
 * asserts hold where pointers have 64 bits, the only places this is built for. */
#ifndef GGML_BACKEND_ABI_H
#define GGML_BACKEND_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "ggml.h"

#define GGML_BACKEND_ABI_VERSION 3

/* ---- buffer types ------------------------------------------------------------------------ */

struct ggml_backend_buffer_type_i {
    const char *(*get_name)(ggml_backend_buffer_type_t type);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t type, size_t bytes);
    ggml_backend_buffer_t (*alloc_buffer_n)(ggml_backend_buffer_type_t type, /* may be NULL */
                                            struct ggml_tensor **tensors, int n_tensors);
    size_t (*get_alignment)(ggml_backend_buffer_type_t type);
    size_t (*get_max_size)(ggml_backend_buffer_type_t type);  /* may be NULL: no limit */
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t type, /* may be NULL: the tensor's bytes */
                             const struct ggml_tensor *tensor);
    size_t (*get_alloc_size_n)(ggml_backend_buffer_type_t type, /* may be NULL */
                               struct ggml_tensor **tensors, int n_tensors);
    bool (*is_host)(ggml_backend_buffer_type_t type); /* may be NULL: no */
};

struct ggml_backend_buffer_type {
    struct ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t device;
    void *context;
};

/* ---- buffers ----------------------------------------------------------------------------- */

struct ggml_backend_buffer_i {
    void (*free_buffer)(ggml_backend_buffer_t buffer); /* may be NULL */
    void *(*get_base)(ggml_backend_buffer_t buffer);
    enum ggml_status (*init_tensor)(ggml_backend_buffer_t buffer, /* may be NULL */
                                    struct ggml_tensor *tensor);
    void (*memset_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, uint8_t value,
                          size_t offset, size_t bytes);
    void (*set_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, const void *data,
                       size_t offset, size_t bytes);
    void (*get_tensor)(ggml_backend_buffer_t buffer, const struct ggml_tensor *tensor, void *data,
                       size_t offset, size_t bytes);
    void (*set_tensor_2d)(ggml_backend_buffer_t buffer,
                          struct ggml_tensor *tensor, /* may be NULL */
                          const void *data, size_t offset, size_t bytes, size_t n_copies,
                          size_t stride_tensor, size_t stride_data);
    void (*get_tensor_2d)(ggml_backend_buffer_t buffer, /* may be NULL */
                          const struct ggml_tensor *tensor, void *data, size_t offset, size_t bytes,
                          size_t n_copies, size_t stride_tensor, size_t stride_data);
    bool (*cpy_tensor)(ggml_backend_buffer_t buffer,
                       const struct ggml_tensor *src, /* may be NULL */
                       struct ggml_tensor *dst);
    void (*clear)(ggml_backend_buffer_t buffer, uint8_t value);
    void (*reset)(ggml_backend_buffer_t buffer); /* may be NULL */
};

/* Made by ggml_backend_buffer_init only; freed by ggml after free_buffer. */
struct ggml_backend_buffer {
    struct ggml_backend_buffer_i iface;
    ggml_backend_buffer_type_t buft;
    void *context;
    size_t size;
    enum ggml_backend_buffer_usage usage;
};

GGML_API ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t type,
                                                        struct ggml_backend_buffer_i iface,
                                                        void *context, size_t bytes);

/* ---- backends (streams) ------------------------------------------------------------------ */

struct ggml_backend_graph_optimize_params {
    void (*add_alloc_dep)(void *user_data, struct ggml_tensor *tensor, struct ggml_tensor *until);
    void *user_data;
};

struct ggml_backend_i {
    const char *(*get_name)(ggml_backend_t backend);
    void (*free)(ggml_backend_t backend);
    /* All of these may be NULL; then the synchronous calls of the buffer are used. */
    void (*set_tensor_async)(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data,
                             size_t offset, size_t bytes);
    void (*get_tensor_async)(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data,
                             size_t offset, size_t bytes);
    void (*set_tensor_2d_async)(ggml_backend_t backend, struct ggml_tensor *tensor,
                                const void *data, size_t offset, size_t bytes, size_t n_copies,
                                size_t stride_tensor, size_t stride_data);
    void (*get_tensor_2d_async)(ggml_backend_t backend, const struct ggml_tensor *tensor,
                                void *data, size_t offset, size_t bytes, size_t n_copies,
                                size_t stride_tensor, size_t stride_data);
    bool (*cpy_tensor_async)(ggml_backend_t from, ggml_backend_t to, const struct ggml_tensor *src,
                             struct ggml_tensor *dst);
    void (*synchronize)(ggml_backend_t backend);
    /* Recorded graphs, all NULL or none. */
    ggml_backend_graph_plan_t (*graph_plan_create)(ggml_backend_t backend,
                                                   const struct ggml_cgraph *graph);
    void (*graph_plan_free)(ggml_backend_t backend, ggml_backend_graph_plan_t plan);
    void (*graph_plan_update)(ggml_backend_t backend, ggml_backend_graph_plan_t plan,
                              const struct ggml_cgraph *graph);
    enum ggml_status (*graph_plan_compute)(ggml_backend_t backend, ggml_backend_graph_plan_t plan);
    enum ggml_status (*graph_compute)(ggml_backend_t backend, struct ggml_cgraph *graph);
    void (*event_record)(ggml_backend_t backend, ggml_backend_event_t event); /* may be NULL */
    void (*event_wait)(ggml_backend_t backend, ggml_backend_event_t event);   /* may be NULL */
    void (*graph_optimize)(ggml_backend_t backend, struct ggml_cgraph *graph, /* may be NULL */
                           struct ggml_backend_graph_optimize_params *params);
};

/* Allocated and freed by the backend. */
struct ggml_backend {
    ggml_guid_t guid;
    struct ggml_backend_i iface;
    ggml_backend_dev_t device;
    void *context;
};

struct ggml_backend_event {
    struct ggml_backend_device *device;
    void *context;
};

/* ---- devices ----------------------------------------------------------------------------- */

struct ggml_backend_device_i {
    const char *(*get_name)(ggml_backend_dev_t device);
    const char *(*get_description)(ggml_backend_dev_t device);
    void (*get_memory)(ggml_backend_dev_t device, size_t *free, size_t *total);
    enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t device);
    void (*get_props)(ggml_backend_dev_t device, struct ggml_backend_dev_props *props);
    ggml_backend_t (*init_backend)(ggml_backend_dev_t device, const char *params);
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t device);
    ggml_backend_buffer_type_t (*get_host_buffer_type)(ggml_backend_dev_t device); /* may be NULL */
    ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t device,       /* may be NULL */
                                                  void *memory, size_t bytes,
                                                  size_t max_tensor_bytes);
    bool (*supports_op)(ggml_backend_dev_t device, const struct ggml_tensor *op);
    bool (*supports_buft)(ggml_backend_dev_t device, ggml_backend_buffer_type_t type);
    bool (*offload_op)(ggml_backend_dev_t device, const struct ggml_tensor *op); /* may be NULL */
    ggml_backend_event_t (*event_new)(ggml_backend_dev_t device);                /* may be NULL */
    void (*event_free)(ggml_backend_dev_t device, ggml_backend_event_t event);   /* may be NULL */
    void (*event_synchronize)(ggml_backend_dev_t device, ggml_backend_event_t event); /* same */
};

struct ggml_backend_device {
    struct ggml_backend_device_i iface;
    ggml_backend_reg_t reg;
    void *context;
};

/* ---- the registry ------------------------------------------------------------------------ */

struct ggml_backend_reg_i {
    const char *(*get_name)(ggml_backend_reg_t reg);
    size_t (*get_device_count)(ggml_backend_reg_t reg);
    ggml_backend_dev_t (*get_device)(ggml_backend_reg_t reg, size_t index);
    void *(*get_proc_address)(ggml_backend_reg_t reg, const char *name); /* may be NULL */
};

/* What ggml_backend_init, the one symbol a backend must export, returns. */
struct ggml_backend_reg {
    int api_version;
    struct ggml_backend_reg_i iface;
    void *context;
};

/* ---- the bytes ggml 0.27 reads ----------------------------------------------------------- */

#define GGML_ABI_AT(type, member, offset)                                                          \
    static_assert(offsetof(struct type, member) == (offset), #type "." #member " has moved")
#define GGML_ABI_SIZE(type, bytes)                                                                 \
    static_assert(sizeof(struct type) == (bytes), #type " has another size")

GGML_ABI_AT(ggml_backend_buffer_type, iface.get_name, 0x00);
GGML_ABI_AT(ggml_backend_buffer_type, iface.alloc_buffer, 0x08);
GGML_ABI_AT(ggml_backend_buffer_type, iface.alloc_buffer_n, 0x10);
GGML_ABI_AT(ggml_backend_buffer_type, iface.get_alignment, 0x18);
GGML_ABI_AT(ggml_backend_buffer_type, iface.get_max_size, 0x20);
GGML_ABI_AT(ggml_backend_buffer_type, iface.get_alloc_size, 0x28);
GGML_ABI_AT(ggml_backend_buffer_type, iface.get_alloc_size_n, 0x30);
GGML_ABI_AT(ggml_backend_buffer_type, iface.is_host, 0x38);
GGML_ABI_AT(ggml_backend_buffer_type, device, 0x40);
GGML_ABI_AT(ggml_backend_buffer_type, context, 0x48);
GGML_ABI_SIZE(ggml_backend_buffer_type, 0x50);

GGML_ABI_AT(ggml_backend_buffer, iface.free_buffer, 0x00);
GGML_ABI_AT(ggml_backend_buffer, iface.get_base, 0x08);
GGML_ABI_AT(ggml_backend_buffer, iface.init_tensor, 0x10);
GGML_ABI_AT(ggml_backend_buffer, iface.memset_tensor, 0x18);
GGML_ABI_AT(ggml_backend_buffer, iface.set_tensor, 0x20);
GGML_ABI_AT(ggml_backend_buffer, iface.get_tensor, 0x28);
GGML_ABI_AT(ggml_backend_buffer, iface.set_tensor_2d, 0x30);
GGML_ABI_AT(ggml_backend_buffer, iface.get_tensor_2d, 0x38);
GGML_ABI_AT(ggml_backend_buffer, iface.cpy_tensor, 0x40);
GGML_ABI_AT(ggml_backend_buffer, iface.clear, 0x48);
GGML_ABI_AT(ggml_backend_buffer, iface.reset, 0x50);
GGML_ABI_AT(ggml_backend_buffer, buft, 0x58);
GGML_ABI_AT(ggml_backend_buffer, context, 0x60);
GGML_ABI_AT(ggml_backend_buffer, size, 0x68);
GGML_ABI_AT(ggml_backend_buffer, usage, 0x70);
GGML_ABI_SIZE(ggml_backend_buffer, 0x78);

GGML_ABI_AT(ggml_backend, guid, 0x00);
GGML_ABI_AT(ggml_backend, iface.get_name, 0x08);
GGML_ABI_AT(ggml_backend, iface.free, 0x10);
GGML_ABI_AT(ggml_backend, iface.set_tensor_async, 0x18);
GGML_ABI_AT(ggml_backend, iface.get_tensor_async, 0x20);
GGML_ABI_AT(ggml_backend, iface.set_tensor_2d_async, 0x28);
GGML_ABI_AT(ggml_backend, iface.get_tensor_2d_async, 0x30);
GGML_ABI_AT(ggml_backend, iface.cpy_tensor_async, 0x38);
GGML_ABI_AT(ggml_backend, iface.synchronize, 0x40);
GGML_ABI_AT(ggml_backend, iface.graph_plan_create, 0x48);
GGML_ABI_AT(ggml_backend, iface.graph_plan_free, 0x50);
GGML_ABI_AT(ggml_backend, iface.graph_plan_update, 0x58);
GGML_ABI_AT(ggml_backend, iface.graph_plan_compute, 0x60);
GGML_ABI_AT(ggml_backend, iface.graph_compute, 0x68);
GGML_ABI_AT(ggml_backend, iface.event_record, 0x70);
GGML_ABI_AT(ggml_backend, iface.event_wait, 0x78);
GGML_ABI_AT(ggml_backend, iface.graph_optimize, 0x80);
GGML_ABI_AT(ggml_backend, device, 0x88);
GGML_ABI_AT(ggml_backend, context, 0x90);
GGML_ABI_SIZE(ggml_backend, 0x98);
GGML_ABI_SIZE(ggml_backend_event, 0x10);

GGML_ABI_AT(ggml_backend_device, iface.get_name, 0x00);
GGML_ABI_AT(ggml_backend_device, iface.get_description, 0x08);
GGML_ABI_AT(ggml_backend_device, iface.get_memory, 0x10);
GGML_ABI_AT(ggml_backend_device, iface.get_type, 0x18);
GGML_ABI_AT(ggml_backend_device, iface.get_props, 0x20);
GGML_ABI_AT(ggml_backend_device, iface.init_backend, 0x28);
GGML_ABI_AT(ggml_backend_device, iface.get_buffer_type, 0x30);
GGML_ABI_AT(ggml_backend_device, iface.get_host_buffer_type, 0x38);
GGML_ABI_AT(ggml_backend_device, iface.buffer_from_host_ptr, 0x40);
GGML_ABI_AT(ggml_backend_device, iface.supports_op, 0x48);
GGML_ABI_AT(ggml_backend_device, iface.supports_buft, 0x50);
GGML_ABI_AT(ggml_backend_device, iface.offload_op, 0x58);
GGML_ABI_AT(ggml_backend_device, iface.event_new, 0x60);
GGML_ABI_AT(ggml_backend_device, iface.event_free, 0x68);
GGML_ABI_AT(ggml_backend_device, iface.event_synchronize, 0x70);
GGML_ABI_AT(ggml_backend_device, reg, 0x78);
GGML_ABI_AT(ggml_backend_device, context, 0x80);
GGML_ABI_SIZE(ggml_backend_device, 0x88);

GGML_ABI_AT(ggml_backend_dev_props, memory_free, 0x10);
GGML_ABI_AT(ggml_backend_dev_props, memory_total, 0x18);
GGML_ABI_AT(ggml_backend_dev_props, type, 0x20);
GGML_ABI_AT(ggml_backend_dev_props, device_id, 0x28);
GGML_ABI_AT(ggml_backend_dev_props, caps, 0x30);
GGML_ABI_AT(ggml_backend_dev_props, caps.mmap_support, 0x34);
GGML_ABI_SIZE(ggml_backend_dev_props, 0x38);

GGML_ABI_AT(ggml_backend_reg, api_version, 0x00);
GGML_ABI_AT(ggml_backend_reg, iface.get_name, 0x08);
GGML_ABI_AT(ggml_backend_reg, iface.get_device_count, 0x10);
GGML_ABI_AT(ggml_backend_reg, iface.get_device, 0x18);
GGML_ABI_AT(ggml_backend_reg, iface.get_proc_address, 0x20);
GGML_ABI_AT(ggml_backend_reg, context, 0x28);
GGML_ABI_SIZE(ggml_backend_reg, 0x30);

#endif
