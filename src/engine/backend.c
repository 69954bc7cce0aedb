/*
 * ggml's CPU backend comes in variants for kinds of processors, one shared object each, in a
 * folder. The best one is chosen as ggml chooses it, by the score each exports, but alone: ggml's
 * own "load all" would also load accelerators that libllama then adds to every context, which
 * changes bits.
 */
#include "engine/session.h"

#include "base/error.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef int score_fn(void);

/* Why a folder gave none, as far as it is known. */
struct reason {
    char text[300];
};

static void reason_set(struct reason *why, const char *text)
{
    snprintf(why->text, sizeof why->text, " (%s)", text ? text : "no reason is given");
}

static int score_of(const char *path, struct reason *why)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        reason_set(why, dlerror());
        return 0;
    }
    void *symbol = dlsym(handle, "ggml_backend_score");
    score_fn *score = NULL;
    memcpy(&score, &symbol, sizeof score);
    int value = score ? score() : 1; /* a backend without variants exports no score */
    dlclose(handle);
    return value;
}

static int best_in(const char *dir, char *path, size_t path_bytes, struct reason *why)
{
    DIR *d = opendir(dir);
    int best = 0;
    if (!d) {
        reason_set(why, strerror(errno));
        return 0;
    }
    for (struct dirent *e; (e = readdir(d));) {
        char one[4096];
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, "libggml-cpu", 11) != 0 || len < 3 ||
            strcmp(e->d_name + len - 3, ".so") != 0 ||
            snprintf(one, sizeof one, "%s/%s", dir, e->d_name) >= (int)path_bytes)
            continue;
        int score = score_of(one, why);
        if (score > best) {
            best = score;
            memcpy(path, one, strlen(one) + 1);
        }
    }
    closedir(d);
    return best;
}

static void variant_name(const char *path, char *variant, size_t bytes)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    if (strncmp(base, "libggml-", 8) == 0)
        base += 8;
    snprintf(variant, bytes, "%.*s", (int)strcspn(base, "."), base);
}

int backend_load_cpu(const char *dir, char *variant, size_t variant_bytes, struct bmoe_error *err)
{
    char path[4096];
    struct reason why = {""};
    ggml_backend_dev_t present = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (present && variant[0] == '\0')
        snprintf(variant, variant_bytes, "cpu");
    if (!best_in(dir, path, sizeof path, &why)) {
        if (present)
            return BMOE_OK;
        return error_set(err, BMOE_E_SEAM, BMOE_SCOPE_PROCESS,
                         "no CPU backend of ggml for this processor in %s%s; name its folder with "
                         "backends_dir",
                         dir, why.text);
    }
    variant_name(path, variant, variant_bytes);
    if (present)
        return BMOE_OK;
    if (!ggml_backend_load(path))
        return error_set(err, BMOE_E_SEAM, BMOE_SCOPE_PROCESS, "ggml does not load its backend %s",
                         path);
    return BMOE_OK;
}
