/*
 * --list-devices: the devices of ggml as a table on standard output.
 */
#ifndef BMOE_CLI_DEVICE_LIST_H
#define BMOE_CLI_DEVICE_LIST_H

#include "bmoe.h"
#include "output.h"

/* Answers 0, or a negative code with the sentence in *err. */
int device_list_print(struct output *out, struct bmoe_error *err);

#endif
