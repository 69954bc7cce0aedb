/*
 * bmoe-bench device: prefill on a device against max(its time, its reads).
 */
#ifndef BENCH_DEVICE_COMMAND_H
#define BENCH_DEVICE_COMMAND_H

int device_main(int argc, char **argv);

#endif
