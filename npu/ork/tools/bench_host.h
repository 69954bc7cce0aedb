/* The host's own share of a matmul, per kernel table this processor runs; no device is opened. */
#ifndef ORK_BENCH_HOST_H
#define ORK_BENCH_HOST_H

/* Both print a table to stdout and return the exit status. */
int bench_fwht(void);
/* Packing of weights and inputs and read-back, in GB/s read plus written, on one thread; and what
 * planning a matmul and writing its commands takes. */
int bench_host(void);

#endif
