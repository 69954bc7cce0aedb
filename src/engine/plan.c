/*
 * Memory is a promise: what a session may use is added up, said and, where it does not fit, refused
 * before a single weight is read. By then the context exists (its memory is cleared, so resident;
 * its scratch space is only reserved), so the sizes are libllama's own, not estimates.
 */
#include "engine/session.h"

#include "base/error.h"
#include "base/host.h"

#include <stdio.h>

#define MIB(bytes) ((double)(bytes) / (1 << 20))

/* From here on a page is dear to place; see pager_page_us. */
#define DEAR_PAGE_US 1.5

/* Memory that code, stacks and small tables take as the run goes on. */
#define SLACK_BYTES ((uint64_t)8 << 20)

static uint64_t pinned_total(const struct bmoe_session *s, bool paged)
{
    uint64_t all = s->sums.pinned_bytes;
    return paged ? all : all + s->sums.paged_bytes;
}

/* What will be touched beside weights, and is not yet. */
static uint64_t scratch(const struct bmoe_session *s)
{
    return s->plan.compute + s->plan.outputs + s->plan.states + s->plan.device + SLACK_BYTES;
}

static bool fits(const struct bmoe_session *s, uint64_t weights, uint64_t free_bytes)
{
    return weights + scratch(s) + free_bytes <= s->plan.available;
}

static int refuse_resident(struct bmoe_session *s, uint64_t weights, struct bmoe_error *err)
{
    return error_set(
        err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
        "%s does not fit without streaming: its weights take %.0f MiB and the context %.0f "
        "MiB, and %.0f MiB are free (%s); leave --no-moe-stream out",
        s->o.model, MIB(weights), MIB(scratch(s)), MIB(s->plan.available), s->plan.bound_by);
}

static int decide_streamed(struct bmoe_session *s, struct bmoe_error *err)
{
    uint64_t weights = s->sums.pinned_bytes + s->sums.paged_bytes;
    if (s->o.stream == BMOE_OFF) {
        s->streamed = false;
        return fits(s, weights, 0) ? BMOE_OK : refuse_resident(s, weights, err);
    }
    s->streamed = s->o.stream == BMOE_ON || !fits(s, weights, s->o.cache_floor_bytes);
    if (s->sums.paged_bytes == 0)
        s->streamed = false;
    return BMOE_OK;
}

/* Without userfaultfd all experts that one matmul of one ubatch may route to must be there at once.
 */
static uint64_t set_bytes(const struct bmoe_session *s)
{
    uint64_t used = gguf_index_u64(s->index, "%s.expert_used_count", 0);
    if (s->o.n_expert_used)
        used = s->o.n_expert_used;
    uint64_t experts = s->sums.largest_set_experts;
    uint64_t routed = used ? used * s->o.n_ubatch : experts;
    if (!experts)
        return 0;
    return s->sums.largest_set / experts * (routed < experts ? routed : experts);
}

static uint64_t automatic_budget(const struct bmoe_session *s)
{
    uint64_t taken = s->sums.pinned_bytes + scratch(s) + s->o.cache_floor_bytes;
    uint64_t left = s->plan.available > taken ? s->plan.available - taken : 0;
    if (s->o.cache_ceil_bytes && left > s->o.cache_ceil_bytes)
        left = s->o.cache_ceil_bytes;
    return left;
}

static int decide_budget(struct bmoe_session *s, struct bmoe_error *err)
{
    struct plan *p = &s->plan;
    p->floor = pager_floor_bytes(s->pager, pager_place(s->pager), set_bytes(s));
    uint64_t useful = pager_ample_bytes(s->pager);
    useful = useful > p->floor ? useful : p->floor;
    bool automatic = s->o.cache_bytes == BMOE_CACHE_AUTO;
    p->budget = automatic ? automatic_budget(s) : s->o.cache_bytes;
    if (p->budget > useful)
        p->budget = useful;
    if (automatic && p->budget < p->floor && fits(s, s->sums.pinned_bytes + p->floor, 0))
        p->budget = p->floor;
    if (p->budget < p->floor)
        return error_set(
            err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
            "the expert budget of %.1f MiB is below the floor of %.1f MiB for this model, "
            "%u threads and %u readers; give --cache-mb at least %.0f",
            MIB(p->budget), MIB(p->floor), s->o.n_threads, s->o.n_readers, MIB(p->floor) + 0.5);
    return pager_budget_set(s->pager, p->budget, err);
}

static void say(const struct bmoe_session *s)
{
    const struct plan *p = &s->plan;
    log_line(&s->log, BMOE_LOG_INFO,
             "plan: %s %.1f MiB of %.1f, dense %.1f, KV %.1f, its copies %.1f, compute %.1f, "
             "logits %.1f, prefill device %.1f, program %.1f: "
             "at most %.1f MiB; %.0f MiB free (%s)",
             s->streamed ? "expert budget" : "experts",
             MIB(s->streamed ? p->budget : s->sums.expert_bytes),
             MIB(s->streamed ? s->sums.paged_bytes : s->sums.expert_bytes), MIB(p->dense),
             MIB(p->kv), MIB(p->states), MIB(p->compute), MIB(p->outputs), MIB(p->device),
             MIB(p->program), MIB(p->total), MIB(p->available), p->bound_by);
}

static int measure(struct bmoe_session *s, struct bmoe_error *err)
{
    struct plan *p = &s->plan;
    struct host_memory host;
    int rc = host_memory_read("", &host);
    if (rc < 0)
        return error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, -rc,
                               "how much memory is free cannot be read from /proc/meminfo");
    int64_t rss = host_rss_bytes();
    p->program = rss > 0 ? (uint64_t)rss : 0;
    p->kv = s->buffers.kv;
    p->compute = s->buffers.compute;
    /* A state is at most what the memory holds. */
    p->states = (s->keep_prefix ? p->kv : 0) + (state_cuttable(s) ? 0 : p->kv);
    p->outputs = (uint64_t)s->n_outputs * s->n_vocab * sizeof(float);
    p->available = host.available_bytes;
    p->device = prefill_plan_bytes(s);
    snprintf(p->bound_by, sizeof p->bound_by, "%s", host.bound_by);
    return BMOE_OK;
}

/* Placing a page may cost more than reading it; then experts are read into memory that stays
 * mapped, where the budget holds what that needs: the set of a matmul and the readers' buffers. A
 * second set to read ahead into would be better, but even without it frames decode four times as
 * fast as copying. */
static void decide_place(struct bmoe_session *s)
{
    uint64_t buffers = 2 * s->o.n_readers * (s->sums.largest_slice + ((uint64_t)1 << 20));
    bool automatic = s->o.cache_bytes == BMOE_CACHE_AUTO;
    uint64_t budget = automatic ? automatic_budget(s) : s->o.cache_bytes;
    if (!s->streamed || s->o.place != BMOE_PLACE_AUTO || pager_page_us(s->pager) < DEAR_PAGE_US)
        return;
    if (s->sums.largest_set_experts && budget >= set_bytes(s) + buffers)
        pager_place_frames(s->pager);
}

int plan_decide(struct bmoe_session *s, struct bmoe_error *err)
{
    int rc = measure(s, err);
    if (rc == BMOE_OK)
        rc = decide_streamed(s, err);
    if (rc == BMOE_OK)
        decide_place(s);
    return rc;
}

int plan_settle(struct bmoe_session *s, struct bmoe_error *err)
{
    struct plan *p = &s->plan;
    int rc = s->streamed ? decide_budget(s, err) : BMOE_OK;
    if (rc < 0)
        return rc;
    p->dense = pinned_total(s, s->streamed);
    if (!s->streamed)
        p->dense -= s->sums.expert_bytes < p->dense ? s->sums.expert_bytes : p->dense;
    uint64_t weights = s->streamed ? p->dense + p->budget : pinned_total(s, false);
    /* Mapped pages show in the process too, though the kernel may take them back. */
    p->dense += s->sums.mapped_bytes;
    p->total = p->program + scratch(s) + weights + s->sums.mapped_bytes;
    if (!fits(s, weights, 0))
        log_line(
            &s->log, BMOE_LOG_WARN,
            "the plan of %.0f MiB is more than what is free, %.0f MiB; the machine may swap or end "
            "the process",
            MIB(p->total), MIB(p->available));
    say(s);
    return BMOE_OK;
}

static const char *place_name(enum bmoe_place place)
{
    static const char *const names[] = {"auto", "move", "copy", "frames"};
    return names[place];
}

static const char *fa_name(enum bmoe_tristate fa)
{
    static const char *const names[] = {"auto", "on", "off"};
    return names[fa];
}

static const char *repack_name(const struct bmoe_session *s)
{
    return s->o.cpu_repack == BMOE_OFF ? "off" : s->sums.n_repacked ? "on" : "none";
}

void plan_describe(struct bmoe_session *s)
{
    char how[256];
    const struct bmoe_options *o = &s->o;
    if (s->streamed)
        snprintf(how, sizeof how, "streamed (%s, %u readers, %s), expert budget %.1f of %.1f MiB%s",
                 place_name(pager_place(s->pager)), o->n_readers,
                 pager_file_direct(s->pager, s->files[0]) ? "O_DIRECT" : "buffered",
                 MIB(s->plan.budget), MIB(s->sums.paged_bytes), o->load_all ? ", load-all" : "");
    else
        snprintf(how, sizeof how, "resident");
    snprintf(
        s->mode, sizeof s->mode,
        "%s%s; run key: %s, repack %s, threads %u/%u, ubatch %u, ctx %u, fa %s, kv %s/%s, experts "
        "used %u%s",
        how,
        o->dense == BMOE_DENSE_ANON
            ? ""
            : ", dense weights mapped from the file, which fills the page cache",
        s->cpu_variant, repack_name(s), o->n_threads, o->n_threads_batch, o->n_ubatch, s->n_ctx,
        fa_name(o->flash_attn), o->cache_type_k, o->cache_type_v,
        o->n_expert_used ? o->n_expert_used
                         : (uint32_t)gguf_index_u64(s->index, "%s.expert_used_count", 0),
        o->dense == BMOE_DENSE_ANON ? "" : ", dense plain");
}
