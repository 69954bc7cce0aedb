/*
 * A backend as prefill device: gate_ork MODEL, the NPU's (on its simulator); gate_ork MODEL PLUGIN
 * DEVICE, any other. The reference is stock libllama with every layer resident on the device; a
 * session that holds two layers of them at a time, fed from disk, its pager emptied all the time,
 * must give the same bytes for the prompt's last row, from as many nodes on the device. Decoding is
 * the CPU's, so only the first row of each request is compared.
 */
#include "gate_live.h"
#include "gate_text.h"
#include "plugin_counts.h"

#include <llama.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { UBATCH = 64, N_PROMPTS = 5 };

static const char *model;
static ggml_backend_dev_t ork;
static bool is_ork; /* it counts what it fused */

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

/* All layers there; what is no layer's stays on the host, as a session has it. */
static struct llama_model *load_resident(void)
{
    ggml_backend_dev_t devices[] = {ork, NULL};
    ggml_backend_buffer_type_t host =
        ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    struct llama_model_tensor_buft_override overrides[] = {{"^(output|token_embd)", host},
                                                           {NULL, NULL}};
    struct llama_model_params p = llama_model_default_params();
    p.devices = devices;
    p.n_gpu_layers = 999;
    p.tensor_buft_overrides = overrides;
    p.use_extra_bufts = false; /* of the CPU; those of devices are always asked */
    struct llama_model *m = llama_model_load_from_file(model, p);
    assert_non_null(m);
    return m;
}

/* Nodes that graphs have for the device. */
struct there {
    int64_t products, others;
    int64_t maybe; /* more that it takes, in place of what the CPU's memory has: anybody's */
};

/* Those that it takes and whose result is scratch memory of its. (What is written to the context's
 * memory is the host's in a session.) */
static void count_node(struct there *n, const struct ggml_tensor *node)
{
    const struct ggml_tensor *root = node->view_src ? node->view_src : node;
    bool moves = node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW ||
                 node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE ||
                 node->op == GGML_OP_TRANSPOSE;
    if (moves || ggml_is_empty(node) || !root->buffer ||
        ggml_backend_buffer_get_usage(root->buffer) != GGML_BACKEND_BUFFER_USAGE_COMPUTE ||
        !ggml_backend_dev_supports_op(ork, node))
        return;
    bool product = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
    if (ggml_backend_buft_get_device(ggml_backend_buffer_get_type(root->buffer)) == ork)
        ++*(product ? &n->products : &n->others);
    else
        n->maybe += node->src[0]->data == node->data;
}

static bool resident_node(struct ggml_tensor *node, bool ask, void *user)
{
    if (ask)
        count_node(user, node);
    return false;
}

static bool session_node(void *user, enum session_moment moment, const struct ggml_tensor *node)
{
    if (moment == MOMENT_NODE_ASKED)
        count_node(user, node);
    return false;
}

static struct llama_context *open_context(struct llama_model *m, const struct gate_case *c,
                                          struct there *nodes)
{
    struct llama_context_params p = llama_context_default_params();
    struct llama_context *ctx;
    p.n_ctx = c->n_ctx;
    p.n_batch = p.n_ubatch = UBATCH;
    p.n_seq_max = 1;
    p.n_threads = p.n_threads_batch = (int32_t)c->n_threads;
    p.flash_attn_type =
        c->flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.op_offload = false;
    p.cb_eval = resident_node;
    p.cb_eval_user_data = nodes;
    p.offload_kqv = !is_ork; /* in a session attention is the device's, if it can */
    ctx = llama_init_from_model(m, p);
    assert_non_null(ctx);
    return ctx;
}

/* As much of the text as is two whole pieces, so that no piece is too short for the device. */
static int two_pieces(const struct llama_vocab *vocab, llama_token *tokens, uint32_t from,
                      uint32_t *bytes)
{
    int n = 0;
    for (*bytes = UBATCH / 4; n != 2 * UBATCH; ++*bytes) {
        assert_in_range(*bytes, 1, 16 * UBATCH);
        n = llama_tokenize(vocab, gate_text(from + *bytes) + from, (int32_t)*bytes, tokens,
                           2 * UBATCH, true, true);
    }
    --*bytes;
    return n;
}

/* The row of the prompt's last token; answers the prompt's bytes. Adds to the nodes. */
static uint32_t resident_row(struct llama_model *m, const struct gate_case *c, uint32_t from,
                             struct gate_rows *rows, struct there *nodes)
{
    struct llama_context *ctx = open_context(m, c, nodes);
    const struct llama_vocab *vocab = llama_model_get_vocab(m);
    llama_token tokens[2 * UBATCH];
    uint32_t bytes;
    const int n = two_pieces(vocab, tokens, from, &bytes);
    for (int at = 0; at < n; at += UBATCH) {
        int8_t wanted[UBATCH] = {0}; /* as in a session: logits of the last token alone */
        struct llama_batch b = llama_batch_get_one(tokens + at, UBATCH);
        b.logits = wanted;
        wanted[UBATCH - 1] = at + UBATCH == n;
        assert_int_equal(llama_decode(ctx, b), 0);
    }
    assert_true(gate_rows_open(rows));
    assert_true(
        gate_rows_add(rows, llama_get_logits_ith(ctx, -1), (uint32_t)llama_vocab_n_tokens(vocab)));
    llama_free(ctx);
    return bytes;
}

/* What the plug-in counted so far. */
static struct plugin_counts counts_now(void)
{
    void *proc = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(ork),
                                                   "ggml_backend_ork_counts");
    void (*get)(ggml_backend_dev_t, struct plugin_counts *);
    struct plugin_counts counts = {0};
    if (!is_ork)
        return counts;
    assert_non_null(proc);
    memcpy(&get, &proc, sizeof get);
    get(ork, &counts);
    return counts;
}

/* Every product, and on other devices than the NPU every node. The NPU's others are norms and the
 * MUL and ADD of their weights; a session may have fewer of them there. In nemotron_h, counted by
 * op over all the prompts: 80 MUL in both, and 80 RMS_NORM in a session where it is 120 with all
 * layers there, so the 40 are norms whose MUL is the CPU's in both. */
static void same_places(const struct there *once, const struct there *twice)
{
    printf("  %lld products and %lld other nodes, by the graphs %lld and %lld\n",
           (long long)twice->products, (long long)twice->others, 2 * (long long)once->products,
           2 * (long long)once->others);
    assert_int_equal(twice->products, 2 * once->products);
    if (is_ork)
        assert_true(twice->others > 0);
    else
        assert_int_equal(twice->others, 2 * once->others);
}

static void prefill_is_the_resident_one(void **state)
{
    (void)state;
    struct gate_case c;
    gate_case_init(&c);
    c.model = model;
    c.n_ubatch = UBATCH;
    c.budget = GATE_BUDGET_EIGHTH;
    c.repack = false; /* of the output, which stays on the host in both */
    struct gate_live want[N_PROMPTS] = {{0}}, live[N_PROMPTS] = {{0}};
    struct there all = {0}, ours = {0};
    struct session_hooks hooks = {.device = ork, .on_moment = session_node, .moment_user = &ours};
    struct llama_model *m = load_resident();
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        live[i] = (struct gate_live){.from = i * 1000, .n_predict = 1};
        live[i].prompt_bytes = resident_row(m, &c, live[i].from, &want[i].rows, &all);
    }
    llama_model_free(m);
    const struct plugin_counts resident = counts_now();
    struct bmoe_session *s = gate_live_open(&c, true, &hooks);
    struct bmoe_stats stats = {.size = sizeof stats};
    const struct plugin_counts opened = counts_now(); /* after trial products */
    gate_live_evict_begin(s);
    for (int i = 0; i < 2 * N_PROMPTS; i++) {
        gate_live_succeed(s, &live[i % N_PROMPTS]);
        bmoe_session_stats(s, &stats);
        printf("  device tokens %lld, nodes %lld, matmuls left to the CPU %lld, read %lld bytes\n",
               (long long)stats.dev_tokens, (long long)stats.dev_nodes,
               (long long)stats.dev_cpu_matmuls, (long long)stats.dev_read_bytes);
        gate_live_same(&want[i % N_PROMPTS], &live[i % N_PROMPTS]);
    }
    gate_live_evict_end();
    same_places(&all, &ours);
    assert_int_equal(stats.dev_nodes, ours.products + ours.others);
    if (is_ork) {
        const struct plugin_counts after = counts_now();
        assert_in_range(after.nodes - opened.nodes, stats.dev_nodes, stats.dev_nodes + ours.maybe);
        printf("  it computed %llu nodes, %lld more than are seen in its memory\n",
               (unsigned long long)(after.nodes - opened.nodes),
               (long long)(after.nodes - opened.nodes) - (long long)stats.dev_nodes);
        printf("  norms fused: %llu with all layers there, %llu in the session\n",
               (unsigned long long)resident.norms_fused,
               (unsigned long long)(after.norms_fused - opened.norms_fused));
        assert_true(resident.norms_fused > 0 && after.norms_fused > opened.norms_fused);
    }
    assert_true(stats.dev_tokens > 0 && stats.dev_nodes > 0 && stats.dev_read_bytes > 0);
    bmoe_session_close(s);
    for (int i = 0; i < N_PROMPTS; i++) {
        gate_live_fini(&live[i]);
        gate_live_fini(&want[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(prefill_is_the_resident_one)};
    if (argc < 2)
        return 2;
    model = argv[1];
    setenv("ORK_TRANSPORT", "sim", 1);
    setenv("ORK_MIN_ROWS", "1", 1);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(BMOE_BACKENDS_DIR);
    for (size_t i = ggml_backend_reg_count(); i > 0; i--) {
        ggml_backend_reg_t reg = ggml_backend_reg_get(i - 1);
        if (strcmp(ggml_backend_reg_name(reg), "CPU") != 0)
            ggml_backend_unload(reg);
    }
    is_ork = argc != 4;
    if (!ggml_backend_load(is_ork ? ORK_PLUGIN : argv[2]) ||
        !(ork = ggml_backend_dev_by_name(is_ork ? "ORK0" : argv[3])))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
