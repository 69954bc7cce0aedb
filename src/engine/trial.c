/* What a session does before it reads a weight, done in a child. */
#include "engine/trial.h"

#include "base/error.h"
#include "engine/guarded_child.h"
#include "engine/session.h"
#include "pager/rebind.h"

#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CPU_SECONDS 20 /* of a child that loops; a good one needs some hundredths */

struct trial {
    const struct gguf_index *index; /* borrowed */
    const char *backends_dir;       /* borrowed */
    uint32_t n_expert_used;         /* 0: as the file says */
    struct guarded_child *child;
};

/* ---- in the child ---- */

static void *answer_nothing(void *ctx, dev_t dev, ino_t ino, size_t bytes)
{
    (void)ctx;
    (void)dev;
    (void)ino;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool abort_at_once(void *user)
{
    (void)user;
    return true;
}

static struct llama_model *load(const struct trial *t, const char *stripped)
{
    const struct gguf_index *index = t->index;
    struct llama_model_kv_override kv[2] = {0};
    struct llama_model_params p = llama_model_default_params();
    ggml_backend_dev_t none[1] = {NULL};
    uint32_t n = gguf_index_n_shards(index);
    const char **paths = calloc(n, sizeof *paths);
    if (!paths)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        paths[i] = i == 0 ? stripped : gguf_index_shard(index, i)->path;
    p.devices = none;
    p.n_gpu_layers = 0;
    p.load_mode = LLAMA_LOAD_MODE_MMAP;
    p.use_extra_bufts = false;
    if (t->n_expert_used) {
        session_override_experts(index, t->n_expert_used, kv);
        p.kv_overrides = kv;
    }
    struct llama_model *model = llama_model_load_from_splits(paths, n, p);
    free(paths);
    return model;
}

/* Everything a session does before it reads a weight. */
static void try_model(const struct trial *t, const char *stripped, int tell)
{
    if (rebind_begin("libllama", answer_nothing, NULL, NULL) < 1)
        return;
    struct llama_model *model = load(t, stripped);
    rebind_end();
    if (!model)
        return;
    guarded_child_tell(tell);
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = 64;
    p.n_batch = p.n_ubatch = 32;
    p.n_threads = p.n_threads_batch = 1;
    p.abort_callback = abort_at_once;
    struct llama_context *ctx = llama_init_from_model(model, p);
    llama_token token = 0;
    if (ctx)
        llama_decode(ctx, llama_batch_get_one(&token, 1));
    guarded_child_tell(tell);
}

static void try_file(const void *ctx, int tell)
{
    const struct trial *t = ctx;
    char path[64], variant[64] = "";
    int stripped = memfd_create("bmoe-trial", MFD_CLOEXEC);
    if (stripped < 0 || gguf_index_write_stripped(t->index, stripped, NULL) < 0)
        return;
    if (t->backends_dir && !ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) &&
        backend_load_cpu(t->backends_dir, variant, sizeof variant, NULL) < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", stripped);
    try_model(t, path, tell);
}

/* ---- in the parent ---- */

/* What the child said about why: the assertion, else nothing. */
static void last_words(const struct guarded_child *c, char *out, size_t bytes)
{
    char text[4096];
    guarded_child_words(c, text, sizeof text);
    char *why = strstr(text, "GGML_ASSERT(");
    out[0] = '\0';
    if (!why)
        return;
    why[strcspn(why, "\n")] = '\0';
    snprintf(out, bytes, " (%s)", why);
}

int trial_wait(struct trial *t, enum trial_stage stage, struct bmoe_error *err)
{
    char why[200];
    if (!t || guarded_child_wait(t->child, (unsigned)stage) != GUARDED_CHILD_DIED)
        return 0;
    last_words(t->child, why, sizeof why);
    uint64_t own = gguf_index_u64(t->index, "%s.expert_used_count", 0);
    if (t->n_expert_used > own && stage > TRIAL_LOADED)
        return error_set(
            err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION,
            "%u experts used: libllama's graphs have no room for so many of %s; its own "
            "number is %llu%s",
            t->n_expert_used, gguf_index_shard(t->index, 0)->path, (unsigned long long)own, why);
    return error_set(err, BMOE_E_MODEL, BMOE_SCOPE_SESSION,
                     "%s: libllama cannot take this file: its numbers or its tensors do not belong "
                     "together%s",
                     gguf_index_shard(t->index, 0)->path, why);
}

void trial_end(struct trial *t)
{
    if (!t)
        return;
    guarded_child_end(t->child);
    free(t);
}

struct trial *trial_begin(const struct gguf_index *index, uint32_t n_expert_used,
                          const char *backends_dir)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct trial){
        .index = index, .backends_dir = backends_dir, .n_expert_used = n_expert_used};
    t->child = guarded_child_begin(try_file, t, CPU_SECONDS);
    if (t->child)
        return t;
    free(t);
    return NULL;
}

int trial_load(const struct gguf_index *index, struct bmoe_error *err)
{
    struct trial *t = trial_begin(index, 0, NULL);
    int rc = trial_wait(t, TRIAL_ENDED, err);
    trial_end(t);
    return rc;
}
