/*
 * Opening and closing. The order is the design: the file is judged before libllama sees it;
 * libllama loads it without reading it; the graph is learned without touching a weight; the plan is
 * made and said; only then are the weights placed, bound and the dense ones read.
 */
#include "engine/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "engine/trial.h"
#include "pager/rebind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bmoe_options_init(struct bmoe_options *o)
{
    *o = (struct bmoe_options){.size = sizeof *o};
}

const char *bmoe_version(void)
{
    return BMOE_VERSION;
}

/* Passed while libllama loads: which shard asks for its mapping. */
struct mapping {
    struct bmoe_session *s;
    struct bmoe_error error;
};

static void *on_map(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    struct mapping *m = ctx;
    for (uint32_t i = 0; i < gguf_index_n_shards(m->s->index); i++) {
        const struct gguf_shard *shard = gguf_index_shard(m->s->index, i);
        if (shard->dev == dev && shard->ino == ino)
            return pager_mapping_create(m->s->pager, m->s->files[i], bytes, &m->error);
    }
    return NULL;
}

static bool on_progress(float part, void *user)
{
    const struct bmoe_session *s = user;
    if (s->o.progress)
        s->o.progress(s->o.progress_user, part * 0.1f);
    return true;
}

static int open_pager(struct bmoe_session *s, struct bmoe_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct pager_config c = {
        .reserve_bytes = weights_reserve_bytes(s->index, page),
        .budget_bytes = UINT64_MAX / 4, /* until the plan is made */
        .n_readers = s->o.n_readers,
        .n_touchers = s->o.n_threads > s->o.n_threads_batch ? s->o.n_threads : s->o.n_threads_batch,
        .buffered = s->o.buffered,
        .place = s->o.place,
        .io = s->hooks.io,
        .log = s->log,
        .skip_page = -1};
    int rc = pager_create(&s->pager, &c, err);
    uint32_t n = gguf_index_n_shards(s->index);
    s->files = calloc(n, sizeof *s->files);
    if (rc == BMOE_OK && !s->files)
        rc = error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the files' table");
    for (uint32_t i = 0; rc == BMOE_OK && i < n; i++) {
        s->files[i] = pager_file_add(s->pager, gguf_index_shard(s->index, i)->path, err);
        rc = s->files[i] < 0 ? s->files[i] : BMOE_OK;
    }
    return rc;
}

static int check_expert_used(struct bmoe_session *s, struct bmoe_error *err)
{
    s->n_expert = (uint32_t)gguf_index_u64(s->index, "%s.expert_count", 0);
    if (s->o.n_expert_used > s->n_expert)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION,
                         "%u experts used: %s has %u experts a layer", s->o.n_expert_used,
                         s->o.model, s->n_expert);
    return BMOE_OK;
}

void session_override_experts(const struct gguf_index *index, uint32_t n_used,
                              struct llama_model_kv_override kv[2])
{
    kv[0].tag = LLAMA_KV_OVERRIDE_TYPE_INT;
    snprintf(kv[0].key, sizeof kv[0].key, "%s.expert_used_count", gguf_index_arch(index));
    kv[0].val_i64 = n_used;
    kv[1].key[0] = '\0';
}

static int load_model(struct bmoe_session *s, struct bmoe_error *err)
{
    struct llama_model_kv_override kv[2] = {0};
    ggml_backend_dev_t devices[2] = {s->device.device, NULL}; /* no layer is given to it */
    struct llama_model_params p = llama_model_default_params();
    p.devices = devices;
    p.no_host = true;
    p.n_gpu_layers = 0;
    p.load_mode = LLAMA_LOAD_MODE_MMAP;
    p.use_extra_bufts = false;
    p.check_tensors = false;
    p.progress_callback = on_progress;
    p.progress_callback_user_data = s;
    if (s->o.n_expert_used) {
        session_override_experts(s->index, s->o.n_expert_used, kv);
        p.kv_overrides = kv;
    }
    struct mapping mapping = {.s = s};
    int rc = trial_wait(s->trial, TRIAL_LOADED, err);
    if (rc < 0)
        return rc;
    int slots = rebind_begin("libllama", on_map, &mapping, err);
    if (slots < 0)
        return slots;
    s->load_read_file = slots == 0;
    llama_log_enter(&s->llama_log);
    s->model = llama_model_load_from_file(gguf_index_shard(s->index, 0)->path, p);
    llama_log_leave();
    rebind_end();
    if (!s->model && mapping.error.code < 0) {
        if (err)
            *err = mapping.error;
        return mapping.error.code;
    }
    if (!s->model)
        return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION, "libllama refuses %s: %s",
                         s->o.model,
                         s->llama_log.first[0] ? s->llama_log.first : "it does not say why");
    if (s->load_read_file)
        log_line(
            &s->log, BMOE_LOG_WARN,
            "this libllama's mmap could not be answered: the load has read the whole file once");
    s->vocab = llama_model_get_vocab(s->model);
    s->n_vocab = (uint32_t)llama_vocab_n_tokens(s->vocab);
    llama_model_desc(s->model, s->model_desc, sizeof s->model_desc);
    return BMOE_OK;
}

static int learn(struct bmoe_session *s, struct bmoe_error *err)
{
    s->n_batch = s->o.prefill_ubatch > s->o.n_ubatch ? s->o.prefill_ubatch : s->o.n_ubatch;
    int rc = trial_wait(s->trial, TRIAL_ENDED, err);
    if (rc == BMOE_OK)
        rc = context_create(s, 1, err);
    if (rc < 0)
        return rc;
    s->batch = llama_batch_init((int32_t)s->n_batch, 0, 1);
    s->tokens = calloc(s->n_ctx, sizeof *s->tokens);
    if (!s->batch.token || !s->tokens)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for the tokens");
    for (uint32_t i = 0; i < s->n_batch; i++) {
        s->batch.n_seq_id[i] = 1;
        s->batch.seq_id[i][0] = 0;
    }
    rc = context_capture(s, err);
    if (rc == BMOE_OK && s->o.cpu_repack != BMOE_OFF)
        rc = repack_open(&s->repack, err);
    return rc;
}

/* The table of weights for a paged or a resident run. */
static int table(struct bmoe_session *s, bool paged, struct bmoe_error *err)
{
    struct weights_config c = {.pager = s->pager,
                               .index = s->index,
                               .map = s->map,
                               .repack = s->repack.buffer ? &s->repack : NULL,
                               .files = s->files,
                               .paged = paged,
                               .dense = s->o.dense,
                               .page_bytes = (size_t)sysconf(_SC_PAGESIZE),
                               .hide = s->hooks.hide_weight};
    weights_destroy(s->weights);
    s->weights = NULL;
    int rc = weights_create(&s->weights, &c, err);
    if (rc == BMOE_OK)
        weights_sums(s->weights, &s->sums);
    return rc;
}

static int place_weights(struct bmoe_session *s, struct bmoe_error *err)
{
    int rc = table(s, true, err);
    if (rc == BMOE_OK)
        rc = plan_decide(s, err);
    if (rc == BMOE_OK && !s->streamed)
        rc = table(s, false, err);
    if (rc == BMOE_OK)
        rc = weights_bind(s->weights, err);
    if (rc == BMOE_OK)
        rc = plan_settle(s, err);
    if (rc == BMOE_OK)
        rc = pager_start(s->pager, s->o.progress, s->o.progress_user, err);
    return rc;
}

static size_t experts_used(const struct bmoe_session *s)
{
    size_t used = 1;
    for (uint32_t i = 0; i < graph_map_n_sites(s->map); i++)
        if (graph_map_site(s->map, i)->n_used > used)
            used = graph_map_site(s->map, i)->n_used;
    return used;
}

static int open_stream(struct bmoe_session *s, struct bmoe_error *err)
{
    struct stream_config c = {.pager = s->pager,
                              .map = s->map,
                              .weights = s->weights,
                              .paged = s->streamed,
                              .wait = pager_place(s->pager) == BMOE_PLACE_NONE,
                              .ahead_bytes = s->plan.budget / 4,
                              .n_ids = (size_t)s->o.n_ubatch * experts_used(s),
                              .load_all = s->o.load_all,
                              .blind = s->hooks.hide_routing,
                              .guesses = s->hooks.guesses};
    return stream_create(&s->stream, &c, err);
}

/* Loads the model and learns its graph; once more without the device when that takes ops of graphs
 * whose weights are the host's: then neither the graph nor decode is the CPU's. */
static int load_and_learn(struct bmoe_session *s, struct bmoe_error *err)
{
    int rc = load_model(s, err);
    if (rc == BMOE_OK)
        rc = learn(s, err);
    if (!s->device.device || (rc == BMOE_OK && prefill_leaves_the_host_alone(s)))
        return rc;
    llama_free(s->ctx);
    llama_model_free(s->model);
    graph_map_destroy(s->map);
    repack_close(&s->repack);
    if (s->batch.token)
        llama_batch_free(s->batch);
    free(s->tokens);
    s->ctx = NULL;
    s->model = NULL;
    s->map = NULL;
    s->tokens = NULL;
    s->batch = (struct llama_batch){0};
    s->buffers = (struct context_buffers){0};
    rc = load_model(s, err);
    return rc == BMOE_OK ? learn(s, err) : rc;
}

static int open_all(struct bmoe_session *s, const struct bmoe_options *o, struct bmoe_error *err)
{
    int rc = options_resolve(s, o, err);
    if (rc == BMOE_OK)
        rc = gguf_index_open(&s->index, s->o.model, err);
    if (rc == BMOE_OK)
        rc = check_expert_used(s, err);
    if (rc == BMOE_OK)
        s->trial = trial_begin(s->index, s->o.n_expert_used, s->o.backends_dir);
    llama_log_enter(&s->llama_log);
    if (rc == BMOE_OK)
        rc = backend_load_cpu(s->o.backends_dir, s->cpu_variant, sizeof s->cpu_variant, err);
    if (rc == BMOE_OK)
        prefill_open(s);
    llama_log_leave();
    if (rc == BMOE_OK)
        rc = open_pager(s, err);
    if (rc == BMOE_OK)
        rc = load_and_learn(s, err);
    trial_end(s->trial);
    s->trial = NULL;
    if (rc == BMOE_OK)
        rc = place_weights(s, err);
    if (rc == BMOE_OK)
        rc = open_stream(s, err);
    if (rc == BMOE_OK)
        rc = trace_open(s, err);
    if (rc == BMOE_OK)
        rc = lens_open(s, err);
    if (rc == BMOE_OK)
        rc = prefill_setup(s, err);
    return rc;
}

int session_open_hooked(struct bmoe_session **out, const struct bmoe_options *o,
                        const struct session_hooks *hooks, struct bmoe_error *err)
{
    int64_t start = clock_now_us();
    struct bmoe_error local;
    err = err ? err : &local;
    struct bmoe_session *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a session");
    if (hooks)
        s->hooks = *hooks;
    int rc = open_all(s, o, err);
    if (rc < 0) {
        if (err->scope == BMOE_SCOPE_REQUEST) /* a failed read: there is no session to go on */
            err->scope = BMOE_SCOPE_SESSION;
        bmoe_session_close(s);
        return rc;
    }
    s->load_s = (double)(clock_now_us() - start) / 1e6;
    plan_describe(s);
    *out = s;
    return BMOE_OK;
}

int bmoe_session_open(struct bmoe_session **out, const struct bmoe_options *o,
                      struct bmoe_error *err)
{
    return session_open_hooked(out, o, NULL, err);
}

void bmoe_session_close(struct bmoe_session *s)
{
    if (!s)
        return;
    if (s->ctx)
        llama_free(s->ctx);
    prefill_memory_drop(s);
    prefill_destroy(s->prefill);
    stream_destroy(s->stream);
    if (s->model)
        llama_model_free(s->model);
    weights_destroy(s->weights);
    if (s->device.backend)
        ggml_backend_free(s->device.backend);
    pager_destroy(s->pager);
    repack_close(&s->repack);
    graph_map_destroy(s->map);
    gguf_index_close(s->index);
    if (s->batch.token)
        llama_batch_free(s->batch);
    free(s->tokens);
    trace_close(s);
    lens_close(s);
    free(s->text);
    state_fini(&s->prefix);
    state_fini(&s->boundary);
    free(s->choice_logp);
    free(s->files);
    free(s->model_path);
    free(s->backends_dir);
    free(s->type_k_name);
    free(s->type_v_name);
    free(s->device_name);
    free(s);
}

void bmoe_session_cancel(struct bmoe_session *s)
{
    atomic_store(&s->cancelled, true);
}

void bmoe_session_clear(struct bmoe_session *s)
{
    context_keep(s, 0);
}

struct prefill *session_prefill(struct bmoe_session *s)
{
    return s->prefill;
}

struct pager *session_pager(struct bmoe_session *s)
{
    return s->pager;
}
