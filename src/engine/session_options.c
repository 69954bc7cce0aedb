/* Every default is resolved here, once, from the options and the machine alone: none depends on
 * streaming, the budget or free memory, because most of them are part of the run key. */
#include "engine/session.h"

#include "base/error.h"
#include "base/host.h"
#include "device/backends_dir.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum ggml_type type;
} kv_types[] = {
    {"f32", GGML_TYPE_F32},   {"f16", GGML_TYPE_F16},   {"bf16", GGML_TYPE_BF16},
    {"q8_0", GGML_TYPE_Q8_0}, {"q4_0", GGML_TYPE_Q4_0}, {"q4_1", GGML_TYPE_Q4_1},
    {"q5_0", GGML_TYPE_Q5_0}, {"q5_1", GGML_TYPE_Q5_1}, {"iq4_nl", GGML_TYPE_IQ4_NL},
};

int options_kv_type(const char *name)
{
    for (size_t i = 0; i < sizeof kv_types / sizeof kv_types[0]; i++)
        if (strcmp(kv_types[i].name, name) == 0)
            return (int)kv_types[i].type;
    return -1;
}

static int misuse(struct bmoe_error *err, const char *what, const char *way)
{
    return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "%s: %s", what, way);
}

static int check(const struct bmoe_options *o, struct bmoe_error *err)
{
    if (!o->model || !o->model[0])
        return misuse(err, "no model", "give the path of a GGUF file");
    if (o->n_readers > 16)
        return misuse(err, "reader threads", "1 to 16");
    if (o->n_threads > 512 || o->n_threads_batch > 512)
        return misuse(err, "threads", "1 to 512");
    if (o->n_ctx && o->n_ubatch > o->n_ctx)
        return misuse(err, "ubatch", "not wider than the context");
    if (o->dense > BMOE_DENSE_WARM || o->place > BMOE_PLACE_NONE)
        return misuse(err, "options", "a choice is out of range");
    if (o->prefill_loaders > 64 || o->prefill_routed_full < 0 || o->prefill_routed_full > 1 ||
        o->prefill_dense > BMOE_PREFILL_DENSE_SLOTS)
        return misuse(err, "prefill device", "1 to 64 loaders; a part of experts from 0 to 1");
    if (o->prefill_min_tokens && o->prefill_min_tokens < 32)
        return misuse(err, "prefill-min-tokens",
                      "32 or more: libllama places narrower graphs otherwise");
    if (o->n_ctx && o->prefill_ubatch > o->n_ctx)
        return misuse(err, "prefill-ubatch", "not wider than the context");
    if ((o->cache_type_k && options_kv_type(o->cache_type_k) < 0) ||
        (o->cache_type_v && options_kv_type(o->cache_type_v) < 0))
        return misuse(err, "KV cache type",
                      "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl");
    if (o->decide && o->prefix_cache == BMOE_ON && o->prefill_device)
        return misuse(
            err, "prefix cache on",
            "with a prefill device no state of the context's memory is kept; leave one of "
            "the two out");
    if (o->dense != BMOE_DENSE_ANON && o->cpu_repack == BMOE_ON)
        return misuse(err, "cpu-repack on",
                      "dense weights mapped from the file cannot be repacked; use anon");
    return BMOE_OK;
}

static bool copy_string(char **out, const char *value)
{
    *out = strdup(value);
    return *out != NULL;
}

static void resolve_threads(struct bmoe_options *r)
{
    if (!r->n_threads)
        r->n_threads = host_cpu_count("");
    if (!r->n_threads_batch)
        r->n_threads_batch = r->n_threads;
}

static void resolve_sizes(struct bmoe_options *r)
{
    if (!r->n_ctx)
        r->n_ctx = 2048;
    if (!r->n_ubatch)
        r->n_ubatch = r->n_ctx < 512 ? r->n_ctx : 512;
    if (!r->n_readers)
        r->n_readers = 4;
    if (!r->prefill_min_tokens)
        r->prefill_min_tokens = 32;
    if (!r->prefill_ubatch || !r->prefill_device)
        r->prefill_ubatch = r->n_ubatch;
    if (!r->prefill_loaders)
        r->prefill_loaders = 8;
    if (r->prefill_routed_full <= 0)
        r->prefill_routed_full = 0.85f;
    if (!r->cache_bytes)
        r->cache_bytes = BMOE_CACHE_AUTO;
    if (!r->cache_floor_bytes)
        r->cache_floor_bytes = (uint64_t)1536 << 20;
}

int options_resolve(struct bmoe_session *s, const struct bmoe_options *o, struct bmoe_error *err)
{
    struct bmoe_options *r = &s->o;
    bmoe_options_init(r);
    memcpy(r, o, o->size < sizeof *r ? o->size : sizeof *r);
    r->size = sizeof *r;
    int rc = check(r, err);
    if (rc < 0)
        return rc;
    char room[PATH_MAX];
    const char *dir = backends_dir_choose(r->backends_dir, room, sizeof room);
    if (!copy_string(&s->model_path, r->model) || !copy_string(&s->backends_dir, dir) ||
        !copy_string(&s->type_k_name, r->cache_type_k ? r->cache_type_k : "f16") ||
        !copy_string(&s->type_v_name, r->cache_type_v ? r->cache_type_v : "f16") ||
        (r->prefill_device && !copy_string(&s->device_name, r->prefill_device)))
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the options");
    r->model = s->model_path;
    r->backends_dir = s->backends_dir;
    r->cache_type_k = s->type_k_name;
    r->cache_type_v = s->type_v_name;
    r->prefill_device = s->device_name;
    s->log = (struct log){r->log, r->log_user};
    s->keep_prefix = r->decide && r->prefix_cache != BMOE_OFF && !r->prefill_device;
    resolve_threads(r);
    resolve_sizes(r);
    return BMOE_OK;
}
