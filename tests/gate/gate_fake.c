/* The fake device for a gate: see gate_fake.h. */
#include "gate_fake.h"

#include "device/backends_dir.h"
#include "engine/session.h"

ggml_backend_dev_t gate_fake_open(int argc, char **argv, const char **model)
{
    char room[4096], variant[64] = "";
    struct bmoe_error err;

    if (argc != 2)
        return NULL;
    *model = argv[1];
    if (backend_load_cpu(backends_dir_choose(NULL, room, sizeof room), variant, sizeof variant,
                         &err) < 0)
        return NULL;
    return fake_device(2);
}

int gate_fake_heal(void **state)
{
    (void)state;
    fake_device_heal();
    return 0;
}
