/*
 * A device whose kernels are the CPU's: a child process that serves ggml's RPC backend on
 * 127.0.0.1. Only tests have it; the program accepts no network endpoint.
 */
#ifndef GATE_LOOPBACK_H
#define GATE_LOOPBACK_H

#include <ggml-backend.h>
#include <sys/types.h>

/* Starts loopback_server, which lies beside this program, and answers its device; NULL with a
 * sentence on stderr when there is no RPC backend. Ends with this process. */
ggml_backend_dev_t loopback_device(unsigned n_threads);

#endif
