/*
 * What a decision's choices would score if the answer were read off after each layer: the last
 * token's row as the layer leaves it, through the model's own output norm and the choices' rows of
 * its head. libllama's graph computes that for the last layer only, so it is done here, from rows
 * of the file; norm, epsilon and what follows the head are learned from the graph itself.
 *
 * A layer's output is known by its name, which is a hint: a layer without it is left out. As a
 * check, what comes of the last layer must be what the model answered; else nothing is told.
 */
#include "engine/session.h"

#include "base/error.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL_MAX = 4 };

/* How the running graph gets from the last layer to logits. */
struct head {
    bool known;
    bool rms; /* else the mean is taken away as well */
    float eps;
    char norm[GGML_MAX_NAME], bias[GGML_MAX_NAME], rows[GGML_MAX_NAME]; /* weights; "": none */
    struct {
        float scale, shift;
        bool tanh; /* instead of them */
    } tail[TAIL_MAX];
    unsigned n_tail;
    const struct ggml_tensor *last;
};

struct lens {
    uint32_t n_layers, n_embd, n_choices; /* n_choices 0: no decision runs */
    float *rows;                          /* n_embd of each layer */
    bool *seen, failed;
    struct head head;
};

int lens_open(struct bmoe_session *s, struct bmoe_error *err)
{
    if (!s->o.on_lens)
        return BMOE_OK;
    struct lens *l = calloc(1, sizeof *l);
    s->lens = l;
    if (l) {
        l->n_layers = (uint32_t)llama_model_n_layer(s->model);
        l->n_embd = (uint32_t)llama_model_n_embd(s->model);
        l->rows = malloc((size_t)l->n_layers * l->n_embd * sizeof *l->rows);
        l->seen = calloc(l->n_layers, sizeof *l->seen);
    }
    if (!l || !l->rows || !l->seen)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for layers' scores");
    return BMOE_OK;
}

void lens_close(struct bmoe_session *s)
{
    if (s->lens) {
        free(s->lens->rows);
        free(s->lens->seen);
    }
    free(s->lens);
    s->lens = NULL;
}

void lens_begin(struct bmoe_session *s, uint32_t n_choices)
{
    struct lens *l = s->lens;
    if (!l || l->failed)
        return;
    l->n_choices = n_choices;
    l->head = (struct head){0};
    memset(l->seen, 0, l->n_layers * sizeof *l->seen);
}

/* ---- the graph ---- */

/* The layer whose output this is, or n_layers. */
static uint32_t layer_of(const struct lens *l, const struct ggml_tensor *node)
{
    static const char *const names[] = {"l_out-", "nemotron_h_block_out-"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(node->name, names[i], n) == 0) {
            unsigned long layer = strtoul(node->name + n, NULL, 10);
            return layer < l->n_layers ? (uint32_t)layer : l->n_layers;
        }
    }
    return l->n_layers;
}

/* Takes a weight that a node adds or multiplies by; answers what it is applied to. */
static struct ggml_tensor *peel(struct ggml_tensor *t, enum ggml_op op, char *name)
{
    if (t->op != op || !graph_is_weight(graph_root(t->src[1])))
        return t;
    memcpy(name, graph_root(t->src[1])->name, GGML_MAX_NAME);
    return t->src[0];
}

static void learn_norm(struct head *h, struct ggml_tensor *t)
{
    t = peel(t, GGML_OP_ADD, h->bias);
    t = peel(t, GGML_OP_MUL, h->norm);
    h->rms = t->op == GGML_OP_RMS_NORM;
    h->known = h->rms || t->op == GGML_OP_NORM;
    memcpy(&h->eps, t->op_params, sizeof h->eps);
}

static void learn_tail(struct head *h, const struct ggml_tensor *node)
{
    h->last = node;
    if (node->op == GGML_OP_RESHAPE || node->op == GGML_OP_VIEW)
        return;
    h->known &= h->n_tail < TAIL_MAX;
    if (!h->known)
        return;
    bool tanh = node->op == GGML_OP_UNARY && ggml_get_unary_op(node) == GGML_UNARY_OP_TANH;
    h->known = tanh || node->op == GGML_OP_SCALE;
    h->tail[h->n_tail].tanh = tanh;
    memcpy(&h->tail[h->n_tail].scale, (const char *)node->op_params, sizeof(float));
    memcpy(&h->tail[h->n_tail++].shift, (const char *)node->op_params + sizeof(float),
           sizeof(float));
}

static void learn(const struct bmoe_session *s, struct head *h, struct ggml_tensor *node)
{
    if (node->op == GGML_OP_MUL_MAT && node->ne[0] == (int64_t)s->n_vocab &&
        graph_is_weight(graph_root(node->src[0]))) {
        *h = (struct head){.last = node};
        memcpy(h->rows, graph_root(node->src[0])->name, GGML_MAX_NAME);
        learn_norm(h, node->src[1]);
    } else if (h->last && node->src[0] == h->last) {
        learn_tail(h, node);
    }
}

static void take_row(struct lens *l, uint32_t layer, const struct ggml_tensor *node)
{
    l->seen[layer] = node->type == GGML_TYPE_F32 && node->ne[0] == (int64_t)l->n_embd &&
                     node->ne[1] > 0 && ggml_is_contiguous(node);
    if (l->seen[layer])
        ggml_backend_tensor_get(node, l->rows + (size_t)layer * l->n_embd,
                                (size_t)(node->ne[1] - 1) * node->nb[1], l->n_embd * sizeof(float));
}

bool lens_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask)
{
    struct lens *l = s->lens;
    if (!l || l->n_choices == 0)
        return false;
    uint32_t layer = layer_of(l, node);
    if (ask)
        learn(s, &l->head, node);
    else if (layer < l->n_layers)
        take_row(l, layer, node);
    return ask && layer < l->n_layers;
}

/* ---- the scores ---- */

/* One row of a weight, from the file. */
static bool read_row(struct bmoe_session *s, const char *name, uint64_t row, uint32_t n, float *out)
{
    const struct gguf_tensor *t = gguf_index_find(s->index, name);
    if (!t || t->ne[0] != (int64_t)n || row >= (uint64_t)t->ne[1])
        return false;
    const struct ggml_type_traits *traits = ggml_get_type_traits((enum ggml_type)t->type);
    size_t bytes = ggml_row_size((enum ggml_type)t->type, n);
    void *buffer = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), pager_direct_buffer_bytes(bytes));
    const void *data = NULL;
    bool fine = buffer && (t->type == GGML_TYPE_F32 || traits->to_float) &&
                pager_direct_read(s->pager, s->files[t->shard], t->offset + row * bytes, bytes,
                                  buffer, &data, NULL) == BMOE_OK;
    if (fine && t->type == GGML_TYPE_F32)
        memcpy(out, data, bytes);
    else if (fine)
        traits->to_float(data, out, n);
    free(buffer);
    return fine;
}

/* The row as the head sees it, in place. */
static void normalise(const struct head *h, float *x, const float *norm, const float *bias,
                      uint32_t n)
{
    double mean = 0, square = 0;
    for (uint32_t i = 0; !h->rms && i < n; i++)
        mean += (double)x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    double scale = 1 / sqrt(square + (double)h->eps);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) * scale * (norm ? (double)norm[i] : 1) +
                       (bias ? (double)bias[i] : 0));
}

static float score(const struct head *h, const float *x, const float *row, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)row[i];
    for (unsigned i = 0; i < h->n_tail; i++)
        sum =
            h->tail[i].tanh ? tanh(sum) : sum * (double)h->tail[i].scale + (double)h->tail[i].shift;
    return (float)sum;
}

/* Scores of every layer into out, n_choices each. */
static bool compute(struct bmoe_session *s, const llama_token *firsts, float *work, float *out)
{
    struct lens *l = s->lens;
    const struct head *h = &l->head;
    float *norm = h->norm[0] ? work : NULL, *bias = h->bias[0] ? work + l->n_embd : NULL;
    float *row = work + 2 * (size_t)l->n_embd;
    if (!h->known || (norm && !read_row(s, h->norm, 0, l->n_embd, norm)) ||
        (bias && !read_row(s, h->bias, 0, l->n_embd, bias)))
        return false;
    for (uint32_t i = 0; i < l->n_layers; i++)
        normalise(h, l->rows + (size_t)i * l->n_embd, norm, bias, l->n_embd);
    for (uint32_t c = 0; c < l->n_choices; c++) {
        if (!read_row(s, h->rows, (uint64_t)firsts[c], l->n_embd, row))
            return false;
        for (uint32_t i = 0; i < l->n_layers; i++)
            out[(size_t)i * l->n_choices + c] =
                score(h, l->rows + (size_t)i * l->n_embd, row, l->n_embd);
    }
    return true;
}

/* The head's kernels round activations, this does not. */
static bool agrees(const struct lens *l, const float *last, const float *logits,
                   const llama_token *firsts)
{
    float most = 1;
    for (uint32_t c = 0; c < l->n_choices; c++)
        most = fabsf(logits[firsts[c]]) > most ? fabsf(logits[firsts[c]]) : most;
    for (uint32_t c = 0; c < l->n_choices; c++)
        if (!(fabsf(last[c] - logits[firsts[c]]) < most / 8))
            return false;
    return l->seen[l->n_layers - 1];
}

void lens_tell(struct bmoe_session *s, const llama_token *firsts)
{
    struct lens *l = s->lens;
    if (!l || l->n_choices == 0)
        return;
    float *work = malloc(3 * (size_t)l->n_embd * sizeof *work);
    float *out = malloc((size_t)l->n_layers * l->n_choices * sizeof *out);
    l->failed = !work || !out || !compute(s, firsts, work, out) ||
                !agrees(l, out + (size_t)(l->n_layers - 1) * l->n_choices,
                        llama_get_logits_ith(s->ctx, -1), firsts);
    if (l->failed)
        log_line(&s->log, BMOE_LOG_WARN,
                 "the choices' scores per layer are left out: the last layer's are not what the "
                 "model answered, or its head is built otherwise");
    for (uint32_t i = 0; i < l->n_layers && !l->failed; i++) {
        struct bmoe_lens told = {.size = sizeof told,
                                 .request = s->n_requests,
                                 .layer = i,
                                 .n_choices = l->n_choices,
                                 .logits = out + (size_t)i * l->n_choices};
        if (l->seen[i])
            s->o.on_lens(s->o.trace_user, &told);
    }
    free(work);
    free(out);
}

void lens_end(struct bmoe_session *s)
{
    if (s->lens)
        s->lens->n_choices = 0;
}
