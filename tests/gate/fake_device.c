/* A buffer is host memory that says it is not; a graph is given to a CPU backend as it is. */
#include "fake_device.h"

#include "ggml_backend_abi.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *fake_name = "FAKE0";
struct fake_faults fake_faults;
struct fake_counts fake_counts;

static ggml_backend_t cpu;
static struct ggml_backend_reg reg;
static struct ggml_backend_device device;
static struct ggml_backend_buffer_type own_type, host_type;
static atomic_size_t allocated, host_allocated;

void fake_device_heal(void)
{
    fake_faults = (struct fake_faults){
        .refuse_type = GGML_TYPE_COUNT, .wrong_type = GGML_TYPE_COUNT, .fail_after = -1};
}

size_t fake_device_host_bytes(void)
{
    return atomic_load(&host_allocated);
}

size_t fake_device_own_bytes(void)
{
    return atomic_load(&allocated);
}

/* Buffers. */

static const char *own_name(ggml_backend_buffer_type_t type)
{
    return type == &own_type ? "FAKE" : "FAKE_HOST";
}

static void *get_base(ggml_backend_buffer_t buffer)
{
    return buffer->context;
}

static atomic_size_t *sum_of(ggml_backend_buffer_t buffer)
{
    return buffer->buft == &own_type ? &allocated : &host_allocated;
}

static void free_buffer(ggml_backend_buffer_t buffer)
{
    atomic_fetch_sub(sum_of(buffer), buffer->size);
    free(buffer->context);
}

static void memset_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor *t, uint8_t value,
                          size_t offset, size_t bytes)
{
    (void)buffer;
    memset((char *)t->data + offset, value, bytes);
}

static void set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor *t, const void *data,
                       size_t offset, size_t bytes)
{
    (void)buffer;
    memcpy((char *)t->data + offset, data, bytes);
}

static void get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor *t, void *data,
                       size_t offset, size_t bytes)
{
    (void)buffer;
    memcpy(data, (const char *)t->data + offset, bytes);
}

static void clear(ggml_backend_buffer_t buffer, uint8_t value)
{
    memset(buffer->context, value, buffer->size);
}

static void keep_memory(ggml_backend_buffer_t buffer)
{
    (void)buffer;
}

static ggml_backend_buffer_t wrap_memory(ggml_backend_dev_t dev, void *memory, size_t bytes,
                                         size_t max_tensor_size)
{
    static const struct ggml_backend_buffer_i iface = {.free_buffer = keep_memory,
                                                       .get_base = get_base,
                                                       .memset_tensor = memset_tensor,
                                                       .set_tensor = set_tensor,
                                                       .get_tensor = get_tensor,
                                                       .clear = clear};
    (void)dev;
    (void)max_tensor_size;
    return ggml_backend_buffer_init(&own_type, iface, memory, bytes);
}

static size_t memory_bytes(void)
{
    return fake_faults.memory_bytes ? fake_faults.memory_bytes : (size_t)64 << 30;
}

static size_t memory_left(void)
{
    size_t taken = atomic_load(&allocated);
    return taken < memory_bytes() ? memory_bytes() - taken : 0;
}

static ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t bytes)
{
    static const struct ggml_backend_buffer_i iface = {.free_buffer = free_buffer,
                                                       .get_base = get_base,
                                                       .memset_tensor = memset_tensor,
                                                       .set_tensor = set_tensor,
                                                       .get_tensor = get_tensor,
                                                       .clear = clear};
    size_t rounded = (bytes + 127) / 128 * 128;
    if (type == &own_type && bytes > memory_left())
        return NULL;
    void *memory = aligned_alloc(128, rounded ? rounded : 128);
    if (!memory)
        return NULL;
    ggml_backend_buffer_t b = ggml_backend_buffer_init(type, iface, memory, bytes);
    atomic_fetch_add(sum_of(b), bytes);
    return b;
}

static size_t alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return 128;
}

static size_t alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor *t)
{
    const size_t n = (size_t)t->ne[2];
    (void)type;
    switch (ggml_is_quantized(t->type) ? fake_faults.padding : FAKE_NO_PADDING) {
    case FAKE_PADDED_END:
        return ggml_nbytes(t) + 128; /* many a number of experts divides it */
    case FAKE_UNEVEN:
        return ggml_nbytes(t) + n * n;
    default:
        return ggml_nbytes(t);
    }
}

static bool is_host(ggml_backend_buffer_type_t type)
{
    return type == &host_type;
}

/* Streams. */

static struct ggml_guid_bytes {
    uint8_t bytes[16];
} guid = {"bmoe fake device"};

static const char *backend_name(ggml_backend_t backend)
{
    (void)backend;
    return fake_name;
}

static void poison_last(struct ggml_cgraph *graph)
{
    struct ggml_tensor *t = ggml_graph_node(graph, -1);
    if (t->type != GGML_TYPE_F32 || !ggml_is_contiguous(t))
        return;
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        ((float *)t->data)[i] = INFINITY;
}

static void spoil_products(struct ggml_cgraph *graph)
{
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *t = ggml_graph_node(graph, i);
        bool matmul = t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID;
        if (matmul && t->src[0]->type == fake_faults.wrong_type)
            memset(t->data, 0, ggml_nbytes(t) / 2);
    }
}

static enum ggml_status compute_nothing(struct ggml_cgraph *graph)
{
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *t = ggml_graph_node(graph, i);
        if (t->op == GGML_OP_ARGSORT || i + 1 == ggml_graph_n_nodes(graph))
            memset(t->data, 0, ggml_nbytes(t));
    }
    return GGML_STATUS_SUCCESS;
}

static int64_t count_nodes(struct ggml_cgraph *graph)
{
    int64_t n = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor *t = ggml_graph_node(graph, i);
        n += t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
             t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE && !ggml_is_empty(t);
    }
    return n;
}

static enum ggml_status compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    (void)backend;
    if (fake_faults.fail_after == 0 || !cpu)
        return GGML_STATUS_FAILED;
    if (fake_faults.fail_after > 0)
        fake_faults.fail_after--;
    if (fake_faults.delay_us)
        usleep((useconds_t)fake_faults.delay_us);
    fake_counts.graphs++;
    fake_counts.nodes += count_nodes(graph);
    if (fake_faults.instead && fake_faults.instead(fake_faults.user, graph))
        return GGML_STATUS_SUCCESS;
    enum ggml_status status = fake_faults.hollow && ggml_graph_n_nodes(graph) > 1
                                  ? compute_nothing(graph)
                                  : ggml_backend_graph_compute(cpu, graph);
    if (fake_faults.poison)
        poison_last(graph);
    spoil_products(graph);
    if (fake_faults.on_graph)
        fake_faults.on_graph(fake_faults.user);
    return status;
}

static void backend_free(ggml_backend_t backend)
{
    fake_counts.closed++;
    free(backend);
}

static ggml_backend_t backend_create(ggml_backend_dev_t dev, const char *params)
{
    (void)params;
    struct ggml_backend *b = fake_faults.no_open ? NULL : calloc(1, sizeof *b);
    if (!b)
        return NULL;
    fake_counts.opened++;
    b->guid = (ggml_guid_t)guid.bytes;
    b->device = dev;
    b->iface = (struct ggml_backend_i){
        .get_name = backend_name, .free = backend_free, .graph_compute = compute};
    return b;
}

/* The device. */

static const char *device_name(ggml_backend_dev_t dev)
{
    (void)dev;
    return fake_name;
}

static void device_memory(ggml_backend_dev_t dev, size_t *unused, size_t *total)
{
    (void)dev;
    *total = fake_faults.mute ? 0 : memory_bytes();
    *unused = fake_faults.mute ? 0 : memory_left();
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return GGML_BACKEND_DEVICE_TYPE_IGPU;
}

static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props *props)
{
    *props = (struct ggml_backend_dev_props){
        .name = fake_name, .description = "a device of the tests", .type = device_type(dev)};
    device_memory(dev, &props->memory_free, &props->memory_total);
    props->caps.host_buffer = fake_faults.host_buffer;
    props->caps.buffer_from_host_ptr = fake_faults.host_ptr;
}

static ggml_backend_buffer_type_t device_own_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return &own_type;
}

static ggml_backend_buffer_type_t device_host_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return fake_faults.host_buffer ? &host_type : NULL;
}

static bool supports_op(ggml_backend_dev_t dev, const struct ggml_tensor *op)
{
    (void)dev;
    bool matmul = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
    int64_t n_tokens = op->op == GGML_OP_MUL_MAT_ID ? op->ne[2] : op->ne[1];
    if (matmul && (op->src[0]->type == fake_faults.refuse_type ||
                   (op->op == fake_faults.narrow_op && n_tokens < fake_faults.narrow)))
        return false;
    return op->op != fake_faults.refuse_op || op->op == GGML_OP_NONE;
}

static bool supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type)
{
    (void)dev;
    return type == &own_type || (type == &host_type && fake_faults.host_buffer);
}

static const char *reg_name(ggml_backend_reg_t r)
{
    (void)r;
    return "FAKE";
}

static size_t reg_count(ggml_backend_reg_t r)
{
    (void)r;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t r, size_t i)
{
    (void)r;
    (void)i;
    return &device;
}

static bool load_kernels(unsigned n_threads)
{
    ggml_backend_dev_t dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    cpu = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!cpu)
        return false;
    void *symbol = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                     "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_threads = NULL;
    memcpy(&set_threads, &symbol, sizeof set_threads);
    if (set_threads)
        set_threads(cpu, (int)n_threads);
    return true;
}

ggml_backend_dev_t fake_device(unsigned n_threads)
{
    const struct ggml_backend_buffer_type_i type = {.get_name = own_name,
                                                    .alloc_buffer = alloc_buffer,
                                                    .get_alignment = alignment,
                                                    .get_alloc_size = alloc_size,
                                                    .is_host = is_host};
    if (n_threads > 0 && !load_kernels(n_threads))
        return NULL;
    fake_device_heal();
    own_type = (struct ggml_backend_buffer_type){.iface = type, .device = &device};
    host_type = (struct ggml_backend_buffer_type){.iface = type, .device = &device};
    reg = (struct ggml_backend_reg){
        .api_version = GGML_BACKEND_ABI_VERSION,
        .iface = {.get_name = reg_name, .get_device_count = reg_count, .get_device = reg_device}};
    device = (struct ggml_backend_device){.iface = {.get_name = device_name,
                                                    .get_description = device_name,
                                                    .get_memory = device_memory,
                                                    .get_type = device_type,
                                                    .get_props = device_props,
                                                    .init_backend = backend_create,
                                                    .get_buffer_type = device_own_type,
                                                    .get_host_buffer_type = device_host_type,
                                                    .buffer_from_host_ptr = wrap_memory,
                                                    .supports_op = supports_op,
                                                    .supports_buft = supports_buft},
                                          .reg = &reg};
    return &device;
}
