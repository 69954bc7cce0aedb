/*
 * Whether a context fits into memory, told before it is made: libllama fills the memory of a
 * context as it makes it, tables of its own (in ordinary memory) first. One of a hundred million
 * tokens took minutes and all memory there was until its cache was refused.
 *
 * So for a large one libllama is asked for two small ones, and refused the memory of their caches:
 * what it asks for at two sizes tells what a token takes at least. A cache that holds a window only
 * stops growing long before these sizes.
 */
#include "engine/session.h"

#include "base/error.h"
#include "pager/rebind.h"

/* What libllama keeps of each token of a context beside keys and values, generously. */
#define CELL_BYTES 64
#define SMALL      65536u /* tokens; their tables are filled in some milliseconds */
/* A context's own descriptions, and a row of logits, are granted: ggml asserts them. */
#define GRANTED_BYTES (16u << 20)

/* The first large memory that libllama asks for with a context of n tokens; 0 when none was. */
static uint64_t first_asked(struct bmoe_session *s, struct llama_context_params p, uint32_t n)
{
    struct rebind_memory little = {.limit_bytes = GRANTED_BYTES};
    p.n_ctx = n;
    llama_log_enter(&s->llama_log);
    rebind_memory_begin("libggml-base", &little);
    struct llama_context *ctx = llama_init_from_model(s->model, p);
    rebind_end();
    llama_log_leave();
    if (ctx)
        llama_free(ctx);
    return ctx ? 0 : little.refused_bytes;
}

uint64_t context_least_bytes(struct bmoe_session *s, const struct llama_context_params *p)
{
    uint64_t tables = (uint64_t)p->n_ctx * CELL_BYTES;
    if (p->n_ctx <= 4 * SMALL)
        return tables;
    uint64_t one = first_asked(s, *p, SMALL), two = one ? first_asked(s, *p, 2 * SMALL) : 0;
    double per_token = two > one ? (double)(two - one) / SMALL : 0;
    return tables + (uint64_t)(per_token * p->n_ctx);
}

int context_refuse(const struct bmoe_session *s, uint64_t bytes, const struct host_memory *host,
                   struct bmoe_error *err)
{
    return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION,
                     "a context of %u tokens takes %.0f MiB or more, and %.0f MiB are free (%s); "
                     "give a smaller one (-c), or a smaller type to its KV cache (-ctk, -ctv)",
                     s->o.n_ctx, (double)bytes / (1 << 20),
                     (double)host->available_bytes / (1 << 20), host->bound_by);
}
