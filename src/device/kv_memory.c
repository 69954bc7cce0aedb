/* Where a tensor lies is told by four of its fields; each has a place on the device's side, one on
 * the host's (the same bytes), and the one it came from. */
#include "device/kv_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_OLD = 16 };

struct place {
    void *data, *extra;
    ggml_backend_buffer_t buffer;
};

struct kv_tensor {
    struct ggml_tensor *tensor, *view; /* libllama's; view: NULL when it has none */
    struct place old, here, there;
    size_t offset; /* of moved memory */
};

struct kv_memory {
    struct kv_tensor *tensors;
    size_t n;
    ggml_backend_buffer_t old[MOST_OLD]; /* libllama's */
    size_t n_old;
    ggml_backend_buffer_t there[MOST_OLD]; /* the device's: one of all, or one of each old */
    size_t n_there;
    ggml_backend_buffer_t here; /* moved memory as the CPU's */
    struct ggml_context *shadows;
    size_t bytes;
    bool moved;
};

static void put(struct ggml_tensor *t, const struct place *p)
{
    t->data = p->data;
    t->extra = p->extra;
    t->buffer = p->buffer;
}

static void put_view(const struct kv_tensor *k, const struct place *p)
{
    if (!k->view)
        return;
    k->view->data = (char *)p->data + k->view->view_offs;
    k->view->buffer = p->buffer;
}

static bool is_view_of(const struct ggml_tensor *v, const struct ggml_tensor *t)
{
    return v->view_src == t && v->op == GGML_OP_VIEW && v->data == (char *)t->data + v->view_offs;
}

/* A cache's tensors k and v are followed by a view of each; where there is no v, k by its own.
 * False: it should have one, and it is not there. */
static bool find_view(struct kv_tensor *k)
{
    const char *name = k->tensor->name;
    size_t step = ggml_tensor_overhead();
    bool of_k = strncmp(name, "cache_k_l", 9) == 0, of_v = strncmp(name, "cache_v_l", 9) == 0;
    if (!of_k && !of_v)
        return true; /* a recurrent state is saved by itself */
    struct ggml_tensor *next = (struct ggml_tensor *)((char *)k->tensor + step);
    if (!is_view_of(next, k->tensor))
        next = (struct ggml_tensor *)((char *)next + step);
    if (!is_view_of(next, k->tensor))
        return false;
    k->view = next;
    return true;
}

static bool note_old(struct kv_memory *m, ggml_backend_buffer_t buffer)
{
    for (size_t i = 0; i < m->n_old; i++)
        if (m->old[i] == buffer)
            return true;
    if (m->n_old == MOST_OLD || !ggml_backend_buffer_is_host(buffer))
        return false;
    m->old[m->n_old++] = buffer;
    return true;
}

static bool note_tensors(struct kv_memory *m, struct ggml_tensor *const *tensors, size_t n)
{
    m->tensors = calloc(n + 1, sizeof *m->tensors);
    struct ggml_init_params params = {.mem_size = (n + 1) * ggml_tensor_overhead(),
                                      .no_alloc = true};
    m->shadows = ggml_init(params);
    if (!m->tensors || !m->shadows)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct ggml_tensor *t = tensors[i];
        m->tensors[m->n++] = (struct kv_tensor){.tensor = t, .old = {t->data, t->extra, t->buffer}};
        if (!note_old(m, t->buffer))
            return false;
    }
    return true;
}

/* What the device keeps with a tensor at this place. */
static bool shadow(struct kv_memory *m, struct kv_tensor *k, ggml_backend_buffer_t buffer,
                   void *data)
{
    struct ggml_tensor *own = ggml_dup_tensor(m->shadows, k->tensor);
    if (ggml_backend_tensor_alloc(buffer, own, data) != GGML_STATUS_SUCCESS)
        return false;
    k->there = (struct place){own->data, own->extra, buffer};
    return own->data == data;
}

/* The memory stays, and the device looks at it. */
static bool share(struct kv_memory *m, ggml_backend_dev_t device)
{
    struct ggml_backend_dev_props props = {0};
    ggml_backend_dev_get_props(device, &props);
    if (!props.caps.buffer_from_host_ptr)
        return false;
    for (size_t i = 0; i < m->n_old; i++) {
        void *base = ggml_backend_buffer_get_base(m->old[i]);
        size_t size = ggml_backend_buffer_get_size(m->old[i]);
        ggml_backend_buffer_t b = ggml_backend_dev_buffer_from_host_ptr(device, base, size, size);
        if (!b)
            return false;
        m->there[m->n_there++] = b;
        m->bytes += size;
    }
    for (size_t k = 0; k < m->n; k++) {
        struct kv_tensor *t = &m->tensors[k];
        for (size_t i = 0; i < m->n_old; i++)
            if (m->old[i] == t->old.buffer && !shadow(m, t, m->there[i], t->old.data))
                return false;
        t->here = t->old;
    }
    return true;
}

static void free_buffers(struct kv_memory *m)
{
    if (m->here)
        ggml_backend_buffer_free(m->here);
    for (size_t i = 0; i < m->n_there; i++)
        ggml_backend_buffer_free(m->there[i]);
    m->here = NULL;
    m->n_there = 0;
    m->bytes = 0;
}

static void give_back_old(const struct kv_memory *m)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < m->n_old; i++) {
        uintptr_t base = (uintptr_t)ggml_backend_buffer_get_base(m->old[i]);
        uintptr_t end = (base + ggml_backend_buffer_get_size(m->old[i])) / page * page;
        base = (base + page - 1) / page * page;
        if (end > base)
            madvise((void *)base, end - base, MADV_DONTNEED);
    }
}

static size_t lay_out(struct kv_memory *m, ggml_backend_buffer_type_t buft)
{
    size_t at = 0, align = ggml_backend_buft_get_alignment(buft);
    for (size_t i = 0; i < m->n; i++) {
        at = align ? (at + align - 1) / align * align : at;
        m->tensors[i].offset = at;
        at += ggml_backend_buft_get_alloc_size(buft, m->tensors[i].tensor);
    }
    return at;
}

static bool move(struct kv_memory *m, ggml_backend_dev_t device)
{
    ggml_backend_buffer_type_t buft = ggml_backend_dev_host_buffer_type(device);
    if (!buft || !ggml_backend_buft_is_host(buft) || !ggml_backend_dev_supports_buft(device, buft))
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (!find_view(&m->tensors[i]))
            return false;
    m->bytes = lay_out(m, buft);
    if (m->bytes > ggml_backend_buft_get_max_size(buft))
        return false;
    ggml_backend_buffer_t b = ggml_backend_buft_alloc_buffer(buft, m->bytes);
    if (!b)
        return false;
    m->there[m->n_there++] = b;
    char *base = ggml_backend_buffer_get_base(b);
    m->here = ggml_backend_cpu_buffer_from_ptr(base, m->bytes);
    if (!m->here)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        struct kv_tensor *k = &m->tensors[i];
        k->here = (struct place){base + k->offset, k->old.extra, m->here};
        if (!shadow(m, k, b, base + k->offset))
            return false;
    }
    m->moved = true;
    kv_memory_cleared(m);
    for (size_t i = 0; i < m->n; i++) {
        put(m->tensors[i].tensor, &m->tensors[i].here);
        put_view(&m->tensors[i], &m->tensors[i].here);
    }
    return true;
}

struct kv_memory *kv_memory_create(ggml_backend_dev_t device, struct ggml_tensor *const *tensors,
                                   size_t n)
{
    struct kv_memory *m = calloc(1, sizeof *m);
    bool ok = m && n > 0 && note_tensors(m, tensors, n);
    if (ok && !share(m, device)) {
        free_buffers(m);
        ok = move(m, device);
    }
    if (!ok) {
        kv_memory_destroy(m);
        m = NULL;
    }
    return m;
}

void kv_memory_destroy(struct kv_memory *m)
{
    if (!m)
        return;
    free_buffers(m);
    if (m->shadows)
        ggml_free(m->shadows);
    free(m->tensors);
    free(m);
}

void kv_memory_move_back(struct kv_memory *m)
{
    for (size_t i = 0; i < m->n; i++) {
        put(m->tensors[i].tensor, &m->tensors[i].old);
        put_view(&m->tensors[i], &m->tensors[i].old);
    }
}

void kv_memory_bind(struct kv_memory *m, bool to_device)
{
    for (size_t i = 0; i < m->n; i++)
        put(m->tensors[i].tensor, to_device ? &m->tensors[i].there : &m->tensors[i].here);
}

void kv_memory_cleared(struct kv_memory *m)
{
    if (!m->moved)
        return;
    give_back_old(m);
    kv_memory_fill(m, 0);
}

void kv_memory_fill(struct kv_memory *m, int value)
{
    for (size_t i = 0; i < m->n; i++)
        memset(m->tensors[i].here.data, value, ggml_nbytes(m->tensors[i].tensor));
}

size_t kv_memory_bytes(const struct kv_memory *m)
{
    return m->bytes;
}

bool kv_memory_moved(const struct kv_memory *m)
{
    return m->moved;
}

const char *kv_memory_name(const struct kv_memory *m)
{
    return ggml_backend_buffer_name(m->there[0]);
}
