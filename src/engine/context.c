/*
 * The one place that calls llama_decode. libllama reports a graph that was stopped in ways that
 * depend on who stopped it, so after every decode our own flags decide what happened, whatever it
 * returned; and whatever entries the failed graph left in the context's memory are removed.
 */
#include "engine/session.h"

#include "base/error.h"
#include "base/host.h"
#include "device/kv_memory.h"
#include "pager/rebind.h"

#include <math.h>
#include <sys/mman.h>

/* The context's memory is what the graph reads or writes outside weights and scratch space. */
static void note_buffer(struct context_buffers *b, struct ggml_tensor *tensor)
{
    struct ggml_backend_buffer *buffer = graph_root(tensor)->buffer;
    if (!buffer || b->n_seen == sizeof b->seen / sizeof b->seen[0])
        return;
    for (unsigned i = 0; i < b->n_seen; i++)
        if (b->seen[i] == buffer)
            return;
    b->seen[b->n_seen++] = buffer;
    switch (ggml_backend_buffer_get_usage(buffer)) {
    case GGML_BACKEND_BUFFER_USAGE_WEIGHTS:
        break;
    case GGML_BACKEND_BUFFER_USAGE_COMPUTE:
        b->compute += ggml_backend_buffer_get_size(buffer);
        break;
    default:
        b->kv += ggml_backend_buffer_get_size(buffer);
    }
}

static void note_node(struct bmoe_session *s, struct ggml_tensor *node)
{
    note_buffer(&s->buffers, node);
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i])
            note_buffer(&s->buffers, node->src[i]);
}

static bool computes(const struct ggml_tensor *node)
{
    return node->op != GGML_OP_NONE && node->op != GGML_OP_VIEW && node->op != GGML_OP_RESHAPE &&
           node->op != GGML_OP_PERMUTE && node->op != GGML_OP_TRANSPOSE;
}

/* Weights are not there yet: what lies behind them is a mapping that must not be touched. */
static void stand_in(struct capture *c, const struct ggml_tensor *node)
{
    if (c->met || !computes(node))
        return;
    c->met = true;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        struct ggml_tensor *t = node->src[i];
        if (!t || !graph_is_weight(graph_root(t)))
            continue;
        void *zeros = mmap(NULL, ggml_nbytes(t), PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (zeros == MAP_FAILED)
            continue;
        c->at[c->n].tensor = t;
        c->at[c->n].data = t->data;
        c->at[c->n].zeros = zeros;
        c->at[c->n++].bytes = ggml_nbytes(t);
        t->data = zeros;
    }
}

static void stand_out(struct capture *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        c->at[i].tensor->data = c->at[i].data;
        munmap(c->at[i].zeros, c->at[i].bytes);
    }
}

/* Of a graph that is stopped the scheduler still computes the node it asked for, and one of each
 * later part of the graph, whose sources were never computed: indices among them may be anything.
 * So it computes nothing in that node's place. */
static bool stop_at(struct bmoe_session *s, struct ggml_tensor *node)
{
    s->stopped_op = node->op;
    s->stopped_at = node;
    node->op = GGML_OP_NONE;
    return true;
}

static void stop_ends(struct bmoe_session *s)
{
    if (s->stopped_at)
        s->stopped_at->op = s->stopped_op;
    s->stopped_at = NULL;
}

static bool stopped(const struct bmoe_session *s)
{
    return atomic_load_explicit(&s->cancelled, memory_order_relaxed) || stream_failed(s->stream) ||
           prefill_stopped(s->prefill);
}

/* A device asks no abort callback, so its graphs are stopped here. */
static bool on_device_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask)
{
    stop_ends(s);
    if (stopped(s))
        return ask && stop_at(s, node);
    bool device = prefill_node(s->prefill, node, ask);
    bool host = stream_node(s->stream, node, ask);
    if (ask && stopped(s))
        return stop_at(s, node);
    return ask ? device || host : device && host;
}

/* All entries, and the bytes behind them wherever they lie. */
static void clear_memory(struct bmoe_session *s)
{
    llama_memory_clear(llama_get_memory(s->ctx), true);
    if (s->memory)
        kv_memory_cleared(s->memory);
}

static void learn_node(void *user, struct ggml_tensor *node)
{
    struct bmoe_session *s = user;
    graph_map_add_node(s->map, node);
    note_node(s, node);
}

/* Whoever times the session's graphs is told; answers whether the node is to be computed alone. */
static bool moment(const struct bmoe_session *s, enum session_moment m,
                   const struct ggml_tensor *node)
{
    return s->hooks.on_moment && s->hooks.on_moment(s->hooks.moment_user, m, node);
}

static bool on_graph_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask)
{
    bool alone = moment(s, ask ? MOMENT_NODE_ASKED : MOMENT_NODE_TOLD, node);
    bool traced = trace_node(s, node, ask); /* first: what is resident before the reads */
    bool wanted = progress_node(s, ask);
    wanted |= lens_node(s, node, ask);
    bool go = s->on_device ? on_device_node(s, node, ask) : stream_node(s->stream, node, ask);
    if (ask)
        go = go || traced || wanted || alone;
    moment(s, ask ? go ? MOMENT_NODE_WANTED : MOMENT_NODE_SKIPPED : MOMENT_NODE_SETTLED, node);
    return go;
}

static bool on_node(struct ggml_tensor *node, bool ask, void *user)
{
    struct bmoe_session *s = user;
    if (s->hollow) {
        stop_ends(s);
        return ask && stop_at(s, node);
    }
    if (!s->capture)
        return on_graph_node(s, node, ask);
    if (ask) {
        stand_in(s->capture, node);
        s->capture->on_node(s->capture->user, node);
    }
    return false;
}

static bool on_abort(void *user)
{
    const struct bmoe_session *s = user;
    return s->capture || atomic_load_explicit(&s->cancelled, memory_order_relaxed) ||
           stream_failed(s->stream);
}

static enum llama_flash_attn_type flash_attn(enum bmoe_tristate value)
{
    if (value == BMOE_ON)
        return LLAMA_FLASH_ATTN_TYPE_ENABLED;
    return value == BMOE_OFF ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_AUTO;
}

int context_create(struct bmoe_session *s, uint32_t n_outputs, struct bmoe_error *err)
{
    bool anew = s->ctx && s->memory;
    if (s->ctx)
        llama_free(s->ctx);
    prefill_memory_drop(s);
    s->ctx = NULL;
    s->n_kv = s->boundary.n = s->prefix.n = 0;
    s->reserved_there = s->last_on_device = false;
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = s->o.n_ctx;
    p.n_batch = p.n_ubatch = s->n_batch;
    p.n_seq_max = 1;
    p.n_outputs_max = n_outputs;
    p.n_threads = (int32_t)s->o.n_threads;
    p.n_threads_batch = (int32_t)s->o.n_threads_batch;
    p.flash_attn_type = flash_attn(s->o.flash_attn);
    p.type_k = (enum ggml_type)options_kv_type(s->o.cache_type_k);
    p.type_v = (enum ggml_type)options_kv_type(s->o.cache_type_v);
    p.op_offload = false;
    p.offload_kqv = s->device.device != NULL; /* no layer is there; attention may be */
    p.cb_eval = on_node;
    p.cb_eval_user_data = s;
    p.abort_callback = on_abort;
    p.abort_callback_data = s;
    struct host_memory host;
    struct rebind_memory memory = {.limit_bytes = UINT64_MAX};
    if (s->plan.total == 0 && host_memory_read("", &host) == 0) /* later it was planned for */
        memory.limit_bytes = host.available_bytes;
    uint64_t least = memory.limit_bytes < UINT64_MAX ? context_least_bytes(s, &p) : 0;
    if (least > memory.limit_bytes)
        return context_refuse(s, least, &host, err);
    llama_log_enter(&s->llama_log);
    rebind_memory_begin("libggml-base", &memory);
    s->ctx = llama_init_from_model(s->model, p);
    rebind_end();
    llama_log_leave();
    if (!s->ctx && memory.refused)
        return context_refuse(s, memory.asked_bytes, &host, err);
    if (!s->ctx)
        return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                         "libllama makes no context of %u tokens for %s: %s", s->o.n_ctx,
                         s->o.model, s->llama_log.first);
    s->n_outputs = n_outputs;
    s->n_ctx = llama_n_ctx(s->ctx);
    if (anew)
        prefill_memory_move(s);
    return BMOE_OK;
}

int context_capture(struct bmoe_session *s, struct bmoe_error *err)
{
    int rc = graph_map_create(&s->map, err);
    if (rc < 0)
        return rc;
    rc = context_observe(s, 1, learn_node, s, err);
    return rc < 0 ? rc : graph_map_finish(s->map, err);
}

int context_observe(struct bmoe_session *s, uint32_t n_tokens,
                    void (*node)(void *user, struct ggml_tensor *node), void *user,
                    struct bmoe_error *err)
{
    struct llama_batch *b = &s->batch;
    struct capture capture = {.on_node = node, .user = user};
    b->n_tokens = (int32_t)n_tokens;
    for (uint32_t i = 0; i < n_tokens; i++) {
        b->token[i] = 0;
        b->pos[i] = (llama_pos)i;
        b->logits[i] = i + 1 == n_tokens;
    }
    s->capture = &capture;
    llama_log_enter(&s->llama_log);
    int rc = llama_decode(s->ctx, *b);
    llama_log_leave();
    s->capture = NULL;
    stand_out(&capture);
    s->last_width = n_tokens;
    s->last_on_device = false;
    s->n_kv = 0;
    if (rc != 2)
        return error_set(
            err, BMOE_E_SEAM, BMOE_SCOPE_SESSION,
            "libllama answered %d to a decode that was stopped by its abort callback, not "
            "2: this version behaves otherwise than this library relies on",
            rc);
    clear_memory(s);
    return BMOE_OK;
}

void context_forget_graph(struct bmoe_session *s)
{
    llama_set_adapter_cvec(s->ctx, NULL, 0, 0, 0, 0);
}

bool context_occupy(struct bmoe_session *s, uint32_t n)
{
    struct llama_batch *b = &s->batch;
    b->n_tokens = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        b->token[i] = s->tokens[i] = 0;
        b->pos[i] = (llama_pos)i;
        b->logits[i] = i + 1 == n;
    }
    s->hollow = true;
    llama_log_enter(&s->llama_log);
    int rc = llama_decode(s->ctx, *b);
    llama_synchronize(s->ctx);
    llama_log_leave();
    s->hollow = false;
    stop_ends(s);
    s->n_kv = rc == 0 ? n : 0;
    s->last_width = n;
    s->last_on_device = false;
    return rc == 0;
}

uint32_t context_keep(struct bmoe_session *s, uint32_t n)
{
    llama_memory_t memory = llama_get_memory(s->ctx);
    if (n > 0 && n < s->n_kv && !state_may_cut(s, n))
        n = 0;
    if (n > 0 && n < s->n_kv && !llama_memory_seq_rm(memory, 0, (llama_pos)n, -1))
        n = 0;
    if (n == 0) {
        clear_memory(s);
        s->boundary.n = 0;
    }
    if (n < s->n_kv)
        s->n_kv = n;
    return s->n_kv;
}

/* What libllama left of a graph that failed: entries up to before are right, later ones are not.
 * Where the memory cannot be cut, it is forgotten. */
static void drop_failed(struct bmoe_session *s)
{
    llama_memory_t memory = llama_get_memory(s->ctx);
    if (s->n_kv > 0 && llama_memory_seq_rm(memory, 0, (llama_pos)s->n_kv, -1) &&
        llama_memory_seq_pos_max(memory, 0) == (llama_pos)s->n_kv - 1 && state_cuttable(s))
        return;
    if (s->boundary.n > 0 && state_restore(s, &s->boundary))
        return;
    clear_memory(s);
    s->n_kv = 0;
}

/* Rows that a device had a part in are looked at once: what is not a number would go on for ever.
 */
static int check_finite(struct bmoe_session *s, uint32_t n_logits, struct bmoe_error *err)
{
    for (uint32_t i = 0; i < n_logits; i++) {
        const float *row = llama_get_logits_ith(s->ctx, -1 - (int32_t)i);
        for (uint32_t t = 0; t < s->n_vocab; t++)
            if (!isfinite(row[t]))
                return error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                                 "%s computed logits that are not finite", s->o.prefill_device);
    }
    s->unchecked = s->unchecked && n_logits == 0;
    return BMOE_OK;
}

static int judge(struct bmoe_session *s, int decoded, uint32_t n_logits, struct bmoe_error *err)
{
    struct bmoe_error of_device = {0};
    int there = s->on_device ? prefill_end(s->prefill, &of_device) : BMOE_OK;
    if (s->on_device && s->memory)
        kv_memory_bind(s->memory, false);
    int rc = stream_graph_end(s->stream, err);
    if (rc < 0)
        return rc;
    if (atomic_load(&s->cancelled))
        return error_set(err, BMOE_E_CANCELLED, BMOE_SCOPE_REQUEST, "cancelled");
    if (there < 0) {
        *err = of_device;
        return there;
    }
    if (s->on_device && decoded != 0 && decoded != 1)
        return error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST, "a graph failed on %s: %s",
                         s->o.prefill_device, s->llama_log.first);
    if (decoded == 1)
        return error_set(err, BMOE_E_CONTEXT, BMOE_SCOPE_REQUEST,
                         "libllama finds no room for the tokens in its context of %u", s->n_ctx);
    if (decoded != 0)
        return error_set(err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST,
                         "libllama's decode answered %d: %s", decoded, s->llama_log.first);
    return s->unchecked ? check_finite(s, n_logits, err) : BMOE_OK;
}

/* The prompt's experts are on the device; what its last rows wanted, decode is likely to want. */
static void warm_up(struct bmoe_session *s)
{
    for (uint32_t i = 0; !s->hooks.cold_start && i < graph_map_n_sites(s->map); i++) {
        const uint64_t *set = prefill_recent(s->prefill, i);
        if (set)
            stream_expect(s->stream, i, set);
    }
}

static bool runs_there(const struct bmoe_session *s, uint32_t n)
{
    return s->prefill && n >= s->o.prefill_min_tokens;
}

uint32_t context_piece(const struct bmoe_session *s, uint32_t left)
{
    uint32_t there = left < s->o.prefill_ubatch ? left : s->o.prefill_ubatch;
    if (runs_there(s, there))
        return there;
    return left < s->o.n_ubatch ? left : s->o.n_ubatch;
}

/* libllama computes a graph like the last one where that was placed. Widths differ between device
 * and CPU, but for a prompt that is run again; and scratch space is made anew for the device once.
 */
static void graph_begin(struct bmoe_session *s, uint32_t n)
{
    s->on_device = runs_there(s, n);
    bool moved = s->on_device != s->last_on_device && n == s->last_width;
    if (moved || (s->on_device && !s->reserved_there))
        context_forget_graph(s);
    s->reserved_there |= s->on_device;
    s->unchecked |= s->on_device;
    s->last_on_device = s->on_device;
    s->last_width = n;
    stream_graph_begin(s->stream, s->on_device);
    if (s->on_device && s->memory)
        kv_memory_bind(s->memory, true);
    if (s->on_device)
        prefill_begin(s->prefill);
}

int context_decode(struct bmoe_session *s, uint32_t n, uint32_t n_logits, struct bmoe_error *err)
{
    struct bmoe_error local = {0};
    err = err ? err : &local;
    struct llama_batch *b = &s->batch;
    if (n == 0 || n > s->n_batch || n_logits > n || n_logits > s->n_outputs)
        return error_set(err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST, "a decode of %u tokens", n);
    b->n_tokens = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        b->token[i] = s->tokens[s->n_kv + i];
        b->pos[i] = (llama_pos)(s->n_kv + i);
        b->logits[i] = i >= n - n_logits;
    }
    if (runs_there(s, n) && !s->reserved_there && !prefill_has_scratch(s, err))
        return err->code;
    moment(s, MOMENT_GRAPH_BEGINS, NULL);
    graph_begin(s, n);
    trace_graph_begin(s, n);
    progress_graph_begin(s, n);
    llama_log_enter(&s->llama_log);
    int decoded = llama_decode(s->ctx, *b);
    llama_synchronize(s->ctx);
    llama_log_leave();
    moment(s, MOMENT_GRAPH_ENDS, NULL);
    stop_ends(s); /* an aborted part is not told of */
    trace_graph_end(s);
    int rc = judge(s, decoded, n_logits, err);
    if (rc == BMOE_OK) {
        s->n_kv += n;
        s->device_tokens += s->on_device ? n : 0;
        if (s->on_device && n_logits > 0)
            warm_up(s);
    } else {
        drop_failed(s);
    }
    s->on_device = false;
    return rc;
}
