/*
 * Finding and opening the device that prefill runs on, before a model is loaded.
 */
#ifndef BMOE_DEVICE_DEVICE_OPEN_H
#define BMOE_DEVICE_DEVICE_OPEN_H

#include "base/log.h"

#include <ggml-backend.h>

struct device_opened {
    ggml_backend_dev_t device;
    ggml_backend_t backend;         /* keeps the device's session open; ggml_backend_free ends it */
    const char *set_in_environment; /* NAME=VALUE that was set for the device's backend, or NULL */
};

/* Whether a device found by `auto` will do. */
typedef bool device_will_do_fn(void *ctx, ggml_backend_dev_t device);

/* A Hexagon backend is told by the environment, unless that says otherwise, to offer memory that
 * both sides address; so no other thread may use the environment meanwhile.
 * Loads the backends of dir and opens the device called `name`, or for "auto" the best that opens
 * and will do. Backends of other devices are unloaded again; network endpoints are never loaded.
 * Fails with DEVICE and one sentence that lists the devices there are. */
int device_open(struct device_opened *out, const char *name, const char *dir,
                device_will_do_fn *will_do, void *ctx, struct bmoe_error *err);

#endif
