/* Binding: the fields of libllama's tensors are exchanged, nothing is copied. The host's are taken
 * at each exchange, so whoever changes them between graphs is respected. */
#include "device/layers.h"

#include <assert.h>
#include <string.h>

static void save(struct layer_binding *to, const struct ggml_tensor *t)
{
    *to = (struct layer_binding){
        .type = t->type, .data = t->data, .extra = t->extra, .buffer = t->buffer};
    memcpy(to->nb, t->nb, sizeof to->nb);
}

static void apply(struct ggml_tensor *t, const struct layer_binding *from)
{
    t->type = from->type;
    t->data = from->data;
    t->extra = from->extra;
    t->buffer = from->buffer;
    memcpy(t->nb, from->nb, sizeof t->nb);
}

void layers_bind(struct layers *l)
{
    assert(!l->bound);
    for (uint32_t i = 0; i < l->n_entries; i++) {
        struct layer_entry *e = &l->entries[i];
        struct layer_binding device;
        if (!e->device)
            continue;
        save(&e->host, e->src.tensor);
        save(&device, e->device);
        apply(e->src.tensor, &device);
    }
    l->bound = true;
}

void layers_unbind(struct layers *l)
{
    for (uint32_t i = 0; l->bound && i < l->n_entries; i++)
        if (l->entries[i].device)
            apply(l->entries[i].src.tensor, &l->entries[i].host);
    l->bound = false;
}

struct layer_entry *layers_find(const struct layers *l, uint32_t weight)
{
    uint32_t i = weight < l->n_weights ? l->entry_of[weight] : LAYERS_NONE;
    return i != LAYERS_NONE && l->entries[i].device ? &l->entries[i] : NULL;
}
