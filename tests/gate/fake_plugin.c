/*
 * The tests' device as a backend that a program loads by GGML_BACKEND_PATH, under the name that
 * FAKE_DEVICE_NAME gives.
 */
#include "fake_device.h"

#include "ggml_backend_abi.h"

#include <stdlib.h>

ggml_backend_reg_t ggml_backend_init(void);

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void)
{
    static ggml_backend_dev_t device;
    const char *name = getenv("FAKE_DEVICE_NAME");
    if (name)
        fake_name = name;
    if (!device)
        device = fake_device(2);
    return device ? device->reg : NULL;
}
