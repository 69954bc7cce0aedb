/*
 * The other half of a loopback device: loopback_server BACKENDS_DIR PORT THREADS serves ggml's RPC
 * backend over the best CPU backend on 127.0.0.1, until its parent ends. The same kernels as the
 * parent's, so that where a graph is computed is the only difference. Exits 77 when there is no RPC
 * backend.
 */
#include <ggml-backend.h>
#include <ggml-rpc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "engine/session.h"

int main(int argc, char **argv)
{
    char path[4096], endpoint[64], variant[64] = "";
    struct bmoe_error err;
    if (argc != 4)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%s/libggml-rpc.so", argv[1]);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", argv[2]);
    if (backend_load_cpu(argv[1], variant, sizeof variant, &err) < 0)
        return 1;
    ggml_backend_reg_t rpc = ggml_backend_load(path);
    if (!rpc)
        return 77;
    void *symbol = ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_start_server");
    void (*start)(const char *, const char *, size_t, size_t, ggml_backend_dev_t *) = NULL;
    memcpy(&start, &symbol, sizeof start);
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!start || !cpu)
        return 77;
    start(endpoint, NULL, strtoul(argv[3], NULL, 10), 1, &cpu);
    return 0;
}
