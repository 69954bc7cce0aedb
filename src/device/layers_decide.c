/*
 * In which memory and type the device holds a weight: what it says it multiplies from, what it then
 * multiplies right, and for a dense matrix the nearest type that it does.
 */
#include "device/layers_internal.h"

#include "base/error.h"
#include "device/convert.h"
#include "device/device_check.h"
#include "device/device_probe.h"

#include <string.h>

/* Experts of a token, when a device is asked about them. */
enum { PROBE_USED = 4 };

static int refuse(struct making *m, const struct layer_source *s)
{
    return error_set(m->err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST, "%s %s experts of type %s (%s)",
                     ggml_backend_dev_name(m->config->device),
                     m->l->wrong_type == s->tensor->type ? "multiplies wrong" : "does not multiply",
                     ggml_type_name(s->tensor->type), s->tensor->name);
}

/* Whether the device multiplies right from such a matrix, asked once of each kind. */
static bool multiplies_right(struct making *m, ggml_backend_buffer_type_t buft, enum ggml_type type,
                             const int64_t *ne, bool experts)
{
    struct verdict *v = m->verdicts;
    if (!m->config->backend)
        return true;
    for (unsigned i = 0; i < m->n_verdicts; i++, v++)
        if (v->buft == buft && v->type == type && v->experts == experts &&
            memcmp(v->ne, ne, sizeof v->ne) == 0)
            return v->right;
    if (m->n_verdicts == sizeof m->verdicts / sizeof m->verdicts[0])
        return true;
    *v = (struct verdict){.buft = buft, .type = type, .experts = experts};
    memcpy(v->ne, ne, sizeof v->ne);
    v->right = device_check_matrix(m->config->backend, buft, type, ne, experts);
    m->n_verdicts++;
    if (!v->right)
        m->l->wrong_type = type;
    return v->right;
}

/* The buffer type to multiply a matrix from, in a type that may be another than the file's. */
static ggml_backend_buffer_type_t matrix_type(struct making *m, enum ggml_type type,
                                              const int64_t *ne, bool experts)
{
    ggml_backend_buffer_type_t buft = device_probe_matrix(
        m->config->device, type, ne, experts ? PROBE_USED : 0, m->config->n_tokens);
    return buft && multiplies_right(m, buft, type, ne, experts) ? buft : NULL;
}

/* A dense matrix in the file's type, or carried in another, or left on the host. */
static void decide_dense(struct making *m, struct layer_entry *e, struct decision *d)
{
    const struct ggml_tensor *t = e->src.tensor;
    d->type = t->type;
    d->buft = matrix_type(m, t->type, t->ne, false);
    if (d->buft)
        return;
    const enum ggml_type *to = device_probe_carried(t->type);
    while (*to != GGML_TYPE_COUNT && (*to == t->type || t->ne[0] % ggml_blck_size(*to) != 0 ||
                                      !(d->buft = matrix_type(m, *to, t->ne, false))))
        to++;
    if (!d->buft)
        return;
    uint64_t bytes = ggml_row_size(*to, t->ne[0]) * (uint64_t)ggml_nrows(t);
    if (m->l->host_bytes + bytes <= m->config->convert_limit)
        e->carried = convert_weight(&e->src, m->config->pager, *to);
    if (!e->carried) {
        d->buft = NULL;
        return;
    }
    d->type = *to;
    m->l->host_bytes += bytes;
    m->l->n_carried++;
}

int layers_decide(struct making *m, struct layer_entry *e, struct decision *d)
{
    struct ggml_tensor *t = e->src.tensor;
    d->type = t->type;
    if (e->src.site != GRAPH_NONE) {
        d->buft = matrix_type(m, t->type, t->ne, true);
        return d->buft ? BMOE_OK : refuse(m, &e->src);
    }
    if (e->src.refused)
        d->buft = NULL;
    else if (read_otherwise(&e->src))
        d->buft = m->bufts[KIND_PLAIN];
    else
        decide_dense(m, e, d);
    m->l->n_kept += d->buft == NULL;
    return BMOE_OK;
}
