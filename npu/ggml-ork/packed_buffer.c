/* The extra buffer type: memory whose weights lie packed on the NPU.
 *
 * ggml sees addresses: a reserved range as long as what the packed weights take, so that its sums
 * of sizes are true. A weight that can be packed has its codes in device memory, found by its
 * address in this buffer (tensor->extra points to the same), and the range behind the address stays
 * untouched. Anything else that ends up here (a small adapter, a bias) is kept as it is in the
 * range, which op_support.c then refuses to multiply. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugin.h"

#define PACKED_ALIGN 64

/* One per address, type and shape: a caller may bind several tensors to one place and fill them in
 * turn (layers that take a slot one after the other), and those of another type or shape must not
 * lose what theirs points to. */
struct packed_entry {
    const void *address;
    struct packed_weight *weight; /* owned */
};

struct packed_range {
    struct plugin *plugin;
    void *base;
    size_t bytes;
    pthread_mutex_t lock; /* guards entries, n_entries */
    struct packed_entry *entries;
    size_t n_entries;
};

static void range_destroy(struct packed_range *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_entries; i++)
        packed_weight_destroy(r->entries[i].weight);
    free(r->entries);
    if (r->base)
        munmap(r->base, r->bytes);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct packed_range *range_create(struct plugin *p, size_t bytes)
{
    struct packed_range *r = calloc(1, sizeof(*r));
    void *base;

    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->plugin = p;
    r->bytes = bytes;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED) {
        range_destroy(r);
        return NULL;
    }
    r->base = base;
    return r;
}

static void packed_free(ggml_backend_buffer_t buffer)
{
    range_destroy(buffer->context);
}

static void *packed_base(ggml_backend_buffer_t buffer)
{
    const struct packed_range *r = buffer->context;

    return r->base;
}

/* Same type and shape: what a tensor bound here again gets back. */
static bool holds(const struct packed_weight *w, const struct ggml_tensor *t)
{
    return w->type == t->type && w->k == t->ne[0] && w->n == t->ne[1] &&
           w->n_matrices == t->ne[2] * t->ne[3];
}

/* The entry for this tensor, a new empty one if there is none; NULL: no memory. Locked. */
static struct packed_entry *entry_for(struct packed_range *r, const struct ggml_tensor *t)
{
    struct packed_entry *grown;

    for (size_t i = 0; i < r->n_entries; i++) {
        struct packed_entry *e = &r->entries[i];

        if (e->address == t->data && (!e->weight || holds(e->weight, t)))
            return e;
    }
    grown = realloc(r->entries, (r->n_entries + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    r->entries = grown;
    grown[r->n_entries] = (struct packed_entry){.address = t->data};
    return &grown[r->n_entries++];
}

static enum ggml_status entry_bind(struct packed_range *r, struct packed_entry *entry,
                                   struct ggml_tensor *t)
{
    const struct packed_place place = plugin_place(r->plugin);
    struct ork_error error = {0};

    if (!entry)
        return GGML_STATUS_ALLOC_FAILED;
    if (!entry->weight && packed_weight_create(&place, t, &entry->weight, &error) < 0) {
        plugin_log(GGML_LOG_LEVEL_ERROR, "%s does not fit: %s", t->name, error.text);
        return GGML_STATUS_ALLOC_FAILED;
    }
    t->extra = entry->weight;
    return GGML_STATUS_SUCCESS;
}

static enum ggml_status packed_init(ggml_backend_buffer_t buffer, struct ggml_tensor *t)
{
    struct packed_range *r = buffer->context;
    enum ggml_status status;

    t->extra = NULL;
    if (t->view_src || !packed_weight_fits(t))
        return GGML_STATUS_SUCCESS;
    pthread_mutex_lock(&r->lock);
    status = entry_bind(r, entry_for(r, t), t);
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* The packed weight a tensor or a view of one lies in, NULL for plain bytes; *offset becomes that
 * from the weight's beginning. */
static struct packed_weight *weight_of(const struct ggml_tensor *t, size_t *offset)
{
    const struct ggml_tensor *root = t->view_src ? t->view_src : t;

    if (root != t && root->extra)
        *offset += t->view_offs;
    return root->extra;
}

static void packed_set(ggml_backend_buffer_t buffer, struct ggml_tensor *t, const void *data,
                       size_t offset, size_t bytes)
{
    struct packed_weight *w = weight_of(t, &offset);

    (void)buffer;
    if (!w)
        memcpy((char *)t->data + offset, data, bytes);
    else if (packed_weight_set(w, data, offset, bytes) < 0)
        plugin_log(GGML_LOG_LEVEL_ERROR,
                   "%s was set in pieces that are not whole rows; it cannot be multiplied.",
                   t->name);
}

static void packed_memset(ggml_backend_buffer_t buffer, struct ggml_tensor *t, uint8_t value,
                          size_t offset, size_t bytes)
{
    struct packed_weight *w = weight_of(t, &offset);

    (void)buffer;
    if (!w)
        memset((char *)t->data + offset, value, bytes);
    else if (packed_weight_fill(w, value, offset, bytes) < 0)
        plugin_log(GGML_LOG_LEVEL_ERROR, "%s could not be filled; it cannot be multiplied.",
                   t->name);
}

static void packed_get(ggml_backend_buffer_t buffer, const struct ggml_tensor *t, void *data,
                       size_t offset, size_t bytes)
{
    const struct packed_weight *w = weight_of(t, &offset);

    (void)buffer;
    if (!w) {
        memcpy(data, (const char *)t->data + offset, bytes);
        return;
    }
    if (packed_weight_get(w, data, offset, bytes) < 0) {
        memset(data, 0, bytes);
        plugin_log(GGML_LOG_LEVEL_ERROR, "%s could not be read back; zeros stand for it.", t->name);
    }
}

static void packed_clear(ggml_backend_buffer_t buffer, uint8_t value)
{
    struct packed_range *r = buffer->context;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n_entries; i++) {
        struct packed_weight *w = r->entries[i].weight;

        if (w)
            packed_weight_fill(w, value, 0, (size_t)w->n_matrices * w->n * w->row_bytes);
    }
    /* Where nothing was ever written the range is zero already, and stays without memory. */
    if (value)
        memset(r->base, value, r->bytes);
    else
        madvise(r->base, r->bytes, MADV_DONTNEED);
    pthread_mutex_unlock(&r->lock);
}

/* ---- the type ---------------------------------------------------------------------------- */

static const char *packed_name(ggml_backend_buffer_type_t type)
{
    (void)type;
    return "ORK0_PACKED";
}

static ggml_backend_buffer_t packed_alloc(ggml_backend_buffer_type_t type, size_t bytes)
{
    static const struct ggml_backend_buffer_i iface = {.free_buffer = packed_free,
                                                       .get_base = packed_base,
                                                       .init_tensor = packed_init,
                                                       .memset_tensor = packed_memset,
                                                       .set_tensor = packed_set,
                                                       .get_tensor = packed_get,
                                                       .clear = packed_clear};
    struct packed_range *r = range_create(type->context, bytes ? bytes : PACKED_ALIGN);
    ggml_backend_buffer_t buffer;

    if (!r) {
        plugin_log(GGML_LOG_LEVEL_ERROR, "no addresses for %zu bytes of packed weights.", bytes);
        return NULL;
    }
    buffer = ggml_backend_buffer_init(type, iface, r, bytes);
    if (!buffer)
        range_destroy(r);
    return buffer;
}

static size_t packed_alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return PACKED_ALIGN;
}

static size_t packed_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor *t)
{
    const struct plugin *p = type->context;
    const size_t packed = packed_weight_bytes(&p->format, t);

    return packed ? packed : ggml_nbytes(t);
}

static bool packed_is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return false;
}

void packed_buffer_type_init(struct plugin *p)
{
    p->packed = (struct ggml_backend_buffer_type){.iface = {.get_name = packed_name,
                                                            .alloc_buffer = packed_alloc,
                                                            .get_alignment = packed_alignment,
                                                            .get_alloc_size = packed_alloc_size,
                                                            .is_host = packed_is_host},
                                                  .device = &p->device,
                                                  .context = p};
}
