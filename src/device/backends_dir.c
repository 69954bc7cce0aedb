/*
 * The distribution puts ggml's backends in a folder below the one of libggml itself, and so does an
 * install of ours. So the folder is found from the library in use, wherever that was moved to after
 * the build; a library built otherwise has its folder from the build.
 */
#include "device/backends_dir.h"

#include <dlfcn.h>
#include <ggml-backend.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *backends_dir_choose(const char *given, char *room, size_t bytes)
{
    ggml_backend_reg_t (*in_libggml)(const char *) = ggml_backend_load;
    const void *address;
    Dl_info library;

    if (given)
        return given;
    memcpy(&address, &in_libggml, sizeof address);
    if (dladdr(address, &library) && library.dli_fname) {
        const char *slash = strrchr(library.dli_fname, '/');
        int folder = slash ? (int)(slash - library.dli_fname) : 0;
        int n = snprintf(room, bytes, "%.*s/%s", folder, library.dli_fname, BMOE_BACKENDS_SUBDIR);
        if (slash && n > 0 && (size_t)n < bytes && access(room, R_OK | X_OK) == 0)
            return room;
    }
    return BMOE_BACKENDS_DIR;
}
