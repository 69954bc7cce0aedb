/*
 * One line per device: name, kind, memory, description. See device_list.h.
 */
#include "device_list.h"

#include <stdio.h>
#include <string.h>

static void on_device(void *user, const struct bmoe_device *d)
{
    char line[512];
    int bytes = snprintf(line, sizeof(line), "%-12s %-6s %7llu MiB free of %7llu MiB  %s\n",
                         d->name, d->kind, (unsigned long long)(d->free_bytes >> 20),
                         (unsigned long long)(d->total_bytes >> 20), d->description);

    if (bytes > 0)
        output_write(user, line, strlen(line));
}

int device_list_print(struct output *out, struct bmoe_error *err)
{
    int rc = bmoe_devices_visit(NULL, on_device, out, err);

    return rc < 0 ? rc : output_end(out, err);
}
