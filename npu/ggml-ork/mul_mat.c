/* Sums are exact whole numbers, so a row's result depends on that row alone, never on its company
 * nor on who multiplied.
 *
 * All matrices that have rows (the experts of a layer) go to the NPU together: what a submit costs
 * is paid once. Few rows of a dense weight are multiplied by the workers, from the same memory. */
#include "mul_mat.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "placement.h"
#include "room.h"

/* Output cells of one submit, of which two are on their way, and rows of one part, so that their
 * device memory stays at some hundred MiB. */
#define CELLS_AT_ONCE   (UINT64_C(16) << 20)
#define MOST_PART_ROWS  2048u
#define COLUMNS_AT_ONCE 256u /* of a worker's turn */

void mul_mat_memory_fini(struct mul_mat_memory *m)
{
    rows_in_cache_fini(&m->rows);
    free(m->batch);
    free(m->rooms);
    memset(m, 0, sizeof(*m));
}

uint32_t mul_mat_part_rows(const struct packed_weight *w)
{
    const uint64_t fit = CELLS_AT_ONCE / w->n; /* N is at most 2^22, so 8 or more */

    return fit < MOST_PART_ROWS ? (uint32_t)fit / 4 * 4 : MOST_PART_ROWS;
}

/* ---- by the NPU -------------------------------------------------------------------------- */

struct on_npu {
    struct ork_device *npu;
    const struct ork_matmul *calls;
    size_t n, first; /* those before first are submitted */
    uint32_t n_out;
    struct ork_fence *fence; /* of the last submit, or NULL */
};

static int wait_for(struct ork_fence **fence, struct ork_error *error)
{
    struct ork_fence *f = *fence;

    *fence = NULL;
    return f ? ork_fence_wait(f, -1, error) : 0;
}

/* As many as their outputs allow. */
static size_t some_calls(const struct on_npu *r)
{
    uint64_t cells = (uint64_t)r->calls[r->first].m * r->n_out;
    size_t n = 1;

    while (r->first + n < r->n) {
        cells += (uint64_t)r->calls[r->first + n].m * r->n_out;
        if (cells > CELLS_AT_ONCE)
            break;
        n++;
    }
    return n;
}

/* -EAGAIN: more jobs than the transport holds at once; then fewer, once nothing else is out. */
static int submit_some(struct on_npu *r, struct ork_fence **out, struct ork_error *error)
{
    size_t n = some_calls(r);
    int rc = ork_matmul_submit(r->npu, r->calls + r->first, n, out, error);

    while (rc == -EAGAIN) {
        rc = wait_for(&r->fence, error);
        if (rc < 0)
            return rc;
        rc = ork_matmul_submit(r->npu, r->calls + r->first, n, out, error);
        if (rc == -EAGAIN && n == 1)
            return rc;
        n = rc == -EAGAIN ? n / 2 : n;
    }
    r->first += rc < 0 ? 0 : n;
    return rc;
}

/* In as few submits as their outputs allow; what one gave is read back while the next computes. */
static int run_on_npu(struct ork_device *npu, const struct ork_matmul *calls, size_t n,
                      uint32_t n_out, struct ork_error *error)
{
    struct on_npu r = {.npu = npu, .calls = calls, .n = n, .n_out = n_out};
    int rc = 0;

    while (rc >= 0 && r.first < r.n) {
        struct ork_fence *next = NULL;

        rc = submit_some(&r, &next, error);
        if (rc >= 0) {
            rc = wait_for(&r.fence, error);
            r.fence = next;
        }
    }
    if (rc < 0)
        wait_for(&r.fence, NULL);
    else
        rc = wait_for(&r.fence, error);
    return rc;
}

/* ---- by the workers ---------------------------------------------------------------------- */

struct host_run {
    const struct ork_matmul *calls;
    uint32_t n_out;
    size_t turns_of_call;
    int8_t *rooms;
    size_t room_bytes;
    atomic_int rc;
};

static void host_turn(void *user, size_t turn, uint32_t worker)
{
    struct host_run *h = user;
    const uint32_t n0 = (uint32_t)(turn % h->turns_of_call) * COLUMNS_AT_ONCE;
    const uint32_t left = h->n_out - n0;
    const int rc = ork_matmul_host(&h->calls[turn / h->turns_of_call], n0,
                                   left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE,
                                   h->rooms + worker * h->room_bytes);

    if (rc < 0)
        atomic_store(&h->rc, rc);
}

static int run_on_host(struct mul_mat_memory *m, const struct packed_weight *w,
                       const struct ork_matmul *calls, size_t n)
{
    struct host_run h = {
        .calls = calls, .n_out = w->n, .room_bytes = ((size_t)w->k + 127) & ~(size_t)63};

    h.turns_of_call = (w->n + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE;
    if (!ROOM(m, rooms, n_rooms, h.room_bytes * workers_count(w->workers)))
        return -ENOMEM;
    h.rooms = m->rooms;
    workers_run(w->workers, n * h.turns_of_call, host_turn, &h);
    return atomic_load(&h.rc);
}

/* ---- one node ---------------------------------------------------------------------------- */

static struct placement decide(const struct plugin *p, const struct packed_weight *w,
                               const struct ggml_tensor *node, const struct rows_in *in,
                               uint32_t *active)
{
    struct placement_ask ask = {.resident = true,
                                .routed = node->op == GGML_OP_MUL_MAT_ID,
                                .rows = in->n_rows,
                                .n = w->n,
                                .k = w->k};
    uint64_t bytes;

    for (size_t i = 0; i < in->n_parts; i++)
        ask.active += !i || in->parts[i].matrix != in->parts[i - 1].matrix;
    ork_weight_image(w->matrices[0], &bytes);
    ask.weight_bytes = ask.active * bytes;
    ask.source_bytes = ask.active * w->n * (uint64_t)w->row_bytes;
    *active = ask.active;
    return placement_decide(&p->rules, &ask);
}

static void trace(const struct packed_weight *w, const struct ggml_tensor *node,
                  const struct rows_in *in, uint32_t active, const struct placement *p)
{
    plugin_log(GGML_LOG_LEVEL_WARN,
               "trace: %s %s, %zu rows x %u x %u, %u of %u matrices: %s, %s (model: NPU %.0f us, "
               "host %.0f us).",
               ggml_op_name(node->op), node->src[0]->name, in->n_rows, w->n, w->k, active,
               w->n_matrices, p->on_npu ? "NPU" : "host", p->why, p->npu_us, p->host_us);
}

static void list_calls(struct ork_matmul *calls, const struct packed_weight *w,
                       const struct rows_in *in, float *out)
{
    for (size_t i = 0; i < in->n_parts; i++)
        calls[i] = (struct ork_matmul){.size = sizeof(struct ork_matmul),
                                       .weight = w->matrices[in->parts[i].matrix],
                                       .input = in->input,
                                       .part = i,
                                       .m = in->parts[i].rows,
                                       .c = out,
                                       .c_rows = in->places + in->parts[i].first,
                                       .b_scale = packed_weight_scales(w, in->parts[i].matrix),
                                       .scales_per_slice = w->format.group > 0};
}

int mul_mat_run(struct plugin *p, struct mul_mat_memory *m, const struct packed_weight *w,
                const struct ggml_tensor *node, struct ork_error *error)
{
    const struct rows_source source = {.x = node->src[1]};
    const struct rows_shape shape = {.weight = w,
                                     .ids = node->op == GGML_OP_MUL_MAT_ID ? node->src[2] : NULL,
                                     .part_rows = mul_mat_part_rows(w)};
    const struct rows_in *in;
    struct placement placement;
    uint32_t active;
    int rc = rows_in_get(&m->rows, p->npu, node->src[1], &source, &shape, &in, error);

    if (rc < 0)
        return rc;
    if (!ROOM(m, batch, n_batch, in->n_parts))
        return -ENOMEM;
    list_calls(m->batch, w, in, node->data);
    placement = decide(p, w, node, in, &active);
    if (p->options.trace)
        trace(w, node, in, active, &placement);
    atomic_fetch_add(placement.on_npu ? &p->counters.npu_products : &p->counters.host_products, 1);
    if (!placement.on_npu)
        return run_on_host(m, w, m->batch, in->n_parts);
    return run_on_npu(p->npu, m->batch, in->n_parts, w->n, error);
}
