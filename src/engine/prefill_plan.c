/*
 * What a prefill device takes of the host's memory, told before it is taken: slots, loaders'
 * buffers, converted weights and the scratch space of its graphs. That one is libllama's, which
 * throws when it is refused it; so whether it can be had is tried first.
 */
#include "engine/session.h"

#include "base/error.h"
#include "device/device_probe.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_SLOTS 2
/* Converted weights may take this part of the memory that was free. */
#define CONVERT_PART 8

/* The N of blk.N.x; LAYERS_NONE: no layer's. */
uint32_t prefill_layer_of(const char *name)
{
    unsigned n;
    int end = 0;
    if (sscanf(name, "blk.%u.%n", &n, &end) != 1 || end == 0)
        return LAYERS_NONE;
    return n;
}

bool prefill_shares_memory(const struct bmoe_session *s)
{
    return ggml_backend_dev_type(s->device.device) != GGML_BACKEND_DEVICE_TYPE_GPU;
}

unsigned prefill_n_slots(const struct bmoe_session *s)
{
    return s->hooks.device_slots ? s->hooks.device_slots : DEFAULT_SLOTS;
}

uint64_t prefill_convert_limit(const struct bmoe_session *s)
{
    return s->plan.available / CONVERT_PART;
}

/* Bytes of the weight in the type that the device would take it in, 0 when that is its own. */
static uint64_t carried_bytes(const struct bmoe_session *s, const struct gguf_tensor *t)
{
    if (t->n_dims != 2 || device_probe_matrix(s->device.device, (enum ggml_type)t->type, t->ne, 0,
                                              s->o.prefill_ubatch))
        return 0;
    const enum ggml_type *to = device_probe_carried((enum ggml_type)t->type);
    while (*to != GGML_TYPE_COUNT &&
           (t->ne[0] % ggml_blck_size(*to) != 0 ||
            !device_probe_matrix(s->device.device, *to, t->ne, 0, s->o.prefill_ubatch)))
        to++;
    return *to == GGML_TYPE_COUNT ? 0 : ggml_row_size(*to, t->ne[0]) * (uint64_t)t->ne[1];
}

/* A wide graph has about the same there as here: a little more was seen, for other alignment. */
static uint64_t scratch_bytes(const struct bmoe_session *s)
{
    return s->buffers.compute + s->buffers.compute / 8;
}

/* A slot has a place for each role of a weight, as large as the largest of any layer. */
enum { MOST_ROLES = 128 };
struct slot {
    struct place {
        const char *role; /* what follows blk.N. in the name */
        uint64_t bytes;
    } place[MOST_ROLES];
    unsigned n;
    uint64_t bytes;
};

static void slot_add(struct slot *slot, const char *role, uint64_t bytes)
{
    unsigned i = 0;
    while (i < slot->n && strcmp(slot->place[i].role, role) != 0)
        i++;
    if (i == MOST_ROLES) { /* no model has as many; then each weight counts */
        slot->bytes += bytes;
        return;
    }
    if (i == slot->n)
        slot->place[slot->n++] = (struct place){.role = role};
    if (bytes > slot->place[i].bytes) {
        slot->bytes += bytes - slot->place[i].bytes;
        slot->place[i].bytes = bytes;
    }
}

uint64_t prefill_plan_bytes(const struct bmoe_session *s)
{
    struct slot slot = {.n = 0};
    uint64_t slice = 0, carried = 0;
    if (!s->device.device)
        return 0;
    for (uint32_t i = 0; i < gguf_index_n_tensors(s->index); i++) {
        const struct gguf_tensor *t = gguf_index_tensor(s->index, i);
        uint64_t one = t->bytes / (uint64_t)(t->ne[2] > 0 ? t->ne[2] : 1);
        if (prefill_layer_of(t->name) == LAYERS_NONE)
            continue;
        uint64_t in_another = carried_bytes(s, t);
        carried += in_another;
        slot_add(&slot, strchr(t->name + strlen("blk."), '.') + 1,
                 in_another > t->bytes ? in_another : t->bytes);
        slice = one > slice ? one : slice;
    }
    if (carried > prefill_convert_limit(s))
        carried = prefill_convert_limit(s);
    uint64_t here =
        carried + pager_buffers_bytes(s->o.prefill_loaders, pager_direct_buffer_bytes(slice));
    uint64_t there = prefill_n_slots(s) * slot.bytes + scratch_bytes(s);
    return here + (prefill_shares_memory(s) ? there : 0);
}

bool prefill_has_scratch(const struct bmoe_session *s, struct bmoe_error *err)
{
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(s->device.device);
    uint64_t bytes = scratch_bytes(s);
    size_t unused = 0, total = 0;
    ggml_backend_dev_memory(s->device.device, &unused, &total);
    bool says = unused > 0 || total > 0;
    size_t most = ggml_backend_buft_get_max_size(type); /* libllama takes several then */
    bool full = says && bytes > unused;
    ggml_backend_buffer_t trial =
        full ? NULL : ggml_backend_buft_alloc_buffer(type, bytes < most ? bytes : most);
    if (!trial) {
        error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                  "%s has no %.1f MiB beside the layers for the scratch space of a graph",
                  s->o.prefill_device, (double)bytes / (1 << 20));
        return false;
    }
    ggml_backend_buffer_free(trial);
    return true;
}
