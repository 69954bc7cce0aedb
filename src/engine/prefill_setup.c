/*
 * Between the options and src/device: which device, what of the model it is to hold, and what is
 * said when it will not. Nothing here fails a session: without the device it runs on the CPU, as if
 * the option had not been given.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "device/device_probe.h"

#include <stdlib.h>
#include <string.h>

/* Below this libllama pins nodes to backends of its own choice. */
#define LEAST_TOKENS 32u

static void give_up(struct bmoe_session *s, const struct bmoe_error *err)
{
    log_line(&s->log, BMOE_LOG_WARN, "%s; all is computed on the CPU", err->text);
    s->o.prefill_ubatch = s->o.n_ubatch;
}

static void close_device(struct bmoe_session *s, const struct bmoe_error *why)
{
    if (s->device.backend)
        ggml_backend_free(s->device.backend);
    s->device = (struct device_opened){0};
    give_up(s, why);
}

/* Tensors of three dimensions are the experts, by whatever name. */
static bool takes_experts(void *ctx, ggml_backend_dev_t device)
{
    const struct bmoe_session *s = ctx;
    for (uint32_t i = 0; i < gguf_index_n_tensors(s->index); i++) {
        const struct gguf_tensor *t = gguf_index_tensor(s->index, i);
        if (t->n_dims == 3 && t->ne[2] == s->n_expert && s->n_expert &&
            !device_probe_matrix(device, (enum ggml_type)t->type, t->ne, 4, 512))
            return false;
    }
    return true;
}

void prefill_open(struct bmoe_session *s)
{
    struct bmoe_error err = {0};
    if (s->hooks.device) {
        s->device.device = s->hooks.device;
        s->device.backend = ggml_backend_dev_init(s->hooks.device, NULL);
        if (!s->device.backend)
            error_set(&err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST, "device %s does not open",
                      ggml_backend_dev_name(s->hooks.device));
    } else if (s->o.prefill_device) {
        device_open(&s->device, s->o.prefill_device, s->o.backends_dir, takes_experts, s, &err);
    }
    if (err.code == 0 && s->device.set_in_environment)
        log_line(&s->log, BMOE_LOG_INFO, "set %s for %s", s->device.set_in_environment,
                 ggml_backend_dev_name(s->device.device));
    uint32_t cpus = host_cpu_count("");
    if (s->o.prefill_loaders > 4 * cpus)
        s->o.prefill_loaders = 4 * cpus;
    if (err.code == 0 && s->device.device && s->o.prefill_min_tokens != BMOE_MIN_TOKENS_AUTO &&
        s->o.prefill_ubatch < s->o.prefill_min_tokens)
        error_set(&err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                  "pieces of %u prompt tokens are narrower than the %u that a device is worth",
                  s->o.prefill_ubatch, s->o.prefill_min_tokens);
    if (err.code == 0) {
        if (s->device.device)
            s->o.prefill_device = ggml_backend_dev_name(s->device.device);
        return;
    }
    close_device(s, &err);
}

/* A graph that is stopped at once shows what is computed in one place: all of it, when that is the
 * CPU. A device that takes ops from the host's memory ends that place before the output head. */
bool prefill_leaves_the_host_alone(struct bmoe_session *s)
{
    struct bmoe_error why = {0};
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++) {
        const struct graph_weight *w = graph_map_weight(s->map, i);
        const char *name = w->tensor->name;
        if ((w->uses & GRAPH_USE_MATRIX) &&
            (strcmp(name, "output.weight") == 0 || strcmp(name, "token_embd.weight") == 0))
            return true;
    }
    error_set(&why, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
              "%s computes from the host's memory, also in graphs that are not given to it",
              s->o.prefill_device);
    close_device(s, &why);
    return false;
}

/* Layer weights whose op the device refuses in a wide graph stay on the host. */
struct survey {
    struct bmoe_session *s;
    bool *refused; /* by weight of the map */
};

static void survey_node(void *user, struct ggml_tensor *node)
{
    const struct survey *survey = user;
    bool matrix = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
    int refused = -1;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        uint32_t weight = node->src[i]
                              ? graph_map_find_weight(survey->s->map, graph_root(node->src[i]))
                              : GRAPH_NONE;
        if (weight == GRAPH_NONE || (matrix && i == 0)) /* matrices are probed by type */
            continue;
        if (refused < 0)
            refused = !device_probe_op(survey->s->device.device, node, i);
        survey->refused[weight] |= refused == 1;
    }
}

static void describe_source(const struct bmoe_session *s, uint32_t weight, uint32_t layer,
                            bool refused, struct layer_source *out)
{
    const struct graph_weight *g = graph_map_weight(s->map, weight);
    const struct weight *w = weights_get(s->weights, weight);
    bool experts = g->site != GRAPH_NONE && g->uses == GRAPH_USE_EXPERTS;
    *out = (struct layer_source){.tensor = g->tensor,
                                 .weight = weight,
                                 .layer = layer,
                                 .site = experts ? g->site : GRAPH_NONE,
                                 .uses = g->uses,
                                 .refused = refused,
                                 .file = s->files[w->file->shard],
                                 .file_offset = w->file->offset,
                                 .n_slices = experts ? (uint32_t)g->tensor->ne[2] : 1,
                                 .first_extent = LAYERS_NONE};
    out->slice_bytes = w->file->bytes / out->n_slices;
    if (w->traits && !w->rows.map)
        return; /* in memory it has a layout of which there is no way back */
    if (w->traits) {
        out->restore = repack_restore;
        out->restore_ctx = &w->rows;
        out->restore_rows = REPACK_GROUP_ROWS;
    }
    if (w->kind != WEIGHT_PAGED)
        out->base = w->base;
    else if (experts)
        out->first_extent = w->range.first_extent;
}

static uint32_t sources(const struct bmoe_session *s, const bool *refused, struct layer_source *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph_map_n_weights(s->map); i++) {
        uint32_t layer = prefill_layer_of(graph_map_weight(s->map, i)->tensor->name);
        if (layer != LAYERS_NONE && weights_get(s->weights, i))
            describe_source(s, i, layer, refused[i], &out[n++]);
    }
    return n;
}

/* Where the device has memory of its own, and after all layers' dense weights half is left. */
static bool dense_stays(const struct bmoe_session *s, const struct layer_source *all, uint32_t n)
{
    size_t unused = 0, total = 0;
    uint64_t dense = 0;
    if (s->o.prefill_dense != BMOE_PREFILL_DENSE_AUTO)
        return s->o.prefill_dense == BMOE_PREFILL_DENSE_RESIDENT;
    for (uint32_t i = 0; i < n; i++)
        if (all[i].site == GRAPH_NONE)
            dense += all[i].slice_bytes;
    ggml_backend_dev_memory(s->device.device, &unused, &total);
    return !prefill_shares_memory(s) && dense < unused / 2;
}

static void say(const struct bmoe_session *s)
{
    struct prefill_counters c;
    prefill_counters(s->prefill, &c);
    log_line(
        &s->log, BMOE_LOG_INFO,
        "prefill on %s: pieces of %u to %u tokens, %u slots and what stays take %.1f MiB of "
        "it, scratch space up to %.1f; buffers and converted weights %.1f MiB here, %u loaders",
        s->o.prefill_device, s->o.prefill_min_tokens, s->o.prefill_ubatch, c.n_slots,
        (double)c.device_bytes / (1 << 20), (double)s->buffers.compute / (1 << 20),
        (double)c.host_bytes / (1 << 20), s->o.prefill_loaders);
    if (c.wrong_type != GGML_TYPE_COUNT)
        log_line(&s->log, BMOE_LOG_WARN,
                 "%s multiplies wrong from dense weights of type %s, so it is given none",
                 s->o.prefill_device, ggml_type_name(c.wrong_type));
    if (c.n_carried || c.n_kept)
        log_line(&s->log, BMOE_LOG_INFO,
                 "%s takes %u dense weights in another type; %u stay on the CPU",
                 s->o.prefill_device, c.n_carried, c.n_kept);
}

static uint32_t most_experts(const struct graph_map *map)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < graph_map_n_sites(map); i++)
        if (graph_map_site(map, i)->n_expert > most)
            most = graph_map_site(map, i)->n_expert;
    return most;
}

static int create(struct bmoe_session *s, const struct layer_source *all, uint32_t n,
                  struct bmoe_error *err)
{
    struct prefill_config c = {.device = s->device.device,
                               .backend = s->device.backend,
                               .pager = s->pager,
                               .map = s->map,
                               .n_slots = prefill_n_slots(s),
                               .n_loaders = s->o.prefill_loaders,
                               .routed = !s->o.prefill_whole,
                               .whole_part = (double)s->o.prefill_routed_full,
                               .dense_resident = dense_stays(s, all, n),
                               .convert_limit = prefill_convert_limit(s),
                               .n_tokens_max = s->o.prefill_ubatch,
                               .n_expert_max = most_experts(s->map),
                               .hooks = s->hooks.arena};
    return prefill_create(&s->prefill, &c, all, n, err);
}

static int64_t time_graph(struct bmoe_session *s, uint32_t width, uint32_t min_tokens,
                          struct bmoe_error *err)
{
    int64_t best = INT64_MAX;
    s->o.prefill_min_tokens = min_tokens;
    for (int round = 0; round < 2; round++) { /* the first makes room and fills caches */
        context_keep(s, 0);
        int64_t start = clock_now_us();
        int rc = context_decode(s, width, 1, err);
        while (rc < 0 && prefill_fall_back(s, err) && s->prefill) { /* it was taught better */
            start = clock_now_us();
            rc = context_decode(s, width, 1, err);
        }
        if (rc < 0)
            return rc;
        int64_t spent = clock_now_us() - start;
        best = spent < best ? spent : best;
    }
    return best;
}

/* The least width at which the device is faster, both measured. Costs a few graphs. */
static int measure_min_tokens(struct bmoe_session *s, struct bmoe_error *err)
{
    uint32_t most = s->o.prefill_ubatch < s->o.n_ubatch ? s->o.prefill_ubatch : s->o.n_ubatch;
    uint32_t found = UINT32_MAX, width = LEAST_TOKENS;
    for (uint32_t i = 0; i < most && i < s->n_ctx; i++)
        s->tokens[i] = (llama_token)(i % s->n_vocab);
    for (; width <= most && found == UINT32_MAX; width *= 2) {
        int64_t there = time_graph(s, width, LEAST_TOKENS, err);
        int64_t here = there < 0 ? 0 : time_graph(s, width, UINT32_MAX, err);
        if (there < 0 || here < 0) {
            s->o.prefill_min_tokens = LEAST_TOKENS;
            return (int)(there < 0 ? there : here);
        }
        if (there < here)
            found = width;
    }
    context_keep(s, 0);
    s->o.prefill_min_tokens = found;
    if (found == UINT32_MAX)
        log_line(&s->log, BMOE_LOG_WARN, "%s was slower than the CPU at up to %u tokens",
                 s->o.prefill_device, width / 2);
    return BMOE_OK;
}

int prefill_setup(struct bmoe_session *s, struct bmoe_error *err)
{
    if (!s->device.device)
        return BMOE_OK;
    bool automatic = s->o.prefill_min_tokens == BMOE_MIN_TOKENS_AUTO;
    if (automatic)
        s->o.prefill_min_tokens = LEAST_TOKENS;
    uint32_t n_weights = graph_map_n_weights(s->map);
    struct survey survey = {.s = s, .refused = calloc(n_weights + 1, sizeof(bool))};
    struct layer_source *all = calloc(n_weights + 1, sizeof *all);
    struct bmoe_error why = {0};
    int rc = survey.refused && all
                 ? context_observe(s, s->o.prefill_min_tokens, survey_node, &survey, err)
                 : error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the layers");
    if (rc == BMOE_OK && create(s, all, sources(s, survey.refused, all), &why) == BMOE_OK &&
        !prefill_has_scratch(s, &why)) {
        prefill_destroy(s->prefill);
        s->prefill = NULL;
    }
    if (rc == BMOE_OK && !s->prefill)
        give_up(s, &why);
    if (rc == BMOE_OK && s->prefill)
        prefill_memory_move(s);
    struct bmoe_error measured = {0};
    if (rc == BMOE_OK && s->prefill && automatic && measure_min_tokens(s, &measured) < 0 &&
        s->prefill) {
        rc = measured.code;
        *err = measured;
    }
    if (rc == BMOE_OK && s->prefill)
        say(s);
    free(survey.refused);
    free(all);
    return rc;
}

bool prefill_fall_back(struct bmoe_session *s, const struct bmoe_error *err)
{
    if (err->code != BMOE_E_DEVICE || !s->prefill)
        return false;
    if (!prefill_learned(s->prefill)) {
        log_line(&s->log, BMOE_LOG_WARN,
                 "%s; the prompt is computed again on the CPU, and so are later ones", err->text);
        prefill_counters(s->prefill, &s->device_before);
        prefill_destroy(s->prefill);
        s->prefill = NULL;
        s->unchecked = false;
        prefill_memory_move_back(s);
    }
    s->reserved_there = false;       /* the graph is placed anew */
    s->prefix.n = s->boundary.n = 0; /* states that it computed */
    context_keep(s, 0);
    return true;
}
