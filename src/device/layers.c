/*
 * Which weight lies where. In a slot every role has one place, sized for the largest layer; in an
 * extra buffer type, whose memory may be tied to a tensor's address, roles of other types or shapes
 * have places of their own.
 */
#include "device/layers_internal.h"

#include "base/error.h"
#include "device/device_check.h"

#include <stdlib.h>
#include <string.h>

static const char *role_of(const struct layer_source *s)
{
    const char *dot = strchr(s->tensor->name, '.');
    dot = dot ? strchr(dot + 1, '.') : NULL;
    return dot ? dot + 1 : s->tensor->name;
}

static uint64_t aligned(uint64_t bytes, ggml_backend_buffer_type_t buft)
{
    uint64_t align = ggml_backend_buft_get_alignment(buft);
    return align ? (bytes + align - 1) / align * align : bytes;
}

/* Bytes in the buffer type, which may be more than the tensor's own. */
static uint64_t size_in(const struct decision *d, const struct ggml_tensor *t)
{
    struct ggml_tensor probe = *t;
    probe.type = d->type;
    probe.nb[0] = ggml_type_size(d->type);
    probe.nb[1] = ggml_row_size(d->type, t->ne[0]);
    for (int i = 2; i < GGML_MAX_DIMS; i++)
        probe.nb[i] = probe.nb[i - 1] * (size_t)t->ne[i - 1];
    probe.data = NULL;
    probe.buffer = NULL;
    probe.extra = NULL;
    return ggml_backend_buft_get_alloc_size(d->buft, &probe);
}

static bool same_place(const struct region *r, const struct layer_entry *e,
                       const struct decision *d)
{
    if (r->kind != d->kind || strcmp(r->role, role_of(&e->src)) != 0)
        return false;
    return d->kind != KIND_EXTRA ||
           (r->type == d->type && memcmp(r->ne, e->src.tensor->ne, sizeof r->ne) == 0);
}

static void place_in_slot(struct making *m, const struct layer_entry *e, struct decision *d)
{
    uint32_t i = 0;
    while (i < m->n_regions && !same_place(&m->regions[i], e, d))
        i++;
    if (i == m->n_regions) {
        struct region *r = &m->regions[m->n_regions++];
        *r = (struct region){.role = role_of(&e->src), .kind = d->kind, .type = d->type};
        memcpy(r->ne, e->src.tensor->ne, sizeof r->ne);
    }
    if (d->bytes > m->regions[i].bytes)
        m->regions[i].bytes = d->bytes;
    d->region = i;
}

/* Offsets of the regions of one kind; answers their sum. */
static uint64_t lay_out(struct making *m, enum kind kind)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < m->n_regions; i++) {
        if (m->regions[i].kind != kind)
            continue;
        m->regions[i].offset = at;
        at += aligned(m->regions[i].bytes, m->bufts[kind]);
    }
    return at;
}

/* The same for what stays. */
static uint64_t lay_out_resident(struct making *m, enum kind kind)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < m->l->n_entries; i++) {
        if (!m->l->entries[i].resident || m->of[i].kind != kind)
            continue;
        m->of[i].where = at;
        at += aligned(m->of[i].bytes, m->bufts[kind]);
    }
    return at;
}

static int get_buffer(struct making *m, enum kind kind, uint64_t bytes, ggml_backend_buffer_t *out)
{
    struct layers *l = m->l;
    ggml_backend_buffer_type_t buft = m->bufts[kind];
    *out = NULL;
    if (bytes == 0)
        return BMOE_OK;
    size_t most = ggml_backend_buft_get_max_size(buft);
    if (bytes <= most)
        *out = ggml_backend_buft_alloc_buffer(buft, bytes);
    if (!*out)
        return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                         "%s gives no buffer of %.1f MiB for layers",
                         ggml_backend_dev_name(m->config->device), (double)bytes / (1 << 20));
    if (kind != KIND_PLAIN)
        ggml_backend_buffer_set_usage(*out, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(*out, 0);
    l->buffers[l->n_buffers++] = *out;
    l->device_bytes += bytes;
    return BMOE_OK;
}

static int check_room(const struct making *m, uint64_t bytes)
{
    size_t unused = 0, total = 0;
    ggml_backend_dev_memory(m->config->device, &unused, &total);
    if (unused == 0 || bytes <= unused) /* 0: it does not say */
        return BMOE_OK;
    return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                     "%s has %.1f MiB free and %u layers take %.1f MiB",
                     ggml_backend_dev_name(m->config->device), (double)unused / (1 << 20),
                     m->config->n_slots, (double)bytes / (1 << 20));
}

/* An extra type may decide at the first whole write in which form it keeps a place. */
static int write_once(struct making *m, const struct layer_entry *e, const struct decision *d,
                      struct ggml_tensor *own)
{
    struct region *r = &m->regions[d->region];
    unsigned slot = 1u << m->l->layer_of[e - m->l->entries] % m->l->n_slots;
    if (d->kind != KIND_EXTRA || (!e->resident && (r->written & slot)))
        return BMOE_OK;
    r->written |= e->resident ? 0 : slot;
    if (!device_write_zeros(own))
        return error_set(m->err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for zeros");
    return BMOE_OK;
}

/* Makes the tensor and gives it its memory. */
static int put(struct making *m, struct layer_entry *e, const struct decision *d,
               ggml_backend_buffer_t buffer, uint64_t offset)
{
    const struct ggml_tensor *t = e->src.tensor;
    struct ggml_tensor *own = ggml_new_tensor(m->l->tensors, d->type, GGML_MAX_DIMS, t->ne);
    ggml_set_name(own, t->name);
    char *base = ggml_backend_buffer_get_base(buffer);
    if (ggml_backend_tensor_alloc(buffer, own, base + offset) != GGML_STATUS_SUCCESS)
        return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST, "%s takes no tensor %s",
                         ggml_backend_dev_name(m->config->device), t->name);
    e->stride = e->src.site != GRAPH_NONE ? device_expert_stride(d->buft, own) : own->nb[2];
    if (e->stride == 0)
        return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                         "%s keeps %s in %llu bytes, which cannot be filled expert by expert",
                         ggml_backend_dev_name(m->config->device), t->name,
                         (unsigned long long)d->bytes);
    e->device = own;
    return write_once(m, e, d, own);
}

/* Slots of every kind, then what stays. */
static int allocate(struct making *m)
{
    struct layers *l = m->l;
    ggml_backend_buffer_t slots[N_KINDS][LAYERS_MAX_SLOTS] = {{NULL}}, resident[N_KINDS] = {NULL};
    uint64_t slot_bytes[N_KINDS] = {0}, resident_bytes[N_KINDS] = {0}, sum = 0;
    for (int k = 0; k < N_KINDS; k++) {
        slot_bytes[k] = lay_out(m, k);
        resident_bytes[k] = lay_out_resident(m, k);
        sum += slot_bytes[k] * l->n_slots + resident_bytes[k];
    }
    int rc = check_room(m, sum);
    for (int k = 0; k < N_KINDS; k++) {
        for (unsigned s = 0; rc == BMOE_OK && s < l->n_slots; s++)
            rc = get_buffer(m, k, slot_bytes[k], &slots[k][s]);
        if (rc == BMOE_OK)
            rc = get_buffer(m, k, resident_bytes[k], &resident[k]);
    }
    for (uint32_t i = 0; rc == BMOE_OK && i < l->n_entries; i++) {
        struct layer_entry *e = &l->entries[i];
        const struct decision *d = &m->of[i];
        if (!d->buft)
            continue;
        rc = e->resident ? put(m, e, d, resident[d->kind], d->where)
                         : put(m, e, d, slots[d->kind][l->layer_of[i] % l->n_slots],
                               m->regions[d->region].offset);
    }
    return rc;
}

static int by_layer(const void *a, const void *b)
{
    const struct layer_source *x = a, *y = b;
    bool ex = x->site != GRAPH_NONE, ey = y->site != GRAPH_NONE;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (ex != ey)
        return ex ? 1 : -1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

static void sort_in(struct layers *l, const struct layer_source *sources, uint32_t n)
{
    struct layer_source *sorted = malloc((n + 1) * sizeof *sorted);
    if (!sorted)
        return;
    memcpy(sorted, sources, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_layer);
    for (uint32_t i = 0; i < n; i++) {
        l->entries[i].src = sorted[i];
        if (i == 0 || sorted[i].layer != sorted[i - 1].layer)
            l->n_layers++;
        l->layer_of[i] = l->n_layers - 1;
    }
    free(sorted);
    l->n_entries = n;
}

static bool alloc_tables(struct layers *l, uint32_t n)
{
    l->entries = calloc(n + 1, sizeof *l->entries);
    l->layers = calloc(n + 1, sizeof *l->layers);
    l->sites = calloc(n + 1, sizeof *l->sites);
    l->layer_of = calloc(n + 1, sizeof *l->layer_of);
    l->entry_of = malloc((l->n_weights + 1) * sizeof *l->entry_of);
    struct ggml_init_params params = {.mem_size = (n + 1) * ggml_tensor_overhead(),
                                      .no_alloc = true};
    l->tensors = ggml_init(params);
    return l->entries && l->layers && l->sites && l->layer_of && l->entry_of && l->tensors;
}

/* An expert matrix joins its site; false when the site is full. */
static bool join_site(struct layers *l, uint32_t i)
{
    const struct layer_entry *e = &l->entries[i];
    struct layer *layer = &l->layers[l->layer_of[i]];
    if (layer->n_sites == 0)
        layer->first_site = l->n_sites;
    struct layer_site *s = layer->n_sites ? &l->sites[l->n_sites - 1] : NULL;
    if (!s || s->site != e->src.site) {
        s = &l->sites[l->n_sites++];
        layer->n_sites++;
        *s = (struct layer_site){.site = e->src.site, .n_expert = e->src.n_slices};
    }
    if (s->n_entries == sizeof s->entries / sizeof s->entries[0] || s->n_expert != e->src.n_slices)
        return false;
    s->entries[s->n_entries++] = i;
    s->expert_bytes += e->src.slice_bytes;
    return true;
}

/* The tables by layer, once it is known which entries are on the device. */
static int index_all(struct making *m)
{
    struct layers *l = m->l;
    for (uint32_t w = 0; w <= l->n_weights; w++)
        l->entry_of[w] = LAYERS_NONE;
    for (uint32_t i = 0; i < l->n_entries; i++) {
        const struct layer_entry *e = &l->entries[i];
        struct layer *layer = &l->layers[l->layer_of[i]];
        if (i == 0 || l->layer_of[i] != l->layer_of[i - 1])
            layer->first_dense = i;
        l->entry_of[e->src.weight] = i;
        if (e->src.site == GRAPH_NONE) {
            layer->n_dense++;
            layer->dense_bytes += m->of[i].buft ? m->of[i].bytes : 0;
        } else if (!join_site(l, i)) {
            return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                             "the experts of %s are not of the shape of a layer",
                             e->src.tensor->name);
        }
    }
    return BMOE_OK;
}

static int decide_all(struct making *m)
{
    struct layers *l = m->l;
    for (uint32_t i = 0; i < l->n_entries; i++) {
        struct layer_entry *e = &l->entries[i];
        struct decision *d = &m->of[i];
        int rc = layers_decide(m, e, d);
        if (rc < 0)
            return rc;
        if (!d->buft)
            continue;
        d->kind = d->buft != m->bufts[KIND_OWN] ? KIND_EXTRA
                  : read_otherwise(&e->src)     ? KIND_PLAIN
                                                : KIND_OWN;
        m->bufts[d->kind] = d->buft;
        d->bytes = size_in(d, e->src.tensor);
        e->resident = m->config->dense_resident && e->src.site == GRAPH_NONE;
        if (!e->resident)
            place_in_slot(m, e, d);
    }
    return BMOE_OK;
}

int layers_create(struct layers **out, const struct layers_config *config,
                  const struct layer_source *sources, uint32_t n, struct bmoe_error *err)
{
    struct layers *l = calloc(1, sizeof *l);
    struct making m = {.config = config, .l = l, .err = err};
    m.bufts[KIND_PLAIN] = m.bufts[KIND_OWN] = ggml_backend_dev_buffer_type(config->device);
    int rc = BMOE_E_MEMORY;
    m.of = calloc(n + 1, sizeof *m.of);
    m.regions = calloc(n + 1, sizeof *m.regions);
    if (l) {
        l->n_weights = config->n_weights;
        l->wrong_type = GGML_TYPE_COUNT;
    }
    if (!l || !m.of || !m.regions || !alloc_tables(l, n)) {
        error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_REQUEST, "no memory for the layers' table");
        goto out;
    }
    l->n_slots = config->n_slots;
    sort_in(l, sources, n);
    rc = decide_all(&m);
    if (rc == BMOE_OK)
        rc = allocate(&m);
    if (rc == BMOE_OK)
        rc = index_all(&m);
out:
    free(m.of);
    free(m.regions);
    if (rc < 0)
        layers_destroy(l);
    else
        *out = l;
    return rc;
}

void layers_destroy(struct layers *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n_entries; i++)
        free(l->entries[i].carried);
    for (unsigned i = 0; i < l->n_buffers; i++)
        ggml_backend_buffer_free(l->buffers[i]);
    if (l->tensors)
        ggml_free(l->tensors);
    free(l->entries);
    free(l->layers);
    free(l->sites);
    free(l->layer_of);
    free(l->entry_of);
    free(l);
}
