/*
 * ggml knows a device once its backend is loaded, and libllama adds a loaded backend's devices to a
 * context only when they are given to it by name; so what was loaded for a look is unloaded again,
 * and the one that was chosen stays for good: its tensors and threads may outlive a session.
 */
#include "device/device_open.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The Hexagon backend reads it when it is loaded: whether it offers memory that both sides address.
 * Without, all that passes between them is copied. */
#define HOST_BUFFERS "GGML_HEXAGON_HOSTBUF"

static void drop_line(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static bool usable(ggml_backend_dev_t dev)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    const char *name = reg ? ggml_backend_reg_name(reg) : "";
    return ggml_backend_dev_type(dev) != GGML_BACKEND_DEVICE_TYPE_CPU &&
           ggml_backend_dev_type(dev) != GGML_BACKEND_DEVICE_TYPE_META &&
           strcmp(name, "RPC") != 0 && strcmp(name, "BLAS") != 0;
}

static void list_names(char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ggml_backend_dev_count() && n < bytes; i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (usable(dev))
            n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "",
                                  ggml_backend_dev_name(dev));
    }
    if (n == 0)
        snprintf(out, bytes, "none");
}

/* Preference of `auto`: a device with memory of its own, then one that shares the host's. */
static int rank(ggml_backend_dev_t dev)
{
    switch (ggml_backend_dev_type(dev)) {
    case GGML_BACKEND_DEVICE_TYPE_GPU:
        return 3;
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
        return 2;
    default:
        return 1;
    }
}

static bool try_open(struct device_opened *out, ggml_backend_dev_t dev)
{
    out->device = dev;
    out->backend = ggml_backend_dev_init(dev, NULL);
    return out->backend != NULL;
}

static int open_named(struct device_opened *out, const char *name, struct bmoe_error *err)
{
    char names[256];
    list_names(names, sizeof names);
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (!usable(dev) || strcasecmp(ggml_backend_dev_name(dev), name) != 0)
            continue;
        if (try_open(out, dev))
            return BMOE_OK;
        return error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                         "device %s does not open (devices: %s)", name, names);
    }
    return error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                     "there is no device '%s' (devices: %s)", name, names);
}

static int open_best(struct device_opened *out, device_will_do_fn *will_do, void *ctx,
                     struct bmoe_error *err)
{
    char names[256];
    list_names(names, sizeof names);
    for (int want = 3; want > 0; want--) {
        for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
            ggml_backend_dev_t dev = ggml_backend_dev_get(i);
            if (usable(dev) && rank(dev) == want && (!will_do || will_do(ctx, dev)) &&
                try_open(out, dev))
                return BMOE_OK;
        }
    }
    return error_set(err, BMOE_E_DEVICE, BMOE_SCOPE_REQUEST,
                     "no device opens and takes this model's experts (devices: %s)", names);
}

/* Unloads what was not there before, but for one. */
static void unload_others(size_t n_before, ggml_backend_reg_t keep)
{
    for (size_t n = ggml_backend_reg_count(); n > n_before; n--) {
        ggml_backend_reg_t reg = ggml_backend_reg_get(n - 1);
        if (reg != keep)
            ggml_backend_unload(reg);
    }
}

static bool is_hexagon(const char *name)
{
    return strncasecmp(name, "HTP", 3) == 0;
}

int device_open(struct device_opened *out, const char *name, const char *dir,
                device_will_do_fn *will_do, void *ctx, struct bmoe_error *err)
{
    ggml_log_callback log;
    void *log_user;
    size_t n_before = ggml_backend_reg_count();
    bool unset = getenv(HOST_BUFFERS) == NULL && (is_hexagon(name) || strcmp(name, "auto") == 0);
    *out = (struct device_opened){0};
    if (unset)
        setenv(HOST_BUFFERS, "1", 0);
    ggml_log_get(&log, &log_user);
    ggml_log_set(drop_line, NULL);
    ggml_backend_load_all_from_path(dir);
    int rc =
        strcmp(name, "auto") == 0 ? open_best(out, will_do, ctx, err) : open_named(out, name, err);
    ggml_backend_reg_t keep = rc == BMOE_OK ? ggml_backend_dev_backend_reg(out->device) : NULL;
    unload_others(n_before, keep);
    ggml_log_set(log, log_user);
    if (rc == BMOE_OK && unset && is_hexagon(ggml_backend_dev_name(out->device)))
        out->set_in_environment = HOST_BUFFERS "=1";
    else if (unset)
        unsetenv(HOST_BUFFERS);
    return rc;
}
