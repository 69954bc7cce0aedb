/*
 * Listing ggml's devices. All backends of the folder are loaded for the time of the call and those
 * that were not there before are unloaded again: a backend that stays would be added by libllama to
 * every context, and an accelerator among them changes bits.
 */
#include "bmoe.h"

#include "base/error.h"
#include "device/backends_dir.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <limits.h>

static void drop_line(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static const char *kind_name(enum ggml_backend_dev_type type)
{
    switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
        return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_GPU:
        return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
        return "igpu";
    case GGML_BACKEND_DEVICE_TYPE_ACCEL:
        return "accel";
    default:
        return "other";
    }
}

static void show(ggml_backend_dev_t dev,
                 void (*on_device)(void *user, const struct bmoe_device *device), void *user)
{
    struct ggml_backend_dev_props props = {0};
    struct bmoe_device device = {.size = sizeof(device)};

    ggml_backend_dev_get_props(dev, &props);
    device.name = props.name;
    device.description = props.description;
    device.kind = kind_name(props.type);
    device.total_bytes = props.memory_total;
    device.free_bytes = props.memory_free;
    on_device(user, &device);
}

int bmoe_devices_visit(const char *backends_dir,
                       void (*on_device)(void *user, const struct bmoe_device *device), void *user,
                       struct bmoe_error *err)
{
    char room[PATH_MAX];
    const char *dir = backends_dir_choose(backends_dir, room, sizeof room);
    size_t n_before = ggml_backend_reg_count();
    size_t n_devices;
    ggml_log_callback log;
    void *log_user;

    if (on_device == NULL)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "bmoe_devices_visit needs a function to call");
    ggml_log_get(&log, &log_user);
    ggml_log_set(drop_line, NULL);
    ggml_backend_load_all_from_path(dir);
    n_devices = ggml_backend_dev_count();
    for (size_t i = 0; i < n_devices; i++)
        show(ggml_backend_dev_get(i), on_device, user);
    for (size_t n = ggml_backend_reg_count(); n > n_before; n--)
        ggml_backend_unload(ggml_backend_reg_get(n - 1));
    ggml_log_set(log, log_user);
    if (n_devices == 0)
        return error_set(err, BMOE_E_SEAM, BMOE_SCOPE_PROCESS,
                         "ggml finds no device: there is no backend in %s", dir);
    return 0;
}
