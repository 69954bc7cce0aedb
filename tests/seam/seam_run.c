/*
 * Opening, watching and running the tiny model for the seam tests.
 */
#include "seam.h"

#include "pager/rebind.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char seam_text[] = "And it came to pass in those days, that the king of the land sent "
                                "his servants to the hacker, who answered them and said unto them,";

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

/* A backend file says how well it suits this CPU: 0 is not at all. */
static int score_of(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int score = 0;

    if (handle) {
        int (*fn)(void) = NULL;
        *(void **)&fn = dlsym(handle, "ggml_backend_score");
        score = fn ? fn() : 0;
        dlclose(handle);
    }
    return score;
}

void seam_load_cpu(void)
{
    char best[4096] = "";
    int best_score = 0;
    DIR *dir;

    llama_log_set(quiet, NULL);
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        return;
    }
    dir = opendir(BMOE_BACKENDS_DIR);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[4096];
        int score;
        if (strncmp(e->d_name, "libggml-cpu", 11) != 0) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", BMOE_BACKENDS_DIR, e->d_name);
        score = score_of(path);
        if (score > best_score) {
            best_score = score;
            memcpy(best, path, sizeof best);
        }
    }
    closedir(dir);
    assert_true(best_score > 0);
    assert_non_null(ggml_backend_load(best));
    assert_non_null(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

static uint64_t this_thread(void)
{
    return (uint64_t)pthread_self();
}

static bool on_eval(struct ggml_tensor *node, bool ask, void *user)
{
    struct seam_run *run = user;

    run->other_thread |= run->thread != this_thread();
    if (ask) {
        run->n_asked++;
    } else {
        run->n_shown++;
    }
    return run->setup.node ? run->setup.node(run, node, ask) : false;
}

static bool on_abort(void *user)
{
    struct seam_run *run = user;

    if (run->abort_after < 0) {
        return false;
    }
    if (run->abort_after == 0) {
        return true;
    }
    run->abort_after--;
    return false;
}

static void *answer_map(void *user, dev_t dev, ino_t ino, size_t bytes)
{
    struct seam_run *run = user;

    (void)dev;
    (void)ino;
    run->n_maps++;
    if (!run->setup.untouchable) {
        return NULL;
    }
    run->map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(run->map != MAP_FAILED);
    run->map_bytes = bytes;
    return run->map;
}

static void read_file(struct seam_run *run)
{
    FILE *file = fopen(seam_model_path, "rb");

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    run->file_bytes = (size_t)ftell(file);
    rewind(file);
    run->file = malloc(run->file_bytes);
    assert_non_null(run->file);
    assert_int_equal(fread(run->file, 1, run->file_bytes, file), run->file_bytes);
    fclose(file);
}

static void load_model(struct seam_run *run)
{
    struct llama_model_params params = llama_model_default_params();
    struct bmoe_error err;

    params.use_extra_bufts = run->setup.extra_bufts;
    params.load_mode = LLAMA_LOAD_MODE_MMAP;
    params.n_gpu_layers = 0;
    run->slots = rebind_begin("libllama.so", answer_map, run, &err);
    run->model = llama_model_load_from_file(seam_model_path, params);
    rebind_end();
    assert_non_null(run->model);
}

void seam_open(struct seam_run *run, const struct seam_setup *setup)
{
    struct llama_context_params params = llama_context_default_params();

    memset(run, 0, sizeof *run);
    run->setup = *setup;
    run->abort_after = -1;
    run->thread = this_thread();
    seam_load_cpu();
    read_file(run);
    load_model(run);
    params.n_ctx = 256;
    params.n_batch = 256;
    params.n_ubatch = setup->n_ubatch ? setup->n_ubatch : 256;
    params.n_threads = params.n_threads_batch = 2;
    params.op_offload = false;
    params.cb_eval = on_eval;
    params.cb_eval_user_data = run;
    params.abort_callback = on_abort;
    params.abort_callback_data = run;
    run->ctx = llama_init_from_model(run->model, params);
    assert_non_null(run->ctx);
    const struct llama_vocab *vocab = llama_model_get_vocab(run->model);
    assert_int_equal(llama_vocab_n_tokens(vocab), SEAM_VOCAB);
    run->n_prompt = llama_tokenize(vocab, seam_text, (int32_t)strlen(seam_text), run->prompt,
                                   SEAM_PROMPT_MAX, false, false);
    assert_in_range(run->n_prompt, 17, SEAM_PROMPT_MAX);
}

void seam_close(struct seam_run *run)
{
    llama_free(run->ctx);
    llama_model_free(run->model);
    free(run->file);
    free(run->weights);
}

int seam_prefill(struct seam_run *run)
{
    return llama_decode(run->ctx, llama_batch_get_one(run->prompt, run->n_prompt));
}

int seam_decode(struct seam_run *run, llama_token token)
{
    return llama_decode(run->ctx, llama_batch_get_one(&token, 1));
}

void seam_forget(struct seam_run *run)
{
    llama_memory_clear(llama_get_memory(run->ctx), true);
}

void seam_logits(struct seam_run *run, float out[SEAM_VOCAB])
{
    const float *logits = llama_get_logits_ith(run->ctx, -1);

    assert_non_null(logits);
    memcpy(out, logits, SEAM_VOCAB * sizeof *out);
}

void seam_answer(struct seam_run *run, float out[SEAM_STEPS * SEAM_VOCAB])
{
    seam_forget(run);
    assert_int_equal(seam_prefill(run), 0);
    seam_logits(run, out);
    for (int i = 1; i < SEAM_STEPS; i++) {
        assert_int_equal(seam_decode(run, run->prompt[i]), 0);
        seam_logits(run, out + (size_t)i * SEAM_VOCAB);
    }
}

void seam_stock_answer(bool extra_bufts, float out[SEAM_STEPS * SEAM_VOCAB])
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.extra_bufts = extra_bufts});
    seam_answer(&run, out);
    seam_close(&run);
}

ggml_backend_buffer_type_t seam_repack_type(void)
{
    seam_load_cpu();
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_dev_get_extra_bufts_t get = NULL;
    *(void **)&get = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                       "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t *t = get ? get(cpu) : NULL; t && *t; t++) {
        if (strcmp(ggml_backend_buft_name(*t), "CPU_REPACK") == 0) {
            return *t;
        }
    }
    return NULL;
}
